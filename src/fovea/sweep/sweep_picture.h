#pragma once

#include "fovea/plot/gnuplot.h"
#include "fovea/sweep/sweep_results.h"

namespace fovea::sweep {

/// A panel for each measure, means with bars of one standard deviation: over the key of the grid that plot.x names (or
/// the grid's only key, where its values are numbers), with a line for each setup of the others; else over the setups
/// by name. Where members were evaluated in bands: over the bands, with a line for each setup.
/// Throws a usage Error where there is nothing to draw, and where a value on a logarithmic axis is not above 0.
plot::Picture picture_of(const Sweep& sweep, const Findings& findings);

}  // namespace fovea::sweep
