#pragma once

#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "fovea/core/log_file.h"
#include "fovea/core/series.h"

namespace fovea {

struct ProgressOptions {
  bool quiet = false;            // show nothing at all
  bool plot = false;             // on a terminal, keep the curves above the line that is redrawn
  int fd = STDERR_FILENO;        // where to
  double plain_interval = 10;    // seconds between lines where there is no terminal
  double redraw_interval = 0.1;  // seconds between redraws on a terminal
  // Gets what a file would get that the output is sent to, also where nothing is shown.
  std::shared_ptr<LogFile> log = nullptr;
};

/// Where a run stands. Numbers that are NaN are left out.
struct ProgressState {
  static constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

  std::string name = "epoch";  // what is counted
  int64_t epoch = 0;           // 1 for the first; 0: no epochs, only a name of one's own
  int64_t num_epochs = 0;      // 0: unknown
  int64_t done = 0;            // batches, lines, ... of this epoch
  int64_t total = 0;           // 0: unknown, no bar
  double loss = kNone;
  std::string loss_name = "loss";
  double lr = kNone;
  double rate = kNone;  // per second
  std::string rate_unit = "tok/s";
  double eta = kNone;  // seconds left
};

/// The state in one line of at most `width` columns; the bar shrinks first, then the text is cut:
/// "epoch 3/30  [=====>    ] 45%  loss 1.234  lr 1.0e-3  5.3k tok/s  eta 0:42"
std::string progress_line(const ProgressState& state, int64_t width);

/// The same without the bar, for logs.
std::string plain_progress_line(const ProgressState& state);

/// Shows progress. On a terminal (unless TERM is dumb) one line is redrawn, in colour unless
/// NO_COLOR is set, and above it a chart where there are curves; elsewhere a plain line appears at most every
/// `plain_interval` seconds and when an epoch is complete (done == total). May be used from several threads. Failing to
/// write is ignored: a run must not end because the terminal did.
class Progress {
 public:
  explicit Progress(const ProgressOptions& options = {});
  ~Progress() { finish(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void update(const ProgressState& state);

  /// Whether curves would be shown: it was asked for, and there is a terminal.
  bool plots() const { return terminal_ && options_.plot; }
  /// Draws these from the next update on, where there is room for them.
  void set_curves(std::vector<Series> curves, std::string title, std::string x_label);

  /// Prints a line that stays, above what is being redrawn, broken where the terminal ends. Nothing if quiet.
  void line(const std::string& text);

  /// Removes what is being redrawn. A later update() draws it anew.
  void finish();

  bool is_terminal() const { return terminal_; }

 private:
  using Clock = std::chrono::steady_clock;

  void show(const ProgressState& state, bool complete, Clock::time_point now);
  void log(const ProgressState& state, bool complete, Clock::time_point now);
  void draw_line();
  void draw_all();
  std::vector<std::string> chart() const;
  std::string clear();
  std::string wrapped(const std::string& text) const;
  void write(const std::string& text) const;

  ProgressOptions options_;
  bool terminal_ = false;
  bool colour_ = false;
  std::mutex mutex_;
  std::optional<ProgressState> drawn_;  // what the terminal shows
  std::vector<Series> curves_;
  std::string title_, x_label_;
  bool is_stale_ = false;  // the curves are newer than what the terminal shows
  int64_t above_ = 0;      // lines of the chart on the terminal
  std::optional<Clock::time_point> last_, last_logged_;
};

}  // namespace fovea
