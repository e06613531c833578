#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace fovea {

/// The candidate that `word` was probably meant to be, for "did you mean"; empty if none is near.
/// Near is: the same but for case and '-' or '_'; few letters added, dropped, changed or swapped
/// (one in three); or a part of at least four letters ("hiddens" for "num_hiddens"). Ties go to the
/// first candidate.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

/// "; did you mean 'num_heads'?", or nothing if no candidate is near.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace fovea
