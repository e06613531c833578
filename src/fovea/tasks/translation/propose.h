#pragma once

#include <optional>

#include "fovea/tasks/proposal.h"

namespace fovea::translation {

/// A configuration for a corpus: one file of "source<TAB>target" lines, or two parallel files. Nothing for files that
/// hold something else; Error for a corpus that is damaged.
std::optional<tasks::Proposal> propose(const tasks::ProposalRequest& request);

}  // namespace fovea::translation
