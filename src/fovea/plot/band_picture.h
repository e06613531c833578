#pragma once

#include "fovea/plot/gnuplot.h"
#include "fovea/tasks/report.h"

namespace fovea::plot {

/// A panel for each score of the report's first table of bands, over the bands. How many examples a band has is part of
/// its name: "5-9 (120)". Throws a usage Error where the report has no such table.
Picture band_picture(const tasks::Report& report);

}  // namespace fovea::plot
