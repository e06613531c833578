#pragma once

#include "fovea/tasks/task.h"

namespace fovea::translation {

/// What is in a corpus: its parts, lengths, words and how many of them the vocabularies know, pairs that are doubtful
/// (the same on both sides, a writing that the side is not in, far longer or shorter than its translation), pairs that
/// stand there twice, some examples.
tasks::Report inspect(const tasks::InspectRequest& request);

}  // namespace fovea::translation
