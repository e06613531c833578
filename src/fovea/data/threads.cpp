#include "fovea/data/threads.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace fovea::data {

void for_each_on_threads(size_t count, const std::function<void(size_t)>& work) {
  constexpr size_t kAtOnce = 16;
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  std::exception_ptr error;
  const auto run = [&] {
    try {
      for (size_t begin = next.fetch_add(kAtOnce); begin < count; begin = next.fetch_add(kAtOnce)) {
        for (size_t i = begin; i < std::min(count, begin + kAtOnce); ++i) work(i);
      }
    } catch (...) {
      next = count;
      const std::lock_guard lock(mutex);
      if (error == nullptr) error = std::current_exception();
    }
  };
  std::vector<std::thread> others;
  for (int t = 1; t < at::get_num_threads(); ++t) others.emplace_back(run);
  run();
  for (auto& thread : others) thread.join();
  if (error != nullptr) std::rethrow_exception(error);
}

}  // namespace fovea::data
