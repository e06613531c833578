#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "fovea/tasks/report.h"

namespace fovea::tasks {

/// What a report says of recorded weights (heads, queries, keys) of one input, on any device.
Report::Attention described(const std::string& path, const std::string& group, const at::Tensor& weights,
                            std::vector<std::string> queries, std::vector<std::string> keys);

/// Throws a usage Error that asks for one input where there are more; `noun` is what one is called.
const std::string& only_input(const std::vector<std::string>& inputs, const std::string& noun);

/// The places of at most `count` examples: a third of the worst, a third of the best, and some between, in that order.
std::vector<size_t> worth_explaining(const std::vector<Report::Example>& examples, int64_t count);

/// `most` places at most of 0 to size - 1, evenly spread, ascending.
std::vector<int64_t> spread_over(int64_t size, int64_t most);

/// Throws a usage Error where nothing was recorded: the model has no attention.
void check_recorded(const std::vector<Report::Attention>& attentions, const std::string& model);

}  // namespace fovea::tasks
