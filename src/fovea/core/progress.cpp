#include "fovea/core/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <string_view>
#include <utility>
#include <vector>

#include "fovea/core/chart.h"
#include "fovea/core/display.h"
#include "fovea/core/terminal.h"

namespace fovea {
namespace {

constexpr int64_t kMaxBar = 30;  // columns between the brackets
constexpr int64_t kMinBar = 5;   // a shorter one is left out
constexpr int64_t kDefaultWidth = 80, kDefaultHeight = 24;
constexpr int64_t kChartHeight = 8;  // lines between title and axis
constexpr const char* kClearLine = "\r\x1b[K";

double share(const ProgressState& state) {
  return std::clamp(static_cast<double>(state.done) / static_cast<double>(state.total), 0.0, 1.0);
}

std::string title(const ProgressState& state) {
  if (state.epoch <= 0) return state.name == ProgressState().name ? "" : state.name;
  if (state.num_epochs <= 0) return fmt::format("{} {}", state.name, state.epoch);
  return fmt::format("{} {}/{}", state.name, state.epoch, state.num_epochs);
}

std::string percent(const ProgressState& state) {
  return state.total > 0 ? fmt::format("{:.0f}%", std::floor(100 * share(state))) : "";
}

std::string bar(double filled, int64_t width) {
  const auto full = static_cast<int64_t>(filled * static_cast<double>(width));
  std::string text(static_cast<size_t>(full), '=');
  if (full < width) text += '>';
  text.resize(static_cast<size_t>(width), ' ');
  return "[" + text + "]";
}

std::string join(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) {
    if (!part.empty()) text += (text.empty() ? "" : "  ") + part;
  }
  return text;
}

std::string numbers(const ProgressState& state) {
  std::vector<std::string> parts;
  if (!std::isnan(state.loss)) parts.push_back(fmt::format("{} {:.3f}", state.loss_name, state.loss));
  if (!std::isnan(state.lr)) parts.push_back("lr " + format_small(state.lr));
  if (!std::isnan(state.rate)) parts.push_back(format_count(state.rate) + " " + state.rate_unit);
  if (!std::isnan(state.eta)) parts.push_back("eta " + format_duration(state.eta));
  return join(parts);
}

bool is_due(const std::optional<std::chrono::steady_clock::time_point>& last, std::chrono::steady_clock::time_point now,
            double interval) {
  return !last || std::chrono::duration<double>(now - *last).count() >= interval;
}

}  // namespace

std::string plain_progress_line(const ProgressState& state) {
  return join({title(state), percent(state), numbers(state)});
}

std::string progress_line(const ProgressState& state, int64_t width) {
  const std::string plain = plain_progress_line(state);
  const int64_t room = std::min(width - display_width(plain) - 3, kMaxBar);  // two brackets and a space
  if (state.total <= 0 || room < kMinBar) return fit_width(plain, width);
  return join({title(state), bar(share(state), room) + " " + percent(state), numbers(state)});
}

Progress::Progress(const ProgressOptions& options) : options_(options) {
  const char* term = std::getenv("TERM");
  const bool dumb = term == nullptr || std::string_view(term) == "dumb";
  terminal_ = !options.quiet && ::isatty(options.fd) == 1 && !dumb;
  colour_ = terminal_ && takes_colour(options.fd);
}

void Progress::update(const ProgressState& state) {
  const std::lock_guard lock(mutex_);
  const Clock::time_point now = Clock::now();
  const bool complete = state.total > 0 && state.done >= state.total;
  if (!options_.quiet) show(state, complete, now);
  if (options_.log != nullptr) log(state, complete, now);
}

void Progress::log(const ProgressState& state, bool complete, Clock::time_point now) {
  if (!complete && !is_due(last_logged_, now, options_.plain_interval)) return;
  last_logged_ = now;
  options_.log->write(plain_progress_line(state) + "\n");
}

void Progress::show(const ProgressState& state, bool complete, Clock::time_point now) {
  const double interval = terminal_ ? options_.redraw_interval : options_.plain_interval;
  if (!complete && !is_due(last_, now, interval)) return;
  last_ = now;
  if (terminal_) {
    drawn_ = state;
    if (is_stale_) {
      write(clear());
      draw_all();
    } else {
      draw_line();
    }
  } else {
    write(wrapped(plain_progress_line(state)) + "\n");
  }
}

void Progress::line(const std::string& text) {
  const std::lock_guard lock(mutex_);
  if (options_.log != nullptr) options_.log->write(text + "\n");
  if (options_.quiet) return;
  write(clear() + wrapped(text) + "\n");
  if (drawn_) draw_all();
}

void Progress::set_curves(std::vector<Series> curves, std::string title, std::string x_label) {
  const std::lock_guard lock(mutex_);
  curves_ = std::move(curves);
  title_ = std::move(title);
  x_label_ = std::move(x_label);
  is_stale_ = plots();
}

void Progress::finish() {
  const std::lock_guard lock(mutex_);
  write(clear());
  drawn_.reset();
  is_stale_ = plots();
  last_.reset();
  last_logged_.reset();
}

// What removes the line and the chart above it.
std::string Progress::clear() {
  if (!drawn_) return "";
  const int64_t lines = std::exchange(above_, 0);
  return lines == 0 ? kClearLine : fmt::format("\r\x1b[{}A\x1b[J", lines);
}

// The chart and the line, where nothing of them is on the terminal.
void Progress::draw_all() {
  std::string text;
  for (const auto& line : chart()) {
    text += line + "\n";
    ++above_;
  }
  is_stale_ = false;
  write(text);
  draw_line();
}

// No lines where the chart would take more than two thirds of the screen.
std::vector<std::string> Progress::chart() const {
  if (!plots() || curves_.empty()) return {};
  auto lines = chart_lines(curves_, {.width = terminal_width(options_.fd, kDefaultWidth) - 1,
                                     .height = kChartHeight,
                                     .title = title_,
                                     .x_label = x_label_,
                                     .utf8 = locale_is_utf8(),
                                     .colour = colour_});
  if (3 * static_cast<int64_t>(lines.size()) > 2 * terminal_height(options_.fd, kDefaultHeight)) return {};
  return lines;
}

void Progress::draw_line() {
  // The last column stays free: some terminals wrap when it is filled.
  std::string text = progress_line(*drawn_, terminal_width(options_.fd, kDefaultWidth) - 1);
  const size_t begin = text.find('[');
  const size_t end = text.find(']');
  if (colour_ && begin != std::string::npos && end != std::string::npos) {
    text.insert(end, "\x1b[0m");
    text.insert(begin + 1, "\x1b[36m");
  }
  write(kClearLine + text);
}

std::string Progress::wrapped(const std::string& text) const {
  return wrap_message(text, terminal_width(options_.fd, 0));
}

void Progress::write(const std::string& text) const {
  for (size_t at = 0; at < text.size();) {
    const ssize_t done = ::write(options_.fd, text.data() + at, text.size() - at);
    if (done > 0) {
      at += static_cast<size_t>(done);
    } else if (errno != EINTR) {
      return;
    }
  }
}

}  // namespace fovea
