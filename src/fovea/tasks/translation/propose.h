#pragma once

#include "fovea/tasks/proposal.h"

namespace fovea::translation {

/// A configuration for a corpus: one file of "source<TAB>target" lines, or two parallel files. A reason for
/// files that hold something else; Error for a corpus that is damaged.
tasks::ProposalOrReason propose(const tasks::ProposalRequest& request);

}  // namespace fovea::translation
