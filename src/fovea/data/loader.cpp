#include "fovea/data/loader.h"

namespace fovea::data {

Loader::Loader(const DataModule& data, Part part, int64_t epoch, const LoaderOptions& options)
    : data_(data), part_(part), epoch_(epoch), plan_(data.plan(part, epoch)), options_(options), thread_([this] {
        run();
      }) {}

Loader::~Loader() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Loader::run() {
  const auto ahead = static_cast<size_t>(options_.ahead), ranks = static_cast<size_t>(options_.ranks);
  try {
    for (auto i = static_cast<size_t>(options_.first + options_.rank); i < plan_.size(); i += ranks) {
      Batch batch = data_.batch(part_, epoch_, plan_[i]);
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stop_ || ready_.size() < ahead; });
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
