#include "fovea/core/output.h"

#include <sys/stat.h>

#include "fovea/core/error.h"
#include "tests/catch.h"
#include "tests/temp_dir.h"

using namespace fovea;

namespace fs = std::filesystem;

TEST_CASE("C47: what may be written, and where") {
  const TempDir dir;
  const auto at = [&](const char* name) { return dir / name; };
  write_bytes(at("file"), "old");
  fs::create_directory(at("dir"));
  write_bytes(at("dir") / "inner", "old");
  fs::create_symlink("file", at("link"));
  fs::create_symlink("link", at("chain"));
  fs::create_symlink("new", at("dangling"));
  fs::create_symlink("loop", at("loop"));
  REQUIRE(::mkfifo(at("pipe").c_str(), 0600) == 0);
  const auto place = [&](const fs::path& path, bool overwrite = false) {
    return check_output({.path = path, .option = "--output", .overwrite = overwrite});
  };
  CHECK(place(at("new")) == at("new"));
  CHECK(place(at("dangling")) == at("new"));
  for (const char* name : {"file", "link", "chain"}) {
    CHECK_THROWS_WITH(place(at(name)), ContainsSubstring(name) && ContainsSubstring("already exists"));
    CHECK(fs::equivalent(place(at(name), true), at("file")));
    CHECK_FALSE(fs::is_symlink(place(at(name), true)));
  }
  for (const bool overwrite : {false, true}) {
    CHECK_THROWS_WITH(place(at("pipe"), overwrite), ContainsSubstring("is a pipe"));
    CHECK_THROWS_WITH(place("/dev/null", overwrite), ContainsSubstring("is a device"));
    CHECK_THROWS_WITH(place(at("dir"), overwrite), ContainsSubstring("is a directory"));
    CHECK_THROWS_WITH(place(at("loop"), overwrite), ContainsSubstring("is a link to itself"));
    CHECK_THROWS_WITH(place("-", overwrite), ContainsSubstring("name a file"));
    CHECK_THROWS_WITH(place("", overwrite), ContainsSubstring("expected a name"));
    CHECK_THROWS_WITH(place(at("no") / "x", overwrite), ContainsSubstring("there is no directory"));
    CHECK_THROWS_WITH(place(at("file") / "x", overwrite), ContainsSubstring("there is no directory"));
  }
  Output output{.path = at("chain"), .option = "--output", .overwrite = true, .sources = {at("file")}};
  CHECK_THROWS_WITH(check_output(output), ContainsSubstring("is read here"));
  output.path = at("dir") / "inner";
  CHECK(fs::equivalent(check_output(output), output.path));
  output.sources = {at("dir")};
  CHECK_THROWS_WITH(check_output(output), ContainsSubstring("is read here"));
  output.path = at("dir") / "another";  // replaces nothing that is read
  CHECK(check_output(output).filename() == "another");
  const Output directory{
      .path = at("dir").string() + "/", .option = "-o", .overwrite = true, .form = Output::Form::kDirectory};
  CHECK(fs::equivalent(check_output(directory), at("dir")));
  try {
    place(at("file"));
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::kUsage);
  }
}
