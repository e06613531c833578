#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fovea/tasks/report.h"

namespace fovea::tasks {

/// A bar of block characters: `share` (0 to 1) of `width` columns, to an eighth of a column; something for what is not
/// 0.
std::string bar(double share, int64_t width = 24);

/// One block for each number, as high as its share of the greatest: "▁▃█▂". A space for 0.
std::string sparkline(const std::vector<int64_t>& counts);

/// How many of the values lie in bins of a round width, 12 at most; the last one takes the longest of a thousand
/// together. Columns: `what` ("5 to 9"), from and to in JSON, count, and a bar that is not in JSON.
Report::Grid histogram(const std::string& key, const std::string& what, const std::vector<int64_t>& values);

}  // namespace fovea::tasks
