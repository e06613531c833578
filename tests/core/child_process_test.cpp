#include "fovea/core/child_process.h"

#include "fovea/core/error.h"
#include "tests/test.h"

using namespace fovea;

TEST_CASE("a program is run to its end; its output and status are known") {
  const ChildResult done = run_child("/bin/sh", {"-c", "echo \"$1\"; exit 3", "sh", "a b'c"});
  CHECK(done.status == 3);
  CHECK(done.output == "a b'c\n");
  CHECK(done.peak_memory > 0);
  CHECK(run_child("/bin/sh", {"-c", "cat"}).output.empty());  // it has no input
  CHECK(run_child("/bin/sh", {"-c", "kill -TERM $$"}).status == 128 + 15);
  CHECK(run_child("/bin/sh", {"-c", "yes | head -c 1000000"}).output.size() == 1000000);
}

TEST_CASE("a program that is not there is an error") {
  CHECK_THROWS_AS(run_child("/nowhere/program", {}), Error);
  CHECK(std::filesystem::exists(this_program()));
}
