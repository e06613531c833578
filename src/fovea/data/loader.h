#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>

#include "fovea/data/data_module.h"

namespace fovea::data {

struct LoaderOptions {
  int64_t first = 0;            // the batch to begin with
  int64_t ahead = 4;            // batches made in advance at most
  int64_t rank = 0, ranks = 1;  // of every `ranks` batches the one with number `rank`
};

/// Makes the batches of an epoch, from any one on, ahead of their use on a thread of its own. What is thrown there is
/// thrown by next().
class Loader {
 public:
  /// `data` must live as long as the loader.
  Loader(const DataModule& data, Part part, int64_t epoch, const LoaderOptions& options = {});
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// All batches of the epoch, those before `first` and of other ranks too.
  int64_t batches() const { return static_cast<int64_t>(plan_.size()); }

  /// The next batch; nothing after the last one.
  std::optional<Batch> next();

 private:
  void run();

  const DataModule& data_;
  const Part part_;
  const int64_t epoch_;
  const BatchPlan plan_;
  const LoaderOptions options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Batch> ready_;
  std::exception_ptr error_;
  bool done_ = false, stop_ = false;
  std::thread thread_;  // last: starts when all above is there
};

}  // namespace fovea::data
