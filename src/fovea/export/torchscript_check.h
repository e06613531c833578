#pragma once

#include <torch/csrc/jit/api/module.h>

#include <functional>
#include <string>

#include "fovea/data/data_module.h"
#include "fovea/tasks/classification/classifier.h"
#include "fovea/decode/seq2seq.h"

namespace fovea::exports {

/// What a comparison found. Differences are divided by the largest value compared with, where that is above 1.
struct Comparison {
  int64_t cases = 0;
  double largest = 0;
  std::string sizes;  // in words
};

inline constexpr double kExportTolerance = 1e-5;

/// A loaded file against the live model: batches of 1 and 3, 1, 9, 37, data.num_steps and max_len tokens (as far as the
/// model takes them), full and partial valid_lens and valid_lens of 0: teacher-forced logits, the state, steps across a
/// reorder of the beam, and generate(), greedy and with beams, against decode::search, where everything must be equal.
/// Throws Error saying what differs, or fails, and at which sizes.
Comparison compare_seq2seq(const torch::jit::Module& loaded, decode::Seq2Seq& live, const data::DataAssets& assets,
                           const std::function<void(const std::string&)>& say);

/// The same for images: batches of 1 and 3, floats and bytes, of the model's size, larger, smaller and oblong.
Comparison compare_classifier(const torch::jit::Module& loaded, classification::Classifier& live, const classification::ImageInput& input,
                              const std::function<void(const std::string&)>& say);

}  // namespace fovea::exports
