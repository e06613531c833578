#include "fovea/data/png_writer.h"

#include <ATen/ATen.h>

#include "fovea/data/image_file.h"
#include "tests/test.h"

using namespace fovea;

TEST_CASE("a picture that is written reads back") {
  for (const int64_t channels : {1, 3}) {
    const at::Tensor pixels = at::randint(0, 256, {channels, 5, 7}, at::kByte);
    const uint8_t* begin = pixels.const_data_ptr<uint8_t>();
    const std::string png = data::encode_png(channels, 5, 7, {begin, begin + pixels.numel()});
    CHECK(at::equal(data::decode_image(png, "picture", channels), pixels));
  }
  CHECK_THROWS_WITH(data::encode_png(3, 2, 2, std::vector<uint8_t>(5)), ContainsSubstring("do not make 3 x 2 x 2"));
}
