#pragma once

#include <memory>

#include "fovea/config/fields.h"
#include "fovea/tasks/task.h"

namespace fovea::translation {

/// The settings of attend().
std::shared_ptr<config::Section> attend_options();

/// Translates one sentence, or takes a translation that is given, and reports what encoder and decoder looked at on the
/// way. A decoder's row is the token that is written there; its columns are what is read: tokens of the source, or
/// those written before, beginning with `<bos>`.
tasks::Report attend(const train::LoadedRun& run, const tasks::AttendRequest& request);

/// Pairs of a part with their translations, greedy, scored by d2l's bleu.
tasks::Examples examples(const train::LoadedRun& run, const tasks::ExamplesRequest& request);

}  // namespace fovea::translation
