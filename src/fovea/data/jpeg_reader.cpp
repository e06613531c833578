#include "fovea/data/jpeg_reader.h"

#include "fovea/core/counted.h"
#include "fovea/core/error.h"
#include "fovea/data/exif.h"

// jpeglib.h needs FILE and size_t to be there.
#include <jerror.h>
#include <jpeglib.h>
#include <cstddef>
#include <cstdio>

#include <csetjmp>
#include <utility>

namespace fovea::data {
namespace {

// A progressive file may repeat scans without end, each as dear as the whole image; real ones have about ten.
constexpr int kMaxScans = 200;

/// libjpeg reports errors by longjmp, which must not pass over a C++ object that wants destroying: the functions that
/// call setjmp hold plain values only, and everything else lives here.
struct JpegReader {
  jpeg_decompress_struct jpeg{};
  jpeg_error_mgr errors{};
  jpeg_progress_mgr progress{};
  std::jmp_buf jump;
  char message[JMSG_LENGTH_MAX] = "";

  JpegReader();
  ~JpegReader() { jpeg_destroy_decompress(&jpeg); }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;
};

[[noreturn]] void on_error(j_common_ptr common) {
  auto* reader = static_cast<JpegReader*>(common->client_data);
  common->err->format_message(common, reader->message);
  std::longjmp(reader->jump, 1);
}

// What libjpeg only warns of is damage, for which it makes up pixels, but for a few oddities of files that are whole.
void on_message(j_common_ptr common, int level) {
  if (level >= 0) return;
  switch (common->err->msg_code) {
    case JWRN_ADOBE_XFORM:
    case JWRN_JFIF_MAJOR:
    case JWRN_EXTRANEOUS_DATA:
      return;
    default:
      on_error(common);
  }
}

void on_progress(j_common_ptr common) {
  auto* reader = static_cast<JpegReader*>(common->client_data);
  if (reader->jpeg.input_scan_number <= kMaxScans) return;
  std::snprintf(reader->message, sizeof(reader->message), "more than %d scans", kMaxScans);
  std::longjmp(reader->jump, 1);
}

void on_output(j_common_ptr) {}

JpegReader::JpegReader() {
  jpeg.err = jpeg_std_error(&errors);
  jpeg.client_data = this;
  errors.error_exit = on_error;
  errors.emit_message = on_message;
  errors.output_message = on_output;
  progress.progress_monitor = on_progress;
}

bool read_header(JpegReader& reader, const uint8_t* bytes, size_t size) {
  if (setjmp(reader.jump) != 0) return false;
  jpeg_create_decompress(&reader.jpeg);
  reader.jpeg.progress = &reader.progress;
  jpeg_mem_src(&reader.jpeg, bytes, static_cast<unsigned long>(size));
  jpeg_save_markers(&reader.jpeg, JPEG_APP0 + 1, 0xFFFF);
  jpeg_read_header(&reader.jpeg, TRUE);
  return true;
}

// Of the first APP1 marker that holds EXIF data; there may be others, with XMP.
int orientation_of(const JpegReader& reader) {
  using namespace std::string_view_literals;
  constexpr std::string_view kExif = "Exif\0\0"sv;
  for (const auto* marker = reader.jpeg.marker_list; marker != nullptr; marker = marker->next) {
    const std::string_view data(reinterpret_cast<const char*>(marker->data), marker->data_length);
    if (data.starts_with(kExif)) return exif_orientation(data.substr(kExif.size()));
  }
  return 1;
}

bool start(JpegReader& reader) {
  if (setjmp(reader.jump) != 0) return false;
  reader.jpeg.out_color_space = reader.jpeg.num_components == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_start_decompress(&reader.jpeg);
  return true;
}

bool read_rows(JpegReader& reader, uint8_t* pixels, size_t row_bytes) {
  if (setjmp(reader.jump) != 0) return false;
  while (reader.jpeg.output_scanline < reader.jpeg.output_height) {
    JSAMPROW row = pixels + reader.jpeg.output_scanline * row_bytes;
    jpeg_read_scanlines(&reader.jpeg, &row, 1);
  }
  jpeg_finish_decompress(&reader.jpeg);
  return true;
}

[[noreturn]] void fail_reading(const JpegReader& reader, const std::string& name, size_t size) {
  // Nothing but the end of the data makes libjpeg say these.
  const int code = reader.errors.msg_code;
  const bool is_cut = code == JWRN_JPEG_EOF || code == JERR_INPUT_EOF;
  fail_usage("{}: the JPEG ({}) is {}: {}", name, counted(size, "byte"), is_cut ? "cut off" : "damaged",
             reader.message);
}

}  // namespace

RawImage decode_jpeg(std::string_view bytes, const std::string& name, int64_t max_pixels) {
  JpegReader reader;
  if (!read_header(reader, reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size())) {
    fail_reading(reader, name, bytes.size());
  }
  check_image_size(name, reader.jpeg.image_height, reader.jpeg.image_width, max_pixels);
  if (reader.jpeg.num_components == 4) {
    fail_usage("{}: expected a gray or RGB image, found a CMYK JPEG: convert it to RGB first", name);
  }
  if (!start(reader)) fail_reading(reader, name, bytes.size());
  RawImage image;
  image.orientation = orientation_of(reader);
  image.height = reader.jpeg.output_height;
  image.width = reader.jpeg.output_width;
  image.channels = reader.jpeg.output_components;
  const size_t row_bytes = static_cast<size_t>(image.width) * static_cast<size_t>(image.channels);
  image.pixels.resize(row_bytes * static_cast<size_t>(image.height));
  if (!read_rows(reader, image.pixels.data(), row_bytes)) fail_reading(reader, name, bytes.size());
  return image;
}

}  // namespace fovea::data
