#pragma once

#include "fovea/export/script_recipe.h"
#include "fovea/tasks/classification/classifier.h"
#include "fovea/tasks/classification/images/image_assets.h"

namespace fovea::classification {

/// How a classifier of images becomes TorchScript. The module's methods:
///   forward(image)     logits (batch, num_classes) of images of any size
///   preprocess(image)  what the network sees of them: (batch, channels, height, width), normalised
/// Images are (batch, channels, any height, any width), bytes (uint8, 0 to 255) or floats (bytes / 255). Floats outside
/// 0 to 1 and NaN are errors. Images are resized with antialiased bilinear interpolation, as PIL does it: across and
/// then down, bytes rounded after either, so that bytes and bytes / 255 of another size differ by a rounding at most.
/// .half(), .bfloat16() and .double() of the module work: images are given as before, logits come in that type.
/// Attributes: channels, height, width, class_names. Further file: class_names.txt, one a line.
///
/// Compared are batches of 1 and 3, floats and bytes, of the model's size, larger, smaller and oblong.
exports::ScriptRecipe script_recipe(const Classifier& model, const ImageAssets& assets);

}  // namespace fovea::classification
