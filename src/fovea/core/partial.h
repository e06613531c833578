#pragma once

#include <filesystem>

namespace fovea {

/// A file or a directory in the making, beside its place as ".<name>.partial": gone at the end unless put in place.
class Partial {
 public:
  explicit Partial(std::filesystem::path target);
  ~Partial();
  Partial(const Partial&) = delete;
  Partial& operator=(const Partial&) = delete;

  const std::filesystem::path& path() const { return path_; }
  /// Renames it, over a file that is there. Throws Error naming the target.
  void put_in_place();

 private:
  std::filesystem::path target_, path_;
};

}  // namespace fovea
