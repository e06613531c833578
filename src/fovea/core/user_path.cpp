#include "fovea/core/user_path.h"

#include <cstdlib>

#include "fovea/core/error.h"

namespace fovea {

std::string user_path(const std::string& text) {
  std::error_code error;
  for (const char* scheme : {"https://", "http://", "ftp://", "s3://"}) {
    if (text.starts_with(scheme)) fail_usage("{}: is a web address; fetch it first and name the file", text);
  }
  if (text.starts_with("~") && !std::filesystem::exists(text, error)) {
    const char* home = std::getenv("HOME");
    if (text.size() > 1 && text[1] != '/') {
      fail_usage("{}: a home directory of another user is not looked up; write the whole path", text);
    }
    if (home == nullptr || *home == '\0') fail_usage("{}: HOME is not set; write the whole path", text);
    return home + text.substr(1);
  }
  if (text.find('*') != std::string::npos && !std::filesystem::exists(text, error)) {
    fail_usage("{}: '*' stands for nothing here; name one file or directory", text);
  }
  return text;
}

bool is_lasting(const std::filesystem::path& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status) || std::filesystem::is_directory(status)) return true;
  const std::string name = path.string();
  const bool is_own_descriptor = name == "/dev/stdin" || name.starts_with("/dev/fd/") || name.starts_with("/proc/");
  return std::filesystem::is_regular_file(status) && !is_own_descriptor;
}

}  // namespace fovea
