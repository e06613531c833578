#pragma once

#include <memory>

#include "fovea/config/fields.h"
#include "fovea/tasks/task.h"

namespace fovea::classification {

/// The settings of attend().
std::shared_ptr<config::Section> attend_options();

/// Classifies one example and reports what each head looked at. Where the tokens are patches of an image, also
/// - roll-out: what comes of the patches through all layers, residual connections included (Abnar & Zuidema,
///   "Quantifying Attention Flow in Transformers", 2020);
/// - relevance: the same with each weight times its gradient, for one class (Chefer et al., "Generic Attention-model
///   Explainability", 2021).
tasks::Report attend(const train::LoadedRun& run, const tasks::AttendRequest& request);

/// Examples of a part with their likeliest class, scored by the probability of their label.
tasks::Examples examples(const train::LoadedRun& run, const tasks::ExamplesRequest& request);

/// Roll-out over layers of (heads, tokens, tokens), first layer first: (tokens, tokens), rows sum to 1.
at::Tensor roll_out(const std::vector<at::Tensor>& layers);
/// Relevance over layers and their gradients of one logit, both (heads, tokens, tokens): (tokens, tokens).
at::Tensor relevance(const std::vector<at::Tensor>& layers, const std::vector<at::Tensor>& gradients);

}  // namespace fovea::classification
