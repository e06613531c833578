#include "fovea/core/counted.h"

#include "tests/catch.h"

using fovea::counted;

TEST_CASE("what is counted stands in the singular where it is one") {
  CHECK(counted(0, "pair") == "0 pairs");
  CHECK(counted(1, "pair") == "1 pair");
  CHECK(counted(size_t{2}, "pair") == "2 pairs");
  CHECK(counted(uint64_t{1} << 63, "byte") == "9223372036854775808 bytes");
  CHECK(counted(1, "class", "classes") == "1 class");
  CHECK(counted(3, "class", "classes") == "3 classes");
}
