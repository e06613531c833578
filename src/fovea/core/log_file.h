#pragma once

#include <filesystem>
#include <string_view>
#include <utility>

namespace fovea {

/// A text file for people that lines are added to. Failing to write is ignored: what matters is written elsewhere, and
/// a full disk is found there.
class LogFile {
 public:
  /// Goes on behind what the file holds. It is opened, or made, with the first line.
  explicit LogFile(std::filesystem::path path) : path_(std::move(path)) {}
  ~LogFile();
  LogFile(const LogFile&) = delete;
  LogFile& operator=(const LogFile&) = delete;

  void write(std::string_view text);

 private:
  std::filesystem::path path_;
  int fd_ = -1;
};

}  // namespace fovea
