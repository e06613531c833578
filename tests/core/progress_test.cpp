#include "fovea/core/progress.h"

#include <algorithm>

#include "tests/catch.h"
#include "tests/core/pseudo_terminal.h"
#include "tests/temp_dir.h"

using fovea::Progress;
using fovea::progress_line;
using fovea::ProgressState;

using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;

namespace {

const ProgressState kState = {
    .epoch = 3, .num_epochs = 30, .done = 45, .total = 100, .loss = 1.2344, .lr = 1e-3, .rate = 5300, .eta = 42};

}  // namespace

TEST_CASE("progress: the line and its width", "[progress]") {
  CHECK(progress_line(kState, 200) ==
        "epoch 3/30  [=============>                ] 45%  loss 1.234  lr 1.0e-3  5.3k tok/s  eta "
        "0:42");
  CHECK(progress_line(kState, 73) == "epoch 3/30  [====>     ] 45%  loss 1.234  lr 1.0e-3  5.3k tok/s  eta 0:42");
  CHECK(progress_line(kState, 67) == "epoch 3/30  45%  loss 1.234  lr 1.0e-3  5.3k tok/s  eta 0:42");
  CHECK(progress_line(kState, 20) == "epoch 3/30  45%  lo…");
  CHECK(progress_line(kState, 0).empty());
  CHECK(progress_line({.epoch = 2, .done = 7}, 80) == "epoch 2");
  CHECK(progress_line({.name = "sentences", .done = 7, .rate = 3, .rate_unit = "sentences/s"}, 80) ==
        "sentences  3 sentences/s");
  CHECK_THAT(progress_line({.name = "translating", .done = 1, .total = 2}, 80), ContainsSubstring("translating  [==="));
  CHECK(progress_line({.done = 10, .total = 10}, 80) == "[==============================] 100%");
  CHECK(progress_line({.done = 999, .total = 1000}, 20) == "[=============>] 99%");
  CHECK(progress_line({.done = 12, .total = 10, .rate = 3, .rate_unit = "lines/s"}, 30) ==
        "[============] 100%  3 lines/s");
}

TEST_CASE("progress: plain lines where there is no terminal", "[progress]") {
  const TempDir dir;
  const auto lines = [&](fovea::ProgressOptions options) {
    options.fd = ::open((dir / "log").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    {
      Progress progress(options);
      for (int64_t done = 1; done <= 4; ++done) progress.update({.epoch = 1, .done = done, .total = 4});
      progress.line("valid 2.5");
    }
    ::close(options.fd);
    return read_bytes(dir / "log");
  };
  CHECK(lines({.plain_interval = 1000}) == "epoch 1  25%\nepoch 1  100%\nvalid 2.5\n");
  CHECK(lines({.plain_interval = 0}) == "epoch 1  25%\nepoch 1  50%\nepoch 1  75%\nepoch 1  100%\nvalid 2.5\n");
  CHECK(lines({.quiet = true}).empty());
  const Variable columns("COLUMNS", "8");
  CHECK(lines({.plain_interval = 1000}) == "epoch 1\n  25%\nepoch 1\n  100%\nvalid\n  2.5\n");
}

TEST_CASE("progress: one line redrawn on a terminal", "[progress]") {
  const Terminal terminal;
  const Variable columns("COLUMNS", nullptr);
  const Variable term("TERM", "xterm");
  const Variable no_color("NO_COLOR", "1");
  Progress progress({.fd = terminal.fd(), .redraw_interval = 0});
  CHECK(progress.is_terminal());
  progress.line("before");
  CHECK(terminal.shown() == "before\r\n");
  progress.update({.epoch = 1, .done = 1, .total = 4, .loss = 2});
  CHECK(terminal.shown() == "\r\x1b[Kepoch 1  [=======>                      ] 25%  loss 2.000");
  progress.line("between");
  CHECK(terminal.shown() == "\r\x1b[Kbetween\r\n\r\x1b[Kepoch 1  [=======>                      ] 25%  loss 2.000");
  progress.update(kState);
  CHECK(terminal.shown() == "\r\x1b[Kepoch 3/30  45%  loss 1.234  lr 1.0e-3  5.3k tok/s  eta 0:…");
  progress.finish();
  CHECK(terminal.shown() == "\r\x1b[K");
  progress.finish();
  CHECK(terminal.shown().empty());
}

TEST_CASE("progress: colour, rate of redraws, dumb terminals", "[progress]") {
  const Terminal terminal;
  const Variable columns("COLUMNS", nullptr);
  const Variable no_color("NO_COLOR", nullptr);
  {
    const Variable term("TERM", "xterm");
    Progress progress({.fd = terminal.fd(), .redraw_interval = 1000});
    progress.update({.done = 1, .total = 2});
    CHECK(terminal.shown() == "\r\x1b[K[\x1b[36m===============>              \x1b[0m] 50%");
    progress.update({.done = 1, .total = 2});
    CHECK(terminal.shown().empty());
    progress.update({.done = 2, .total = 2});
    CHECK_FALSE(terminal.shown().empty());
  }
  CHECK(terminal.shown() == "\r\x1b[K");
  const Variable term("TERM", "dumb");
  Progress progress({.fd = terminal.fd()});
  CHECK_FALSE(progress.is_terminal());
  progress.update({.done = 1, .total = 2});
  CHECK(terminal.shown() == "50%\r\n");
}

TEST_CASE("progress: curves above the line, where they were asked for and there is room", "[progress]") {
  const Terminal terminal;
  const Variable columns("COLUMNS", nullptr), term("TERM", "xterm"), no_color("NO_COLOR", "1"), locale("LC_ALL", "C");
  const fovea::Series curve{.name = "training", .x = {1, 2}, .y = {2, 1}};
  Progress progress({.plot = true, .fd = terminal.fd(), .redraw_interval = 0});
  CHECK(progress.plots());
  progress.set_curves({curve}, "loss", "step");
  CHECK(terminal.shown().empty());
  progress.update({.epoch = 1});
  const std::string first = terminal.shown();
  CHECK_THAT(first, StartsWith("\r\x1b[Kloss\r\n") && ContainsSubstring("* training\r\n") && EndsWith("epoch 1"));
  CHECK(std::count(first.begin(), first.end(), '\n') == 12);
  progress.update({.epoch = 2});
  CHECK(terminal.shown() == "\r\x1b[Kepoch 2");  // the chart stays as it is
  progress.line("between");
  CHECK_THAT(terminal.shown(), StartsWith("\r\x1b[12A\x1b[Jbetween\r\nloss\r\n") && EndsWith("epoch 2"));
  progress.finish();
  CHECK(terminal.shown() == "\r\x1b[12A\x1b[J");
  progress.update({.epoch = 3});
  CHECK_THAT(terminal.shown(), StartsWith("\r\x1b[Kloss\r\n"));  // what finish() removed comes back

  const winsize low{10, 60, 0, 0};
  REQUIRE(::ioctl(terminal.fd(), TIOCSWINSZ, &low) == 0);
  progress.set_curves({curve}, "loss", "step");
  progress.update({.epoch = 4});
  CHECK(terminal.shown() == "\r\x1b[12A\x1b[J\r\x1b[Kepoch 4");

  Progress without({.fd = terminal.fd()});
  CHECK_FALSE(without.plots());
  without.set_curves({curve}, "loss", "step");
  without.update({.epoch = 1});
  CHECK(terminal.shown() == "\r\x1b[Kepoch 1");
}
