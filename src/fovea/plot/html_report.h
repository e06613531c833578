#pragma once

#include <string>
#include <utility>
#include <vector>

#include "fovea/plot/curves.h"
#include "fovea/tasks/task.h"

namespace fovea::plot {

/// What stands on the page of a run.
struct RunPage {
  using Rows = std::vector<std::pair<std::string, std::string>>;

  std::string title;
  Rows summary;              // what it is: model, data, epochs
  Rows settings;             // those that differ from their defaults
  Rows data;                 // what was read
  Curves curves;             // empty: none
  tasks::Report scores;      // facts, tables and matrices
  tasks::Examples examples;  // empty: none
};

/// One HTML file that needs nothing else: no network, no other file. Tables, curves, a matrix of confusion, the best
/// and the worst examples, and an explorer of what the model looked at. Reads on a phone, in the dark and by keyboard.
std::string html_report(const RunPage& page);

}  // namespace fovea::plot
