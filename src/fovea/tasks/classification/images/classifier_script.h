#pragma once

#include "fovea/tasks/classification/images/image_input.h"
#include "fovea/tasks/classification/classifier.h"
#include "fovea/export/script_module.h"

namespace fovea::classification {

/// Numbers of the channels as (channels, 1, 1), to go with images.
at::Tensor by_channel(const std::vector<double>& values);

/// Adds to the network's module what an image classifier can do:
///   forward(image)     logits (batch, num_classes) of images of any size
///   preprocess(image)  what the network sees of them: (batch, channels, height, width), normalised
/// Images are (batch, channels, any height, any width), bytes (uint8, 0 to 255) or floats (0 to 1). They are resized
/// with antialiased bilinear interpolation, as PIL does it: across and then down, bytes rounded after either.
void add_classifier(exports::ScriptModule& script, Classifier& model, const ImageInput& input);

}  // namespace fovea::classification
