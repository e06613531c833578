#include "fovea/data/idx.h"

#include "fovea/core/error.h"
#include "tests/catch.h"
#include "tests/core/gzip_member.h"
#include "tests/temp_dir.h"

using namespace fovea;

namespace {

std::string big_endian(uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16), static_cast<char>(value >> 8),
          static_cast<char>(value)};
}

std::string idx(const std::vector<uint32_t>& shape, const std::string& values, char type = 8) {
  std::string bytes = {0, 0, type, static_cast<char>(shape.size())};
  for (const uint32_t size : shape) bytes += big_endian(size);
  return bytes + values;
}

// Ten images of 7 x 5 that do not compress to nothing.
std::string pixels() {
  std::string values;
  uint32_t random = 1;
  for (int i = 0; i < 350; ++i) values += static_cast<char>((random = random * 1664525u + 1013904223u) >> 24);
  return values;
}

const std::vector<uint32_t> kShape = {10, 7, 5};

std::string error_reading(const std::string& bytes, const std::string& name = "images.gz") {
  const TempDir dir;
  write_bytes(dir / name, bytes);
  return error_of([&] { data::read_idx(dir / name); });
}

}  // namespace

TEST_CASE("C38: an IDX file is what it holds, not what its name says") {
  const TempDir dir;
  const std::string file = idx(kShape, pixels());
  for (const std::string name : {"images-idx3-ubyte", "images-idx3-ubyte.gz"}) {
    for (const bool packed : {false, true}) {
      write_bytes(dir / name, packed ? gzip_member(file) : file);
      const data::IdxArray array = data::read_idx(dir / name);
      CHECK(array.shape == std::vector<int64_t>{10, 7, 5});
      CHECK(std::string(reinterpret_cast<const char*>(array.data()), static_cast<size_t>(array.size())) == pixels());
    }
  }
  CHECK_THAT(error_reading("<!DOCTYPE html><html>404</html>"),
             ContainsSubstring("images.gz") && ContainsSubstring("an HTML page"));
  CHECK_THAT(error_reading(""), ContainsSubstring("expected an IDX file") && ContainsSubstring("it is empty"));
  CHECK_THAT(error_reading(gzip_member("")), ContainsSubstring("it is empty"));
  CHECK_THAT(error_reading("not found\n"), ContainsSubstring("text that begins with \"not found\""));
  CHECK_THAT(error_reading("\x89PNG\r\n\x1a\n0000"), ContainsSubstring("a PNG image"));
  CHECK_THAT(error_of([] { data::read_idx("/nowhere/images"); }), ContainsSubstring("cannot read /nowhere/images"));
}

TEST_CASE("C39: a damaged IDX file is refused with the sizes") {
  const std::string file = idx(kShape, pixels());
  const std::string expected = "the header promises 3 dimensions (10 x 7 x 5), 350 bytes, found ";
  CHECK_THAT(error_reading(file.substr(0, file.size() / 2)), ContainsSubstring(expected + "167"));
  CHECK_THAT(error_reading(file.substr(0, file.size() - 8)), ContainsSubstring(expected + "342"));
  CHECK_THAT(error_reading(file.substr(0, file.size() / 10)), ContainsSubstring(expected + "20"));
  CHECK_THAT(error_reading(file + "x"), ContainsSubstring(expected + "351") && ContainsSubstring("longer"));
  CHECK_THAT(error_reading(file.substr(0, 9)), ContainsSubstring("takes 16 bytes, found 9"));

  const std::string packed = gzip_member(file);
  CHECK_THAT(error_reading(packed.substr(0, packed.size() / 2)),
             ContainsSubstring("cut off") && ContainsSubstring(std::to_string(packed.size() / 2) + " bytes"));
  CHECK_THAT(error_reading(packed.substr(0, packed.size() / 10)), ContainsSubstring("cut off"));
  CHECK_THAT(error_reading(packed.substr(0, packed.size() - 8)), ContainsSubstring("cut off"));
  CHECK_FALSE(error_reading(packed.substr(0, 1)).empty());
  for (size_t at = 11; at < packed.size(); at += 13) {  // before: gzip's header, and bits that deflate does not use
    std::string flipped = packed;
    flipped[at] = static_cast<char>(flipped[at] ^ 0x10);
    CHECK_FALSE(error_reading(flipped).empty());
  }
}

TEST_CASE("C39: no memory is taken for what a header promises") {
  CHECK_THAT(error_reading(idx({4294967295u, 28, 28}, "xx")),
             ContainsSubstring("4294967295 x 28 x 28), 3367254359280 bytes, found 2 after the header"));
  CHECK_THAT(error_reading(idx({4294967295u, 4294967295u, 4294967295u}, "xx")), ContainsSubstring("more than 2^63"));
  CHECK_THAT(error_reading(idx({4294967295u}, "")), ContainsSubstring("4294967295 bytes, found 0"));
  CHECK(data::parse_idx(idx({0, 4294967295u}, ""), "x").size() == 0);
}

TEST_CASE("C39: gzip data are refused while they are unpacked") {
  // More than is promised: stopped long before the 64 MB that there are.
  const std::string large = gzip_member(idx({1000}, std::string(64 << 20, 'x')));
  const std::string error = error_reading(large);
  CHECK_THAT(error, ContainsSubstring("(1000), 1000 bytes, found ") && ContainsSubstring(" or more after the header"));
  CHECK(std::stoll(error.substr(error.find("found ") + 6)) < 1 << 20);
  // Less than is promised: at once, where it cannot be there.
  const std::string small = gzip_member(idx({60000, 28, 28}, std::string(1000, 'x')));
  CHECK_THAT(error_reading(small), ContainsSubstring("47040000 bytes, found gzip data of ") &&
                                       ContainsSubstring("cut off, or its header damaged"));
  CHECK_THAT(error_reading(gzip_member(idx({4294967295u, 4294967295u, 9u}, "xx"))),
             ContainsSubstring("more than 2^63"));
  CHECK_THAT(error_reading(gzip_member(idx(kShape, pixels().substr(8)))), ContainsSubstring("350 bytes, found 342"));
}

TEST_CASE("C39: gzip members are read whole") {
  const TempDir dir;
  const std::string file = idx(kShape, pixels());
  write_bytes(dir / "two.gz", gzip_member(file.substr(0, 100)) + gzip_member(file.substr(100)));
  CHECK(data::read_idx(dir / "two.gz").bytes == file);
  write_bytes(dir / "two.gz", gzip_member(file.substr(0, 2)) + gzip_member(file.substr(2)));
  CHECK(data::read_idx(dir / "two.gz").bytes == file);
}

TEST_CASE("other IDX types and shapes are named") {
  CHECK_THAT(error_of([] { data::parse_idx(idx({2}, "12345678", 0x0D), "a"); }), ContainsSubstring("float32 numbers"));
  CHECK_THAT(error_of([] { data::parse_idx(idx({2}, "12", 0x07), "a"); }), ContainsSubstring("expected an IDX file"));
  CHECK_THAT(error_of([] { data::parse_idx(idx({}, ""), "a"); }), ContainsSubstring("one dimension or more"));
  CHECK(data::parse_idx(idx({3}, "abc"), "a").data()[2] == 'c');
}
