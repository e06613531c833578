#include "fovea/data/image_cache.h"

#include <ATen/Parallel.h>

#include <chrono>
#include <thread>

#include "fovea/core/error.h"
#include "fovea/core/hash.h"
#include "fovea/data/image_file.h"
#include "fovea/data/resize.h"
#include "tests/tasks/image_files.h"
#include "tests/temp_dir.h"
#include "tests/test.h"

using namespace fovea;
namespace fs = std::filesystem;

namespace {

struct Fixture {
  TempDir dir;
  data::ImageCacheRequest request;

  Fixture() {
    for (int i = 0; i < 40; ++i) {
      request.files.push_back(dir / fmt::format("{}.png", i));
      write_png(request.files.back(), 9 + i % 3, 12, static_cast<uint64_t>(i));
    }
    request.channels = 1;
    request.size = {6, 8};
    request.folder = dir / "cache";
    request.name = "/some/photos";
  }
  data::CachedImages read() const { return data::read_images_cached(request); }
  fs::path cache() const {
    for (const auto& entry : fs::directory_iterator(request.folder)) {
      if (entry.path().extension() == ".images") return entry.path();
    }
    return {};
  }
};

at::Tensor resized(const fs::path& file, int64_t channels, int64_t height, int64_t width) {
  const at::Tensor in = data::read_image(file, channels), out = at::empty({channels, height, width}, at::kByte);
  data::Resizer(in.size(1), in.size(2), height, width)(in.const_data_ptr<uint8_t>(), out.data_ptr<uint8_t>(), channels);
  return out;
}

}  // namespace

TEST_CASE("the cache holds each file as reading and resizing it gives, on any number of threads", "[image_cache]") {
  Fixture f;
  const int threads = at::get_num_threads();
  for (const int count : {1, 3}) {
    at::set_num_threads(count);
    fs::remove_all(f.request.folder);
    const auto images = f.read();
    CHECK_THAT(images.note, ContainsSubstring("made now"));
    REQUIRE(images.pixels.sizes() == at::IntArrayRef({40, 1, 6, 8}));
    for (size_t i = 0; i < 40; ++i) {
      CHECK(at::equal(images.pixels[static_cast<int64_t>(i)], resized(f.request.files[i], 1, 6, 8)));
      CHECK(images.hashes[i] == hash_words(images.pixels[static_cast<int64_t>(i)].const_data_ptr<uint8_t>(), 48));
      CHECK(images.damage[i].empty());
    }
  }
  at::set_num_threads(threads);
}

TEST_CASE("the cache is read again while the files are what they were", "[image_cache]") {
  Fixture f;
  const at::Tensor first = f.read().pixels.clone();
  const auto again = f.read();
  CHECK_THAT(again.note, ContainsSubstring("read again"));
  CHECK(at::equal(again.pixels, first));

  SECTION("another file in its place: made anew, and what was mapped before stays as it was") {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    write_png(f.request.files[3], 9, 12, 1234);
    const auto changed = f.read();
    CHECK_THAT(changed.note, ContainsSubstring("made now"));
    CHECK_FALSE(at::equal(changed.pixels[3], first[3]));
    CHECK(at::equal(again.pixels, first));
  }
  SECTION("a file less") {
    f.request.files.pop_back();
    CHECK(f.read().pixels.size(0) == 39);
  }
  SECTION("a size or number of channels of its own has a cache of its own") {
    f.request.size = {5, 5};
    CHECK_THAT(f.read().note, ContainsSubstring("made now"));
    f.request.size = {6, 8};
    CHECK_THAT(f.read().note, ContainsSubstring("read again"));
  }
}

TEST_CASE("a damaged cache is made anew", "[image_cache]") {
  Fixture f;
  const at::Tensor first = f.read().pixels.clone();
  const fs::path path = f.cache();
  const std::string whole = read_bytes(path);
  std::vector<std::string> broken = {"", whole.substr(0, 30), whole.substr(0, whole.size() - 1), whole + "x",
                                     std::string(whole.size(), '\0')};
  for (const size_t at : {size_t{0}, size_t{17}, size_t{30}, size_t{50}, size_t{70}, whole.size() - 5}) {
    broken.push_back(whole);
    broken.back()[at] = static_cast<char>(broken.back()[at] ^ 4);
  }
  for (const auto& bytes : broken) {
    fs::remove(path);  // what is mapped stays
    write_bytes(path, bytes);
    const auto images = f.read();
    CHECK_THAT(images.note, ContainsSubstring("made now"));
    CHECK(at::equal(images.pixels, first));
    CHECK(read_bytes(path) == whole);
  }
}

TEST_CASE("files that cannot be read are named, and read again from the cache", "[image_cache]") {
  Fixture f;
  write_bytes(f.request.files[2], "no image");
  fs::remove(f.request.files[5]);
  for (int time = 0; time < 2; ++time) {
    const auto images = f.read();
    CHECK_THAT(images.damage[2], ContainsSubstring("2.png: expected a PNG or JPEG image, found text"));
    CHECK_THAT(images.damage[5], ContainsSubstring("5.png: No such file"));
    CHECK(images.damage[3].empty());
    CHECK(at::equal(images.pixels[2], at::zeros({1, 6, 8}, at::kByte)));
  }
}

TEST_CASE("without a size all files must have one", "[image_cache]") {
  Fixture f;
  f.request.size = {};
  CHECK_THAT(error_of([&] { f.read(); }), ContainsSubstring("data.resize"));
  CHECK(f.cache().empty());  // nothing half made
  f.request.files = {f.request.files[0], f.request.files[3]};
  CHECK(f.read().pixels.sizes() == at::IntArrayRef({2, 1, 9, 12}));
  write_bytes(f.request.files[0], "");
  write_bytes(f.request.files[1], "");
  CHECK_THAT(error_of([&] { f.read(); }), ContainsSubstring("none of 2 images can be read"));
}

TEST_CASE("where no cache can be written the images are in memory", "[image_cache]") {
  Fixture f;
  write_bytes(f.dir / "file", "");
  f.request.folder = f.dir / "file";
  const auto images = f.read();
  CHECK_THAT(images.note, ContainsSubstring("in memory"));
  CHECK(at::equal(images.pixels[7], resized(f.request.files[7], 1, 6, 8)));
}
