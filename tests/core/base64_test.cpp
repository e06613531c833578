#include "fovea/core/base64.h"

#include "tests/catch.h"

// The examples of RFC 4648, section 10.
TEST_CASE("base64 is that of RFC 4648") {
  CHECK(fovea::base64("").empty());
  CHECK(fovea::base64("f") == "Zg==");
  CHECK(fovea::base64("fo") == "Zm8=");
  CHECK(fovea::base64("foo") == "Zm9v");
  CHECK(fovea::base64("foob") == "Zm9vYg==");
  CHECK(fovea::base64("fooba") == "Zm9vYmE=");
  CHECK(fovea::base64("foobar") == "Zm9vYmFy");
  CHECK(fovea::base64("\xFF\xFE\xFD") == "//79");
}
