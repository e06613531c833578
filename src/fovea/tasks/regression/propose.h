#pragma once

#include "fovea/tasks/proposal.h"

namespace fovea::regression {

/// A configuration for one table of numbers, the last column of which is to be predicted. A reason for files that
/// hold something else; Error for a table that is damaged.
tasks::ProposalOrReason propose(const tasks::ProposalRequest& request);

}  // namespace fovea::regression
