#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>

#include "command.h"
#include "fovea/core/error.h"
#include "fovea/core/terminal.h"
#include "fovea/plot/curve_picture.h"
#include "fovea/plot/gnuplot.h"
#include "run_argument.h"

namespace fovea::cli {
namespace {

constexpr int64_t kChartWidth = 80;  // where there is no terminal

struct PlotFlags {
  std::vector<std::string> runs;
  std::string measures, output, axis = "step";
  std::optional<double> smooth;
  bool terminal = false, overwrite = false;
};

plot::Axis axis_of(const std::string& name) {
  for (const auto& [axis, known] : enum_names(plot::Axis{})) {
    if (name == known) return axis;
  }
  fail_usage("--x: expected step or epoch, got '{}'", name);
}

// "loss,accuracy" -> loss and accuracy
std::vector<std::string> measure_names(const std::string& text) {
  std::vector<std::string> names;
  for (size_t at = 0; at < text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    if (comma > at) names.push_back(text.substr(at, comma - at));
    at = comma + 1;
  }
  return names;
}

int draw_plot(const PlotFlags& flags) {
  const auto runs = several_runs(flags.runs, "fovea plot runs/quickstart -o curves.svg");
  if (flags.smooth && !(*flags.smooth >= 0 && *flags.smooth < 1)) {
    fail_usage("--smooth: expected a number from 0 to below 1, got {}", *flags.smooth);
  }
  const auto file = plot::check_picture(flags.output, flags.overwrite);
  const plot::Curves curves = plot::read_curves(
      runs, {.measures = measure_names(flags.measures), .smooth = flags.smooth, .x = axis_of(flags.axis)});
  if (!file.empty()) {
    plot::draw(plot::picture_of(curves), file, plot::format_of(flags.output));
    return 0;
  }
  const int64_t width = terminal_width(STDOUT_FILENO, kChartWidth);
  for (const auto& line : plot::curve_lines(curves, width, locale_is_utf8(), takes_colour(STDOUT_FILENO))) {
    std::cout << line << "\n";
  }
  return 0;
}

}  // namespace

void add_plot(CLI::App& app, Commands& commands) {
  auto flags = std::make_shared<PlotFlags>();
  auto* command = app.add_subcommand("plot", "Draw the learning curves of runs");
  add_arguments(*command, flags->runs, "RUN [RUN ...]", "The directories of runs: runs/NAME");
  auto* output = command
                     ->add_option("-o,--output", flags->output,
                                  "The picture to write: a name that ends in .svg, .png or .pdf. Without it the curves "
                                  "are drawn in the terminal. gnuplot draws it (Debian: apt install gnuplot-nox)")
                     ->type_name("FILE")
                     ->transform(as_path());
  command
      ->add_flag("--terminal", flags->terminal, "Draw in the terminal: braille dots, or ASCII where there is no UTF-8")
      ->excludes(output);
  command
      ->add_option(
          "--measure", flags->measures,
          "What to draw, each on axes of its own: any names in metrics.jsonl (default the loss and the measure "
          "that the run watches)")
      ->type_name("NAME,...");
  command
      ->add_option(
          "--smooth", flags->smooth,
          "How much training curves are smoothed, from 0 (not) to below 1: the weight of an exponential moving "
          "average (default by the number of points, 0 for few). Validation is never smoothed")
      ->type_name("WEIGHT");
  command->add_option("--x", flags->axis, "step or epoch (default step)")->type_name("AXIS");
  command->add_flag("--overwrite", flags->overwrite, "Replace the file if it exists");
  command->footer(
      "Examples:\n"
      "  fovea plot runs/quickstart\n"
      "  fovea plot runs/a runs/b -o curves.svg --x epoch --measure loss,accuracy");
  commands.emplace_back(command, [flags] { return draw_plot(*flags); });
}

}  // namespace fovea::cli
