#include "fovea/train/safetensors.h"

#include <cstring>

#include "fovea/core/error.h"
#include "tests/temp_dir.h"
#include "tests/test.h"

using namespace fovea;
using fovea::train::SafeTensors;

namespace {

/// A file of this header (padded as it should be) and so many bytes of data.
std::string file_of(std::string header, size_t data_size) {
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + std::string(data_size, '\1');
}

std::string damage_of(const TempDir& dir, const std::string& bytes) {
  const auto path = dir / "damaged.safetensors";
  write_bytes(path, bytes);
  const std::string error = error_of([&] { train::load_safetensors(path); });
  if (!error.empty()) CHECK_THAT(error, ContainsSubstring("damaged.safetensors"));
  return error;
}

}  // namespace

TEST_CASE("safetensors: every dtype, shape and stride comes back", "[safetensors]") {
  const TempDir dir;
  train::SafeTensors content;
  content.metadata = {{"format_version", "1"}, {"aliases", "{\"é\": \"\\n\\u0001\"}"}};
  for (const at::ScalarType dtype : {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16, at::kLong, at::kInt, at::kShort,
                                     at::kChar, at::kByte, at::kBool}) {
    content.tensors[std::string("t.") + at::toString(dtype)] = at::arange(6).remainder(2).view({2, 3}).to(dtype);
  }
  content.tensors["scalar"] = at::full({}, 2.5);
  content.tensors["empty"] = at::empty({3, 0, 2});
  content.tensors["transposed"] = at::arange(6.0).view({2, 3}).t();
  content.tensors["expanded"] = at::ones({1}).expand({4});
  content.tensors["largest"] = at::full({1}, std::numeric_limits<int64_t>::min(), at::kLong);
  train::save_safetensors(dir / "a", content);

  const train::SafeTensors loaded = train::load_safetensors(dir / "a");
  CHECK(loaded.metadata == content.metadata);
  REQUIRE(loaded.tensors.size() == content.tensors.size());
  for (const auto& [name, tensor] : content.tensors) {
    INFO(name);
    const at::Tensor& other = loaded.tensors.at(name);
    CHECK(other.scalar_type() == tensor.scalar_type());
    CHECK(other.sizes() == tensor.sizes());
    CHECK(other.is_contiguous());
    CHECK(at::equal(other, tensor));
  }
  train::save_safetensors(dir / "b", loaded);
  CHECK(read_bytes(dir / "a") == read_bytes(dir / "b"));

  train::save_safetensors(dir / "none", {});
  CHECK(train::load_safetensors(dir / "none").tensors.empty());
}

TEST_CASE("safetensors: the bytes are those of the Python library", "[safetensors]") {
  const TempDir dir;
  train::SafeTensors content;
  content.metadata = {{"k", "v"}};
  content.tensors["b"] = at::tensor({1.0F, 2.0F});
  content.tensors["a\"\x7f"] = at::tensor({1.0F});
  content.tensors["z"] = at::tensor({7}, at::kLong);
  content.tensors["c"] = at::arange(2).eq(0);
  train::save_safetensors(dir / "a", content);
  const std::string header =
      R"({"__metadata__":{"k":"v"},"z":{"dtype":"I64","shape":[1],"data_offsets":[0,8]},)"
      "\"a\\\"\x7f\":"
      R"({"dtype":"F32","shape":[1],"data_offsets":[8,12]},"b":{"dtype":"F32","shape":[2],"data_offsets":[12,20]},)"
      R"("c":{"dtype":"BOOL","shape":[2],"data_offsets":[20,22]}})";
  std::string expected = file_of(header, 0);
  const std::vector<uint8_t> data = {7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80, 0x3f, 0, 0, 0x80, 0x3f, 0, 0, 0, 0x40, 1, 0};
  expected.append(data.begin(), data.end());
  CHECK(read_bytes(dir / "a") == expected);
}

TEST_CASE("safetensors: what cannot be written is refused", "[safetensors]") {
  const TempDir dir;
  const auto refused = [&](const std::string& name, const at::Tensor& tensor) {
    train::SafeTensors content;
    content.tensors[name] = tensor;
    return error_of([&] { train::save_safetensors(dir / "x", content); });
  };
  CHECK_THAT(refused("w", at::zeros({2}, at::kComplexFloat)), ContainsSubstring("tensor 'w': expected a dense tensor"));
  CHECK_THAT(refused("w", at::Tensor()), ContainsSubstring("tensor 'w' is undefined"));
  CHECK_THAT(refused("__metadata__", at::zeros({2})), ContainsSubstring("cannot be named"));
  CHECK_THAT(refused("\xff", at::zeros({2})), ContainsSubstring("UTF-8"));
  CHECK_FALSE(std::filesystem::exists(dir / "x"));
  const train::SafeTensors some{{{"w", at::zeros({2})}}, {}};
  CHECK_THAT(error_of([&] { train::save_safetensors(dir / "no" / "x", some); }), ContainsSubstring("No such file"));
  CHECK_THAT(error_of([&] { train::save_safetensors("/dev/full", some); }),
             ContainsSubstring("/dev/full: No space left"));
}

TEST_CASE("safetensors: damage is named before memory is taken", "[safetensors][C35]") {
  const TempDir dir;
  CHECK_THAT(damage_of(dir, ""), ContainsSubstring("at least 8 bytes, found 0"));
  CHECK_THAT(damage_of(dir, "1234567"), ContainsSubstring("found 7"));
  CHECK_THAT(damage_of(dir, std::string(8, '\xff')), ContainsSubstring("found the length 18446744073709551615"));
  CHECK_THAT(damage_of(dir, file_of("{}", 0).substr(0, 12)),
             ContainsSubstring("(the file has 12), found the length 8"));
  CHECK_THAT(damage_of(dir, file_of("{]", 0)), ContainsSubstring("expected JSON"));
  CHECK_THAT(damage_of(dir, file_of("[]", 0)), ContainsSubstring("JSON object, found array"));
  CHECK_THAT(damage_of(dir, file_of(std::string(100000, '['), 0)), ContainsSubstring("nested deeper"));
  CHECK_THAT(damage_of(dir, file_of("{\"\xff\":1}", 0)), ContainsSubstring("expected JSON"));
  CHECK_THAT(damage_of(dir, file_of("{}", 5)), ContainsSubstring("expected 0 bytes of data after the header"));
  CHECK_THAT(damage_of(dir, file_of(R"({"__metadata__":[]})", 0)), ContainsSubstring("to be an object, found array"));
  CHECK_THAT(damage_of(dir, file_of(R"({"__metadata__":{"k":1}})", 0)), ContainsSubstring("a string for 'k'"));

  const std::string w = R"("w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})";
  const auto other = [&](const std::string& name, int begin, int end) {
    return "{" + w +
           fmt::format(R"(,"{}":{{"dtype":"U8","shape":[{}],"data_offsets":[{},{}]}}}})", name, end - begin, begin,
                       end);
  };
  CHECK(damage_of(dir, file_of(other("v", 8, 12), 12)).empty());
  CHECK_THAT(damage_of(dir, file_of(other("w", 8, 12), 12)), ContainsSubstring("the key \"w\" stands twice"));
  CHECK_THAT(damage_of(dir, file_of(other("v", 4, 8), 8)),
             ContainsSubstring("begin at byte 8, found 4: tensors overlap"));
  CHECK_THAT(damage_of(dir, file_of(other("v", 9, 12), 12)), ContainsSubstring("8, found 9: tensors leave a hole"));
  CHECK_THAT(damage_of(dir, file_of(other("v", 8, 12), 11)), ContainsSubstring("within the 11 bytes of data"));
  CHECK_THAT(damage_of(dir, file_of(other("v", 8, 12), 13)), ContainsSubstring("expected 12 bytes of data after"));

  const auto entry = [&](const std::string& text) { return damage_of(dir, file_of("{\"w\":" + text + "}", 8)); };
  CHECK_THAT(entry(R"([1,2,3])"), ContainsSubstring("tensor 'w': expected an object of dtype, shape and data_offsets"));
  CHECK_THAT(entry(R"({"dtype":"F32","shape":[2]})"), ContainsSubstring("expected an object"));
  CHECK_THAT(entry(R"({"dtype":"F8","shape":[2],"data_offsets":[0,8]})"), ContainsSubstring("found \"F8\""));
  CHECK_THAT(entry(R"({"dtype":4,"shape":[2],"data_offsets":[0,8]})"), ContainsSubstring("found 4"));
  CHECK_THAT(entry(R"({"dtype":"F32","shape":[3],"data_offsets":[0,8]})"),
             ContainsSubstring("expected 12 bytes for F32"));
  CHECK_THAT(entry(R"({"dtype":"F32","shape":[-2],"data_offsets":[0,8]})"), ContainsSubstring("a shape of sizes"));
  CHECK_THAT(entry(R"({"dtype":"F32","shape":[2.0],"data_offsets":[0,8]})"), ContainsSubstring("a shape of sizes"));
  CHECK_THAT(entry(R"({"dtype":"F32","shape":2,"data_offsets":[0,8]})"), ContainsSubstring("a shape of at most"));
  CHECK_THAT(entry(R"({"dtype":"F32","shape":[2],"data_offsets":[8,0]})"), ContainsSubstring("[begin, end]"));
  CHECK_THAT(entry(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8,8]})"), ContainsSubstring("[begin, end]"));
  CHECK_THAT(entry(R"({"dtype":"F32","shape":[2],"data_offsets":[0,18446744073709551616]})"),
             ContainsSubstring("[begin, end]"));
  CHECK_THAT(entry(R"({"dtype":"F32","shape":[4611686018427387904,4,2],"data_offsets":[0,8]})"),
             ContainsSubstring("fit 63 bits"));
  CHECK_THAT(entry(R"({"dtype":"F32","shape":[0,4611686018427387904,4],"data_offsets":[0,0]})"),
             ContainsSubstring("fit 63 bits"));
  CHECK(entry(R"({"dtype":"F32","shape":[2,1,1],"data_offsets":[0,8]})").empty());
  CHECK(entry(R"({"dtype":"BOOL","shape":[8],"data_offsets":[0,8]})").empty());
  std::string bad_bool = file_of(R"({"w":{"dtype":"BOOL","shape":[8],"data_offsets":[0,8]}})", 8);
  bad_bool.back() = '\2';
  CHECK_THAT(damage_of(dir, bad_bool), ContainsSubstring("booleans of 0 or 1, found 2"));

  CHECK_THAT(error_of([&] { train::load_safetensors(dir / "missing"); }), ContainsSubstring("missing: No such file"));
  CHECK_THAT(error_of([&] { train::load_safetensors(dir.path()); }), ContainsSubstring("found a directory"));
}

TEST_CASE("safetensors: a file cut anywhere or with a byte flipped never crashes", "[safetensors][C35]") {
  const TempDir dir;
  train::SafeTensors content;
  content.metadata["k"] = "v";
  content.tensors["w"] = at::arange(3.0);
  content.tensors["b"] = at::ones({2}, at::kBool);
  train::save_safetensors(dir / "whole", content);
  const std::string whole = read_bytes(dir / "whole");
  for (size_t size = 0; size < whole.size(); ++size) CHECK_FALSE(damage_of(dir, whole.substr(0, size)).empty());
  for (size_t at = 0; at < whole.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = whole;
      flipped[at] = static_cast<char>(flipped[at] ^ (1 << bit));
      write_bytes(dir / "flipped", flipped);
      try {
        train::load_safetensors(dir / "flipped");
      } catch (const fovea::Error&) {  // anything else fails the test
      }
    }
  }
  SUCCEED();
}
