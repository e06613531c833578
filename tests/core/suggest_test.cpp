#include "fovea/core/suggest.h"

#include <string>
#include <vector>

#include "tests/catch.h"

using fovea::did_you_mean;
using fovea::nearest;

TEST_CASE("a slip of the fingers finds the key that was meant", "[suggest][C30]") {
  const std::vector<std::string> keys = {"num_heads", "num_hiddens", "dropout", "lr", "max_epochs", "seed"};
  CHECK(nearest("num_head", keys) == "num_heads");
  CHECK(nearest("droput", keys) == "dropout");
  CHECK(nearest("dropuot", keys) == "dropout");
  CHECK(nearest("Dropout", keys) == "dropout");
  CHECK(nearest("max-epochs", keys) == "max_epochs");
  CHECK(nearest("maxepoch", keys) == "max_epochs");
  CHECK(nearest("hiddens", keys) == "num_hiddens");
  CHECK(nearest("epochs", keys) == "max_epochs");
  CHECK(nearest("l", keys).empty());
  CHECK(nearest("rl", keys) == "lr");
  CHECK(nearest("sede", keys) == "seed");
}

TEST_CASE("what is near nothing gets no suggestion", "[suggest]") {
  const std::vector<std::string> keys = {"num_heads", "dropout", "lr", ""};
  CHECK(nearest("optimizer", keys).empty());
  CHECK(nearest("", keys).empty());
  CHECK(nearest("x", keys).empty());
  CHECK(nearest("dropout", {}).empty());
  CHECK(nearest(std::string(1 << 20, 'd'), keys).empty());
}

TEST_CASE("the nearest wins, then the first", "[suggest]") {
  CHECK(nearest("num_head", {"num_headsets", "num_heads"}) == "num_heads");
  CHECK(nearest("bat", {"cat", "hat"}) == "cat");
  CHECK(nearest("cat", {"hat", "cat"}) == "cat");
}

TEST_CASE("did_you_mean is the end of a message or nothing", "[suggest]") {
  CHECK(did_you_mean("droput", {"dropout"}) == "; did you mean 'dropout'?");
  CHECK(did_you_mean("zzz", {"dropout"}).empty());
}
