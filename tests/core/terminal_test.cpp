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

TEST_CASE("the height is that of the terminal; the locale says whether text is UTF-8") {
  const Terminal terminal;  // 24 lines
  const int no_terminal = ::open("/dev/null", O_WRONLY);
  CHECK(fovea::terminal_height(terminal.fd(), 7) == 24);
  CHECK(fovea::terminal_height(no_terminal, 7) == 7);

  const Variable term("TERM", "xterm"), no_color("NO_COLOR", nullptr);
  CHECK(fovea::takes_colour(terminal.fd()));
  CHECK_FALSE(fovea::takes_colour(no_terminal));
  ::close(no_terminal);

  const Variable all("LC_ALL", nullptr), ctype("LC_CTYPE", nullptr), lang("LANG", "de_DE.UTF-8");
  CHECK(fovea::locale_is_utf8());
  {
    const Variable first("LC_ALL", "C");
    CHECK_FALSE(fovea::locale_is_utf8());
  }
  const Variable second("LC_CTYPE", "C.utf8"), last("LANG", "C");
  CHECK(fovea::locale_is_utf8());
}
