#include "fovea/core/output.h"

#include <unistd.h>

#include <algorithm>

#include "fovea/core/error.h"

namespace fovea {

namespace fs = std::filesystem;

namespace {

constexpr int kMostLinks = 40;  // as Linux

// What the path stands for, also where that is not there yet.
fs::path follow_links(fs::path path, const std::string& label) {
  std::error_code error;
  for (int links = 0; fs::is_symlink(fs::symlink_status(path, error)); ++links) {
    if (links == kMostLinks) fail_usage("{}: is a link to itself", label);
    path = path.parent_path() / fs::read_symlink(path, error);
  }
  return path;
}

std::string_view describe(fs::file_type type) {
  switch (type) {
    case fs::file_type::regular:
      return "a file";
    case fs::file_type::directory:
      return "a directory";
    case fs::file_type::fifo:
      return "a pipe";
    case fs::file_type::socket:
      return "a socket";
    default:
      return "a device";
  }
}

// Whether `path` is one of the sources or lies in one.
bool is_source(const fs::path& path, const fs::path& source) {
  std::error_code error;
  if (fs::equivalent(path, source, error)) return true;
  if (!fs::is_directory(source, error)) return false;
  const fs::path inner = fs::canonical(path, error), outer = fs::canonical(source, error);
  return !error && std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

}  // namespace

fs::path check_output(const Output& output) {
  const std::string label = output.option + " " + output.path.string();
  const bool is_file = output.form == Output::Form::kFile;
  const fs::path named = is_file || output.path.has_filename() ? output.path : output.path.parent_path();  // "dir/"
  if (named.filename() == "-") {
    fail_usage("{}: the standard output is not for this; name {}", label, is_file ? "a file" : "a directory");
  }
  if (!named.has_filename()) fail_usage("{}: expected a name", label);
  std::error_code error;
  const fs::file_status found = fs::status(named, error);  // of /dev/stdout, the pipe
  if (fs::exists(found)) {
    const fs::file_type wanted = is_file ? fs::file_type::regular : fs::file_type::directory;
    if (found.type() != wanted) {
      fail_usage("{}: is {}, which is not replaced; expected a name for {}", label, describe(found.type()),
                 describe(wanted));
    }
    for (const fs::path& source : output.sources) {
      if (is_source(named, source)) {
        fail_usage("{}: is read here, so it cannot be written; choose another name", label);
      }
    }
    if (!output.overwrite) fail_usage("{}: already exists; replace it with --overwrite", label);
  }
  const fs::path path = fs::exists(found) ? fs::canonical(named) : follow_links(named, label);
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  if (!fs::is_directory(folder, error)) fail_usage("{}: there is no directory {}", label, folder.string());
  if (::access(folder.c_str(), W_OK | X_OK) != 0) {
    fail_usage("{}: the directory {} is not writable", label, folder.string());
  }
  return path;
}

}  // namespace fovea
