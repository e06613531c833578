#include "line_reader.h"

#include <algorithm>

#include "fovea/data/text.h"

namespace fovea::cli {

bool LineReader::take_line(std::string& line) {
  const size_t end = buffer_.find('\n', searched_);
  if (end == std::string::npos) {
    searched_ = buffer_.size();
    return false;
  }
  line = buffer_.substr(begin_, end + 1 - begin_);
  begin_ = searched_ = end + 1;
  return true;
}

bool LineReader::fill() {
  constexpr std::streamsize kMost = 1 << 16;
  if (stream_.peek() == std::istream::traits_type::eof()) return false;
  buffer_.erase(0, begin_);
  searched_ -= begin_;
  begin_ = 0;
  const auto before = buffer_.size();
  const std::streamsize there = std::clamp<std::streamsize>(stream_.rdbuf()->in_avail(), 1, kMost);
  buffer_.resize(before + static_cast<size_t>(there));
  stream_.read(buffer_.data() + before, there);
  buffer_.resize(before + static_cast<size_t>(stream_.gcount()));
  return true;
}

std::vector<std::string> LineReader::next(size_t most) {
  std::vector<std::string> lines;
  std::string line;
  while (lines.size() < most) {
    if (!take_line(line)) {
      // Someone waits for the answers to these, whether or not the next line is on its way.
      if (!lines.empty() && stream_.rdbuf()->in_avail() <= 0) break;
      if (fill()) continue;
      if (begin_ == buffer_.size()) break;
      // Without its end: a character is cut off only where the whole text ends.
      line = buffer_.substr(begin_);
      begin_ = searched_ = buffer_.size();
    }
    const auto cut = data::split_lines(is_first_ ? data::check_encoding(line, name_) : line);
    is_first_ = false;
    lines.emplace_back(cut.empty() ? std::string_view() : cut.front());
  }
  return lines;
}

}  // namespace fovea::cli
