#include "fovea/data/loader.h"

namespace fovea::data {

Loader::Loader(const DataModule& data, Part part, int64_t epoch, int64_t first, int64_t ahead)
    : data_(data),
      part_(part),
      epoch_(epoch),
      plan_(data.plan(part, epoch)),
      ahead_(static_cast<size_t>(ahead)),
      thread_([this, first] { run(first); }) {}

Loader::~Loader() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Loader::run(int64_t first) {
  try {
    for (auto i = static_cast<size_t>(first); i < plan_.size(); ++i) {
      Batch batch = data_.batch(part_, epoch_, plan_[i]);
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stop_ || ready_.size() < ahead_; });
      if (stop_) return;
      ready_.push_back(std::move(batch));
      changed_.notify_all();
    }
  } catch (...) {
    const std::lock_guard lock(mutex_);
    error_ = std::current_exception();
  }
  const std::lock_guard lock(mutex_);
  done_ = true;
  changed_.notify_all();
}

std::optional<Batch> Loader::next() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return done_ || !ready_.empty(); });
  if (!ready_.empty()) {
    Batch batch = std::move(ready_.front());
    ready_.pop_front();
    changed_.notify_all();
    return batch;
  }
  if (error_) std::rethrow_exception(error_);
  return std::nullopt;
}

}  // namespace fovea::data
