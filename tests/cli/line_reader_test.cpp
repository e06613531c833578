#include "cli/line_reader.h"

#include <sstream>
#include <streambuf>

#include "tests/test.h"

using namespace fovea;

namespace {

// A pipe into which something is written piece by piece. Asking for more than is there waits for the next piece.
class Pipe : public std::streambuf {
 public:
  explicit Pipe(std::vector<std::string> pieces) : pieces_(std::move(pieces)) {}
  int64_t waits = 0;

 protected:
  int_type underflow() override {
    if (next_ == pieces_.size()) return traits_type::eof();
    ++waits;
    std::string& piece = pieces_[next_++];
    setg(piece.data(), piece.data(), piece.data() + piece.size());
    return traits_type::to_int_type(*gptr());
  }

 private:
  std::vector<std::string> pieces_;
  size_t next_ = 0;
};

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("a line is answered before the next one is complete") {
  Pipe pipe({"one\ntwo\nthr", "ee\n", "four"});
  std::istream stream(&pipe);
  cli::LineReader reader(stream, "pipe");
  CHECK(reader.next(10) == Lines{"one", "two"});
  CHECK(pipe.waits == 1);
  CHECK(reader.next(10) == Lines{"three"});
  CHECK(pipe.waits == 2);
  CHECK(reader.next(10) == Lines{"four"});
  CHECK(reader.next(10).empty());
}

TEST_CASE("a reader gives as many lines as are asked for, blank ones too, and none after the end") {
  std::istringstream stream("a\n\r\nc\n\nlast");
  cli::LineReader reader(stream, "text");
  CHECK(reader.next(2) == Lines{"a", ""});
  CHECK(reader.next(2) == Lines{"c", ""});
  CHECK(reader.next(2) == Lines{"last"});
  CHECK(reader.next(2).empty());
}

TEST_CASE("C15: a reader gives lines as they are, and refuses a stream in which there are none") {
  std::istringstream stream("\xEF\xBB\xBFgood\nbad \xFF\n");
  CHECK(cli::LineReader(stream, "lines.txt").next(5) == Lines{"good", "bad \xFF"});
  std::istringstream wide(
      std::string("\xFF\xFE"
                  "a\0\n\0",
                  6));
  cli::LineReader reader(wide, "wide.txt");
  CHECK_THROWS_WITH(reader.next(5), ContainsSubstring("wide.txt") && ContainsSubstring("UTF-16"));
}
