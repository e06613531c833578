#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace fovea::tasks {

/// What a model makes of one input.
struct Prediction {
  std::string text;     // its lines, without the last line's end
  std::string json;     // one object
  std::string error;    // why there is none; then `text` is empty
  std::string warning;  // something the user should know: "longer than 8 tokens (data.num_steps) and cut"
};

/// A trained model in use. Const and safe to be called from several threads.
class Predictor {
 public:
  virtual ~Predictor() = default;
  /// One prediction for each input, in their order.
  virtual std::vector<Prediction> predict(const std::vector<std::string>& inputs) const = 0;
  /// How many inputs are worth giving at once.
  virtual size_t batch_size() const = 0;
};

}  // namespace fovea::tasks
