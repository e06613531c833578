#include "fovea/tasks/attention.h"

#include <ATen/ATen.h>

#include "fovea/core/error.h"

namespace fovea::tasks {

Report::Attention described(const std::string& path, const std::string& group, const at::Tensor& weights,
                            std::vector<std::string> queries, std::vector<std::string> keys) {
  const auto rows = static_cast<int64_t>(queries.size()), columns = static_cast<int64_t>(keys.size());
  if (weights.dim() != 3 || weights.size(1) != rows || weights.size(2) != columns) {
    fail("attention weights of {}: expected (heads, {}, {}), got {}", path, rows, columns, c10::str(weights.sizes()));
  }
  const at::Tensor values = weights.detach().to(at::kCPU, at::kFloat).contiguous();
  const float* begin = values.const_data_ptr<float>();
  return {.key = path,
          .group = group,
          .queries = std::move(queries),
          .keys = std::move(keys),
          .heads = weights.size(0),
          .weights = {begin, begin + values.numel()}};
}

const std::string& only_input(const std::vector<std::string>& inputs, const std::string& noun) {
  if (inputs.size() > 1) {
    fail_usage("attention is shown for one {} at a time, got {}; put a text of several words into quotes", noun,
               inputs.size());
  }
  return inputs.front();
}

void check_recorded(const std::vector<Report::Attention>& attentions, const std::string& model) {
  if (attentions.empty()) fail_usage("the model of this run ({}) has no attention to show", model);
}

}  // namespace fovea::tasks
