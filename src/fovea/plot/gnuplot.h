#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace fovea::plot {

/// Commands for gnuplot, without terminal and output, and the size of the picture in pixels.
struct Figure {
  std::string commands;
  int64_t width = 0, height = 0;
};

/// Throws a usage Error unless the name ends in .png, .svg or .pdf.
void check_format(const std::filesystem::path& output);

/// Text as a string of gnuplot's, in quotes. Control characters become spaces.
std::string quoted(const std::string& text);

/// Draws the figure with gnuplot into a file whose name says the format. The file appears when it is whole.
/// Throws Error where gnuplot is not installed, or with what it says where it fails.
void draw(const Figure& figure, const std::filesystem::path& output);

}  // namespace fovea::plot
