#include "fovea/data/image_file.h"

#include "fovea/core/error.h"
#include "fovea/core/gzip.h"
#include "fovea/data/exif.h"
#include "tests/numeric.h"
#include "tests/temp_dir.h"
#include "tests/test.h"

using namespace fovea;

namespace {

const fovea_tests::Golden& golden() {
  static const fovea_tests::Golden file("images");
  return file;
}

std::string file_of(const std::string& name) {
  const at::Tensor bytes = golden().at(name).input("file");
  return {reinterpret_cast<const char*>(bytes.data_ptr<uint8_t>()), static_cast<size_t>(bytes.numel())};
}

std::string error_decoding(const std::string& bytes, int64_t channels = 1, int64_t max_pixels = 1 << 20) {
  return error_of([&] { data::decode_image(bytes, "x.png", channels, max_pixels); });
}

int64_t largest_difference(const at::Tensor& a, const at::Tensor& b) {
  REQUIRE(a.sizes() == b.sizes());
  return (a.to(at::kInt) - b.to(at::kInt)).abs().max().item<int64_t>();
}

}  // namespace

TEST_CASE("PNG and JPEG files give PIL's values, in gray and in colour") {
  int files = 0;
  for (const std::string& name : golden().cases()) {
    if (name.starts_with("resize_")) continue;
    INFO(name);
    ++files;
    const auto expected = golden().at(name);
    CHECK(largest_difference(data::decode_image(file_of(name), name, 1), expected.output("L")) == 0);
    CHECK(largest_difference(data::decode_image(file_of(name), name, 3), expected.output("RGB")) == 0);
  }
  CHECK(files >= 12);
}

TEST_CASE("C59: what is transparent is laid on white, and an opaque alpha changes nothing") {
  const auto rgb = [](const std::string& name) { return data::decode_image(file_of(name), name, 3); };
  CHECK(at::equal(rgb("png_opaque"), rgb("png_rgb")));
  // Black ink whose shape is in the alpha channel only, and white ink, which white paper would hide.
  const at::Tensor ink = rgb("png_only_alpha"), light = rgb("png_white_on_nothing");
  CHECK(ink.min().item<int64_t>() < 50);
  CHECK(ink.max().item<int64_t>() > 200);
  CHECK(at::equal(light, 255 - ink));
  // Colours under alpha 0 show nowhere: a palette's entry, and the one colour of a tRNS chunk.
  for (const std::string name : {"png_palette_transparent", "png_gray_transparent", "png_rgb_transparent"}) {
    INFO(name);
    const std::string opaque = name == "png_palette_transparent" ? "png_palette"
                               : name == "png_gray_transparent"  ? "png_gray"
                                                                 : "png_rgb";
    const at::Tensor seen = rgb(name), stored = rgb(opaque);
    const at::Tensor changed = seen.ne(stored).any(0);  // (height, width)
    CHECK(changed.any().item<bool>());
    CHECK(seen.masked_select(changed).eq(255).all().item<bool>());
  }
}

TEST_CASE("C59: the orientation that a camera noted is heeded") {
  const at::Tensor stored = data::decode_image(file_of("jpeg_orientation_1"), "x", 3);
  REQUIRE(stored.size(1) != stored.size(2));
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const std::string name = "jpeg_orientation_" + std::to_string(orientation);
    INFO(name);
    const at::Tensor image = data::decode_image(file_of(name), name, 3);
    CHECK(image.is_contiguous());
    CHECK(image.size(1) == stored.size(orientation < 5 ? 1 : 2));
    CHECK(at::equal(image, golden().at(name).output("RGB")));
    CHECK(at::equal(image, stored) == (orientation == 1));
  }
  CHECK(at::equal(data::decode_image(file_of("png_orientation_6"), "x", 3),
                  data::decode_image(file_of("png_rgb"), "x", 3).transpose(1, 2).flip({2})));
}

TEST_CASE("C59: an orientation that makes no sense is none") {
  using namespace std::string_literals;
  const auto tiff = [](const std::string& value, const std::string& type = "\x03\0"s) {
    return "II*\0\x08\0\0\0\x01\0\x12\x01"s + type + "\x01\0\0\0"s + value + "\0\0\0\0\0\0"s;
  };
  CHECK(data::exif_orientation(tiff("\x06\0"s)) == 6);
  CHECK(data::exif_orientation(tiff("\x09\0"s)) == 1);
  CHECK(data::exif_orientation(tiff("\0\0"s)) == 1);
  CHECK(data::exif_orientation(tiff("\x06\0"s, "\x04\0"s)) == 1);
  CHECK(data::exif_orientation("MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x08\0\0"s) == 8);
  CHECK(data::exif_orientation("II*\0\xFF\xFF\xFF\xFF"s) == 1);
  for (size_t size = 0; size < 18; ++size) CHECK(data::exif_orientation(tiff("\x06\0"s).substr(0, size)) == 1);
}

TEST_CASE("the content decides how an image is read") {
  const TempDir dir;
  write_bytes(dir / "photo.png", file_of("jpeg_full"));
  CHECK(at::equal(data::read_image(dir / "photo.png", 3), golden().at("jpeg_full").output("RGB")));
  write_bytes(dir / "page.png", "<html>moved</html>");
  CHECK_THAT(error_of([&] { data::read_image(dir / "page.png", 1); }),
             ContainsSubstring("page.png: expected a PNG or JPEG image, found an HTML page"));
  write_bytes(dir / "empty.jpg", "");
  CHECK_THAT(error_of([&] { data::read_image(dir / "empty.jpg", 1); }), ContainsSubstring("it is empty"));
  CHECK_THAT(error_of([&] { data::read_image(dir / "none.jpg", 1); }), ContainsSubstring("cannot read"));
  CHECK_THAT(error_of([&] { data::read_image(dir.path(), 1); }), ContainsSubstring("found a directory"));
  CHECK_THAT(error_decoding("GIF89a........"), ContainsSubstring("a GIF image"));
  CHECK_THAT(error_decoding(file_of("png_gray"), 2), ContainsSubstring("not with 2"));
}

TEST_CASE("an image cut off anywhere is an error, not a gray rest") {
  for (const std::string name : {"png_rgb", "png_interlaced", "jpeg_full", "jpeg_progressive"}) {
    const std::string bytes = file_of(name);
    for (size_t size = 3; size < bytes.size(); size += 1 + bytes.size() / 50) {
      INFO(name << " cut to " << size << " of " << bytes.size());
      CHECK_THAT(error_decoding(bytes.substr(0, size)), ContainsSubstring("x.png"));
    }
    INFO(name);
    CHECK_FALSE(error_decoding(bytes.substr(0, bytes.size() - 1)).empty());
  }
  CHECK_THAT(error_decoding(file_of("png_rgb").substr(0, 100)), ContainsSubstring("the file is cut off"));
  const std::string jpeg = file_of("jpeg_full");
  CHECK_THAT(error_decoding(jpeg.substr(0, jpeg.size() - 100)),
             ContainsSubstring("the JPEG") && ContainsSubstring("cut off"));
}

TEST_CASE("a flipped byte of a PNG is found by its checksums") {
  const std::string bytes = file_of("png_rgb");
  for (size_t at = 8; at < bytes.size(); at += 7) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x20);
    INFO("byte " << at);
    CHECK_FALSE(error_decoding(damaged).empty());
  }
}

TEST_CASE("sizes are checked before memory is taken") {
  // A PNG's header promising 2^31 - 1 pixels a side, with the checksum that goes with it.
  std::string bytes = file_of("png_gray");
  for (const size_t at : {16, 20}) bytes.replace(at, 4, "\x7F\xFF\xFF\xFF");
  const uint32_t checksum = crc32(std::string_view(bytes).substr(12, 17));
  for (int i = 0; i < 4; ++i) bytes[static_cast<size_t>(29 + i)] = static_cast<char>(checksum >> (24 - 8 * i));
  CHECK_THAT(error_of([&] { data::decode_image(bytes, "x.png", 1); }), ContainsSubstring("2147483647 x 2147483647"));
  CHECK_THAT(error_decoding(file_of("png_gray"), 1, 142),
             ContainsSubstring("at most 142 pixels, found one of 13 x 11 (height x width)"));
  CHECK(error_decoding(file_of("png_gray"), 1, 143).empty());
  // A JPEG's frame header: FF C0, length, 8 bits, height, width.
  std::string jpeg = file_of("jpeg_gray");
  const size_t frame = jpeg.find("\xFF\xC0");
  REQUIRE(frame != std::string::npos);
  jpeg.replace(frame + 5, 4, "\xFF\xDC\xFF\xDC");
  CHECK_THAT(error_of([&] { data::decode_image(jpeg, "x.jpg", 1); }),
             ContainsSubstring("x.jpg: expected an image of at most 67108864 pixels, found one of 65500 x 65500"));
}

TEST_CASE("a CMYK JPEG is refused by what it is") {
  // The same frame with four components: libjpeg takes any component count that its header describes.
  std::string jpeg = file_of("jpeg_gray");
  const size_t frame = jpeg.find("\xFF\xC0");
  REQUIRE(frame != std::string::npos);
  const std::string components = {4, 1, 0x11, 0, 2, 0x11, 0, 3, 0x11, 0, 4, 0x11, 0};
  jpeg.replace(frame + 2, 2, std::string{0, 20});
  jpeg.replace(frame + 9, 4, components);
  CHECK_THAT(error_decoding(jpeg, 3), ContainsSubstring("found a CMYK JPEG"));
}
