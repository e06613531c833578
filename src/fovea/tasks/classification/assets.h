#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <vector>

#include "fovea/data/data_module.h"
#include "fovea/export/script_recipe.h"
#include "fovea/tasks/classification/classifier.h"
#include "fovea/tasks/classification/spec.h"
#include "fovea/tasks/report.h"

namespace fovea::classification {

/// From an example to a model's input, and from its output to a name. Each kind of data derives its own, so that one
/// evaluation, one predictor and one export serve all of them.
class ClassificationAssets : public data::DataAssets {
 public:
  const ClassificationSpec& spec() const override = 0;
  virtual const std::vector<std::string>& class_names() const = 0;
  /// What a user gives to be classified, read into the tensor that make_batch takes: here the path of an image, there a
  /// sentence. Throws Error saying what is wrong with it.
  virtual at::Tensor read_example(const std::string& input) const = 0;
  /// Examples as the model takes them, without "label".
  virtual data::Batch make_batch(const std::vector<at::Tensor>& examples) const = 0;
  /// An example as a picture, where it is an image.
  virtual std::optional<tasks::Report::Picture> picture(const at::Tensor& /*example*/) const { return std::nullopt; }
  /// How a model of this data becomes TorchScript.
  virtual exports::ScriptRecipe script(const Classifier& model) const = 0;

  /// The class names of the axis "classes".
  std::vector<std::string> labels(std::string_view axis) const override {
    return axis == "classes" ? class_names() : std::vector<std::string>{};
  }
};

}  // namespace fovea::classification
