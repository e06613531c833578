#pragma once

#include <istream>
#include <string>
#include <vector>

namespace fovea::cli {

/// Lines of a stream, some at a time: output appears while input still comes. What is in them is checked by whoever
/// reads them.
class LineReader {
 public:
  /// `name` stands for the stream in errors.
  LineReader(std::istream& stream, std::string name) : stream_(stream), name_(std::move(name)) {}

  /// The next lines, `most` at most; none at the end. Lines that are there are not held back until more comes: not
  /// until `most` of them are there, nor until the next one is complete. Throws Error naming the stream for UTF-16 and
  /// UTF-32, in which no line would be found.
  std::vector<std::string> next(size_t most);

 private:
  bool take_line(std::string& line);  // with its end; false where no whole line is there
  bool fill();                        // waits for more; false at the end

  std::istream& stream_;
  std::string name_;
  std::string buffer_;  // read and not taken: from begin_ on
  size_t begin_ = 0, searched_ = 0;
  bool is_first_ = true;
};

}  // namespace fovea::cli
