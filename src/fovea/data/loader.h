#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>

#include "fovea/data/data_module.h"

namespace fovea::data {

/// Makes the batches of an epoch, from any one on, ahead of their use on a thread of its own. What is thrown there is
/// thrown by next().
class Loader {
 public:
  /// `data` must live as long as the loader. `ahead`: batches made in advance at most.
  Loader(const DataModule& data, Part part, int64_t epoch, int64_t first = 0, int64_t ahead = 4);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// All batches of the epoch, those before `first` too.
  int64_t batches() const { return static_cast<int64_t>(plan_.size()); }

  /// The next batch; nothing after the last one.
  std::optional<Batch> next();

 private:
  void run(int64_t first);

  const DataModule& data_;
  const Part part_;
  const int64_t epoch_;
  const BatchPlan plan_;
  const size_t ahead_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Batch> ready_;
  std::exception_ptr error_;
  bool done_ = false, stop_ = false;
  std::thread thread_;  // last: starts when all above is there
};

}  // namespace fovea::data
