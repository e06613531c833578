#pragma once

#include <array>
#include <filesystem>
#include <string>
#include <vector>

#include "fovea/core/enum_names.h"

namespace fovea::plot {

enum class Format { kSvg, kPng, kPdf };
constexpr auto enum_names(Format) {
  return std::to_array<EnumName<Format>>({{Format::kSvg, "svg"}, {Format::kPng, "png"}, {Format::kPdf, "pdf"}});
}

/// By the file's name; a usage Error where it ends in none of .svg, .png, .pdf.
Format format_of(const std::filesystem::path& file);

/// Throws Error, which says what to install, unless gnuplot is on the PATH.
void check_gnuplot();

/// Asked before the work that a picture takes: whether a file that the option --output names can be written
/// (check_output) and drawn. Returns where to write; nothing where `file` is empty, which may not be `overwrite`.
std::filesystem::path check_picture(const std::filesystem::path& file, bool overwrite,
                                    const std::vector<std::filesystem::path>& sources = {});

/// Text as a string of gnuplot's language, taken as it is.
std::string literal(const std::string& text);

/// Okabe and Ito's colours, which colour-blind people tell apart: "#0072B2". They repeat after 7; yellow, too pale on
/// white, is left out.
std::string colour_of(size_t index);

/// What gnuplot draws, on white, with plain text of 13 pixels.
struct Picture {
  int width = 800, height = 400;  // pixels; PNG has twice as many, in PDF they are 1/96 inch
  std::string script;             // commands and data, without terminal and output
};

/// Draws it aside, and then puts it in the place of the file. Throws Error with what gnuplot said where it fails; then
/// the file is as before.
void draw(const Picture& picture, const std::filesystem::path& file, Format format);

}  // namespace fovea::plot
