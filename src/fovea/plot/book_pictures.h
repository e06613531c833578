#pragma once

#include <functional>
#include <string>
#include <vector>

#include "fovea/plot/gnuplot.h"

namespace fovea::plot {

/// A picture of Dive into Deep Learning that needs no trained model: it is computed by the layers themselves, from data
/// of its own that are the same each time.
struct BookPicture {
  std::string name;     // "kernels"
  std::string section;  // "11.2"
  std::string summary;  // one line
  std::function<Picture()> make;
};

/// All of them, in the order of the book.
const std::vector<BookPicture>& book_pictures();

}  // namespace fovea::plot
