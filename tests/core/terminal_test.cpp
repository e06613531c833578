#include "fovea/core/terminal.h"

#include "tests/catch.h"
#include "tests/core/pseudo_terminal.h"

using fovea::terminal_width;

TEST_CASE("C63: the width is that of COLUMNS, else of the terminal, else what the caller wants") {
  const Terminal terminal;  // 60 columns
  const int no_terminal = ::open("/dev/null", O_WRONLY);
  {
    const Variable columns("COLUMNS", nullptr);
    CHECK(terminal_width(terminal.fd(), 80) == 60);
    CHECK(terminal_width(no_terminal, 80) == 80);
    CHECK(terminal_width(no_terminal, 0) == 0);
  }
  {
    const Variable columns("COLUMNS", "100");
    CHECK(terminal_width(terminal.fd(), 80) == 100);
    CHECK(terminal_width(no_terminal, 0) == 100);
  }
  for (const char* wrong : {"", "0", "-5", "wide"}) {
    const Variable columns("COLUMNS", wrong);
    CHECK(terminal_width(terminal.fd(), 80) == 60);
  }
  ::close(no_terminal);
}
