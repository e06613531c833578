#pragma once

#include <cstdint>
#include <istream>
#include <string>
#include <vector>

namespace fovea::cli {

/// Lines of a stream, checked as UTF-8 text, some at a time: output appears while input still comes.
class LineReader {
 public:
  /// `name` stands for the stream in errors.
  LineReader(std::istream& stream, std::string name) : stream_(stream), name_(std::move(name)) {}

  /// The next lines, `most` at most; none at the end. Where somebody types, each line comes at once.
  /// Throws Error naming the line for what is no text.
  std::vector<std::string> next(size_t most);

 private:
  std::istream& stream_;
  std::string name_;
  int64_t number_ = 0;
};

}  // namespace fovea::cli
