#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace fovea {

/// A file or a directory that the user told a command to write.
struct Output {
  enum class Form { kFile, kDirectory };

  std::filesystem::path path;
  std::string option;  // for errors: "--output"
  bool overwrite = false;
  Form form = Form::kFile;
  std::vector<std::filesystem::path> sources{};  // files that the command reads, and directories of such files
};

/// The one rule of what a command may write, asked before it does its work. Returns where to write: of a symbolic link
/// the target, so that the link stays one. Throws a usage Error for
///   - the name "-", since the standard output is for results;
///   - a directory to write into that is not there or not writable;
///   - what the command itself reads, whatever `overwrite` says;
///   - what is there and of another form: a pipe and a device are never replaced;
///   - what is there, unless it is to be overwritten.
std::filesystem::path check_output(const Output& output);

}  // namespace fovea
