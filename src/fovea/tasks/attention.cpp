#include "fovea/tasks/attention.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>

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

std::vector<size_t> worth_explaining(const std::vector<Report::Example>& examples, int64_t count) {
  std::vector<size_t> order(examples.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return examples[a].score < examples[b].score; });
  const auto wanted = std::min(static_cast<size_t>(count), order.size());
  const size_t third = wanted / 3, between = wanted - 2 * third;
  std::vector<size_t> chosen(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(third));
  chosen.insert(chosen.end(), order.rbegin(), order.rbegin() + static_cast<std::ptrdiff_t>(third));
  for (const int64_t i : spread_over(static_cast<int64_t>(order.size() - 2 * third), static_cast<int64_t>(between))) {
    chosen.push_back(order[third + static_cast<size_t>(i)]);
  }
  return chosen;
}

std::vector<int64_t> spread_over(int64_t size, int64_t most) {
  std::vector<int64_t> places;
  const int64_t count = std::min(size, most);
  for (int64_t i = 0; i < count; ++i) places.push_back(i * size / count);
  return places;
}

void check_recorded(const std::vector<Report::Attention>& attentions, const std::string& model) {
  if (attentions.empty()) fail_usage("the model of this run ({}) has no attention to show", model);
}

}  // namespace fovea::tasks
