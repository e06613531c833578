#pragma once

#include <optional>

#include "fovea/tasks/proposal.h"

namespace fovea::regression {

/// A configuration for one table of numbers, the last column of which is to be predicted. Nothing for files that hold
/// something else; Error for a table that is damaged.
std::optional<tasks::Proposal> propose(const tasks::ProposalRequest& request);

}  // namespace fovea::regression
