#include "fovea/data/png_reader.h"

#include "fovea/core/error.h"
#include "fovea/data/exif.h"

#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstring>

namespace fovea::data {
namespace {

/// libpng reports errors by longjmp, which must not pass over a C++ object that wants destroying: the functions that
/// call setjmp hold plain values only, and everything else lives here.
struct PngReader {
  std::string_view bytes;
  size_t offset = 0;
  char message[200] = "";
  png_structp png = nullptr;
  png_infop info = nullptr;
  int passes = 1;

  explicit PngReader(std::string_view data);
  ~PngReader() { png_destroy_read_struct(&png, &info, nullptr); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;
};

[[noreturn]] void on_error(png_structp png, png_const_charp message) {
  auto* reader = static_cast<PngReader*>(png_get_error_ptr(png));
  std::snprintf(reader->message, sizeof(reader->message), "%s", message);
  png_longjmp(png, 1);
}

// libpng warns of oddities that do not touch the pixels, such as a bad colour profile.
void on_warning(png_structp, png_const_charp) {}

void on_read(png_structp png, png_bytep out, size_t count) {
  auto* reader = static_cast<PngReader*>(png_get_io_ptr(png));
  if (count > reader->bytes.size() - reader->offset) png_error(png, "the file is cut off");
  std::memcpy(out, reader->bytes.data() + reader->offset, count);
  reader->offset += count;
}

PngReader::PngReader(std::string_view data) : bytes(data) {
  png = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, on_error, on_warning);
  if (png != nullptr) info = png_create_info_struct(png);
  if (info == nullptr) fail("libpng cannot be set up: out of memory, or of another version than its header");
}

bool read_header(PngReader& reader) {
  if (setjmp(png_jmpbuf(reader.png)) != 0) return false;
  png_set_read_fn(reader.png, &reader, on_read);
  png_set_crc_action(reader.png, PNG_CRC_ERROR_QUIT, PNG_CRC_ERROR_QUIT);
  // The size is checked by who called; libpng's own limit is a side of a million.
  png_set_user_limits(reader.png, 0x7FFFFFFF, 0x7FFFFFFF);
  png_read_info(reader.png, reader.info);
  return true;
}

// 8 bits, gray or colour, with alpha or without.
bool set_conversions(PngReader& reader) {
  if (setjmp(png_jmpbuf(reader.png)) != 0) return false;
  const int color = png_get_color_type(reader.png, reader.info);
  if (color == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(reader.png);
  if (color == PNG_COLOR_TYPE_GRAY) png_set_expand_gray_1_2_4_to_8(reader.png);
  if (png_get_valid(reader.png, reader.info, PNG_INFO_tRNS) != 0) png_set_tRNS_to_alpha(reader.png);
  png_set_strip_16(reader.png);
  reader.passes = png_set_interlace_handling(reader.png);
  png_read_update_info(reader.png, reader.info);
  return true;
}

bool read_rows(PngReader& reader, uint8_t* pixels, size_t row_bytes, size_t rows) {
  if (setjmp(png_jmpbuf(reader.png)) != 0) return false;
  for (int pass = 0; pass < reader.passes; ++pass) {
    for (size_t y = 0; y < rows; ++y) png_read_row(reader.png, pixels + y * row_bytes, nullptr);
  }
  png_read_end(reader.png, reader.info);
  return true;
}

// The chunk may stand before the pixels or behind them.
int orientation_of(PngReader& reader) {
  png_bytep exif = nullptr;
  png_uint_32 size = 0;
  if (png_get_eXIf_1(reader.png, reader.info, &size, &exif) == 0 || exif == nullptr) return 1;
  return exif_orientation({reinterpret_cast<const char*>(exif), size});
}

[[noreturn]] void fail_reading(const PngReader& reader, const std::string& name) {
  fail_usage("{}: the PNG is damaged near byte {} of {}: {}", name, reader.offset, reader.bytes.size(), reader.message);
}

}  // namespace

void check_image_size(const std::string& name, uint64_t height, uint64_t width, int64_t max_pixels) {
  if (height == 0 || width == 0)
    fail_usage("{}: expected an image of pixels, found one of {} x {}", name, height, width);
  if (width > static_cast<uint64_t>(max_pixels) / height) {
    fail_usage("{}: expected an image of at most {} pixels, found one of {} x {} (height x width)", name, max_pixels,
               height, width);
  }
}

RawImage decode_png(std::string_view bytes, const std::string& name, int64_t max_pixels) {
  PngReader reader(bytes);
  if (!read_header(reader)) fail_reading(reader, name);
  RawImage image;
  image.height = png_get_image_height(reader.png, reader.info);
  image.width = png_get_image_width(reader.png, reader.info);
  check_image_size(name, static_cast<uint64_t>(image.height), static_cast<uint64_t>(image.width), max_pixels);
  if (!set_conversions(reader)) fail_reading(reader, name);
  image.channels = png_get_channels(reader.png, reader.info);
  const size_t row_bytes = png_get_rowbytes(reader.png, reader.info);
  if (image.channels < 1 || image.channels > 4 ||
      row_bytes != static_cast<size_t>(image.width) * static_cast<size_t>(image.channels)) {
    fail_usage("{}: expected 1 to 4 channels of 8 bits, found {} in rows of {} bytes", name, image.channels, row_bytes);
  }
  image.pixels.resize(row_bytes * static_cast<size_t>(image.height));
  if (!read_rows(reader, image.pixels.data(), row_bytes, static_cast<size_t>(image.height))) {
    fail_reading(reader, name);
  }
  image.orientation = orientation_of(reader);
  return image;
}

}  // namespace fovea::data
