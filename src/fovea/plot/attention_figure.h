#pragma once

#include <cstdint>
#include <string>

#include "fovea/plot/gnuplot.h"
#include "fovea/tasks/report.h"

namespace fovea::plot {

/// Which attentions to draw, counted from 1 as the figure names them; 0: all.
struct AttentionFigureOptions {
  std::string group = {};  // "cross"; empty: all
  int64_t layer = 0, head = 0;
  bool side_by_side = false;     // all attentions in one row, under their keys
  std::string scale = "weight";  // what colours stand for
};

/// The attentions of a report as heatmaps, a row of the figure for each attention and a column for each head, all on
/// one colour scale from 0. Tokens stand on the axes. Where keys are patches of a picture, a map shows it below the
/// weights: those of the class token, or else the mean over all queries. Throws a usage Error where the options choose
/// nothing.
Picture attention_figure(const tasks::Report& report, const AttentionFigureOptions& options = {});

/// The colour of a share of the greatest weight, 0 to 1: white to dark blue, which is as clear in print and to the
/// colour-blind. As 0xRRGGBB.
uint32_t weight_colour(double share);

}  // namespace fovea::plot
