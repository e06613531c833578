#pragma once

#include <cstddef>
#include <functional>

namespace fovea::data {

/// Calls work(i) for i = 0 .. count - 1 on at::get_num_threads() threads, a few at a time, whichever thread is free.
/// What is thrown there is thrown here, once; then the rest is not done.
void for_each_on_threads(size_t count, const std::function<void(size_t)>& work);

}  // namespace fovea::data
