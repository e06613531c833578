#pragma once

#include "fovea/tasks/proposal.h"

namespace fovea::classification {

/// A configuration for labelled images: an IDX file of images and one of labels, in either order. A reason for
/// files that hold something else; Error for files that are damaged.
tasks::ProposalOrReason propose_images(const tasks::ProposalRequest& request);

}  // namespace fovea::classification
