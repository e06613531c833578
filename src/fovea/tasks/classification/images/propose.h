#pragma once

#include "fovea/tasks/proposal.h"

namespace fovea::classification {

/// A configuration for labelled images: an IDX file of images and one of labels, in either order, or a folder as
/// list_image_folder() takes it. A reason for files that hold something else; Error for files that are damaged and for
/// folders of another layout.
tasks::ProposalOrReason propose_images(const tasks::ProposalRequest& request);

}  // namespace fovea::classification
