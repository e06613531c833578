#pragma once

#include <string_view>

namespace fovea::data {

/// The orientation that EXIF data (a TIFF header and its first directory) tells of, 1 to 8; 1, upright, where there is
/// none or it makes no sense: readers of images do not fail for what a camera wrote beside the pixels.
///
///   1 as it is          5 mirrored along the diagonal from the top left
///   2 mirrored across   6 to be turned a quarter clockwise
///   3 upside down       7 mirrored along the other diagonal
///   4 mirrored down     8 to be turned a quarter counter-clockwise
int exif_orientation(std::string_view tiff);

}  // namespace fovea::data
