#include "line_reader.h"

#include <iostream>

#include "fovea/data/text.h"

namespace fovea::cli {

std::vector<std::string> LineReader::next(size_t most) {
  std::vector<std::string> lines;
  std::string line;
  while (lines.size() < most && std::getline(stream_, line)) {
    ++number_;
    // With its end, unless it has none: a character is cut off only where the whole text ends.
    if (!stream_.eof()) line += '\n';
    const auto checked = data::split_lines(data::check_utf8(line, name_, number_));
    lines.emplace_back(checked.empty() ? std::string_view() : checked.front());
    // Someone typing wants an answer now, not after a chunk.
    if (stream_.rdbuf()->in_avail() <= 0 && &stream_ == &std::cin) break;
  }
  return lines;
}

}  // namespace fovea::cli
