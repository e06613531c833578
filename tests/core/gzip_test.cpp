#include "fovea/core/gzip.h"

#include "fovea/core/error.h"
#include "tests/catch.h"
#include "tests/core/gzip_member.h"
#include "tests/temp_dir.h"

#include <sys/stat.h>
#include <unistd.h>

#include <thread>

using namespace fovea;

namespace {

/// Long enough to need several blocks of output.
std::string long_text() {
  std::string text;
  for (int i = 0; i < 100'000; ++i) text += std::to_string(i) + "\tligne\n";
  return text;
}

std::string error_reading(const std::filesystem::path& path) {
  return error_of([&] { read_maybe_gzip(path); });
}

}  // namespace

TEST_CASE("C38 the content decides whether a file is unpacked, not its name", "[gzip]") {
  const TempDir dir;
  const std::string text = long_text();
  for (const std::string name : {"a.txt", "a.gz"}) {
    write_bytes(dir / name, text);
    CHECK(read_maybe_gzip(dir / name) == text);
    write_bytes(dir / name, gzip_member(text));
    CHECK(read_maybe_gzip(dir / name) == text);
    write_bytes(dir / name, "");
    CHECK(read_maybe_gzip(dir / name).empty());
    write_bytes(dir / name, gzip_member(""));
    CHECK(read_maybe_gzip(dir / name).empty());
  }
}

TEST_CASE("gzip members are read whole, padding is ignored", "[gzip]") {
  const std::string packed = gzip_member("one\n") + gzip_member("") + gzip_member(long_text()) + gzip_member("two");
  CHECK(gunzip(packed, "x") == "one\n" + long_text() + "two");
  CHECK(gunzip(packed + std::string(600, '\0'), "x") == "one\n" + long_text() + "two");
  CHECK_THAT(error_of([&] { gunzip(gzip_member("one") + "tail", "x.gz"); }),
             Catch::Matchers::StartsWith("x.gz: expected another gzip member or the end at byte 23, found 4 bytes"));
}

TEST_CASE("damaged gzip data is an error that says what and where", "[gzip]") {
  const std::string text = long_text();
  const std::string packed = gzip_member(text);
  for (const size_t size :
       {size_t{2}, size_t{9}, size_t{10}, packed.size() / 2, packed.size() - 8, packed.size() - 1}) {
    CHECK_THAT(error_of([&] { gunzip(packed.substr(0, size), "x.gz"); }),
               ContainsSubstring("x.gz: the gzip data is cut off: it ends after " + std::to_string(size) + " bytes"));
  }
  std::string wrong_crc = packed;
  wrong_crc[packed.size() - 8] ^= 1;
  CHECK_THAT(error_of([&] { gunzip(wrong_crc, "x.gz"); }), ContainsSubstring("the CRC-32 does not match"));
  std::string wrong_length = packed;
  wrong_length[packed.size() - 1] ^= 1;
  CHECK_THAT(error_of([&] { gunzip(wrong_length, "x.gz"); }), ContainsSubstring("damaged near byte"));

  // Whichever byte flips after the header, some check notices.
  const std::string small = gzip_member("Go.\tVa !\nHi.\tSalut !\n");
  for (size_t i = 10; i < small.size(); ++i) {
    for (const char bit : {char{1}, char{0x40}}) {
      std::string flipped = small;
      flipped[i] = static_cast<char>(flipped[i] ^ bit);
      CHECK_THROWS_AS(gunzip(flipped, "x"), Error);
    }
  }
  CHECK_THAT(error_of([] { gunzip("text", "x"); }), ContainsSubstring("expected gzip data"));
}

TEST_CASE("a small file cannot unpack to more than the limit", "[gzip]") {
  const TempDir dir;
  write_bytes(dir / "bomb.gz", gzip_member(std::string(1'000'000, 'a')));
  CHECK(read_maybe_gzip(dir / "bomb.gz", 1'000'000).size() == 1'000'000);
  CHECK_THAT(error_of([&] { read_maybe_gzip(dir / "bomb.gz", 999'999); }),
             ContainsSubstring("bomb.gz: expected at most 999999 bytes of data, found more"));
  write_bytes(dir / "plain", "12345");
  CHECK_THAT(error_of([&] { read_maybe_gzip(dir / "plain", 4); }), ContainsSubstring("expected at most 4 bytes"));
}

TEST_CASE("a file that is evidently something else is refused by its kind", "[gzip]") {
  const TempDir dir;
  const std::string html = "\n <!DOCTYPE html>\n<html><body>404</body></html>\n";
  const std::string zip("PK\x03\x04\x14\x00", 6);
  const std::string xz(
      "\xFD"
      "7zXZ\0",
      6);
  const std::pair<std::string, std::string> cases[] = {
      {html, "found an HTML page; probably the answer of a server"},
      {"\xEF\xBB\xBF<HTML lang=fr>", "found an HTML page"},
      {gzip_member(html), "found an HTML page inside the gzip data"},
      {zip, "found a zip archive; unpack or convert it first"},
      {xz, "found xz data"},
      {"BZh91AY&SY0000", "found bzip2 data"},
      {gzip_member(std::string(257, 'x') + "ustar\0rest of a tar file"), "found a tar archive inside the gzip data"},
      {gzip_member(gzip_member("text")), "found gzip data inside the gzip data"},
  };
  for (const auto& [content, message] : cases) {
    write_bytes(dir / "fra.txt.gz", content);
    CHECK_THAT(error_reading(dir / "fra.txt.gz"), ContainsSubstring(message) && ContainsSubstring("fra.txt.gz: "));
  }
}

TEST_CASE("a path that cannot be read is the user's error, with the system's reason", "[gzip]") {
  const TempDir dir;
  CHECK_THAT(error_reading(dir / "none"), ContainsSubstring("none: No such file or directory"));
  CHECK_THAT(error_reading(dir.path()), ContainsSubstring("expected a file, found a directory"));
  write_bytes(dir / "secret", "x");
  ::chmod((dir / "secret").c_str(), 0);
  if (::geteuid() != 0) CHECK_THAT(error_reading(dir / "secret"), ContainsSubstring("Permission denied"));
  try {
    read_maybe_gzip(dir / "none");
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kUsage);
  }
}

TEST_CASE("a pipe is read to its end", "[gzip]") {
  const TempDir dir;
  const std::string text = long_text();
  REQUIRE(::mkfifo((dir / "pipe").c_str(), 0600) == 0);
  std::thread writer([&] { write_bytes(dir / "pipe", gzip_member(text)); });
  const std::string found = read_maybe_gzip(dir / "pipe");
  writer.join();
  CHECK(found == text);
}

TEST_CASE("crc32 gives the published check value and can go on", "[gzip]") {
  CHECK(fovea::crc32("123456789") == 0xCBF43926);
  CHECK(fovea::crc32("6789", fovea::crc32("12345")) == 0xCBF43926);
  CHECK(fovea::crc32("") == 0);
}
