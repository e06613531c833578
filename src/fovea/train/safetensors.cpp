#include "fovea/train/safetensors.h"

#include <ATen/ATen.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <optional>
#include <tuple>

#include "fovea/core/counted.h"
#include "fovea/core/error.h"
#include "fovea/core/file.h"
#include "fovea/core/json.h"

namespace fovea::train {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian and written as it lies");

constexpr std::string_view kMetadataKey = "__metadata__";
constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kAlignment = 8;
constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the limit of the Python library
constexpr size_t kMaxDims = 64;                    // as at::Tensor supports throughout

struct DtypeName {
  at::ScalarType dtype;
  std::string_view name;
  int64_t size;  // bytes
};

// In the order in which the Python library lays tensors out.
constexpr std::array<DtypeName, 10> kDtypes = {{{at::kLong, "I64", 8},
                                                {at::kDouble, "F64", 8},
                                                {at::kFloat, "F32", 4},
                                                {at::kInt, "I32", 4},
                                                {at::kBFloat16, "BF16", 2},
                                                {at::kHalf, "F16", 2},
                                                {at::kShort, "I16", 2},
                                                {at::kChar, "I8", 1},
                                                {at::kByte, "U8", 1},
                                                {at::kBool, "BOOL", 1}}};

const DtypeName* find_dtype(at::ScalarType dtype) {
  const auto it = std::find_if(kDtypes.begin(), kDtypes.end(), [&](const auto& d) { return d.dtype == dtype; });
  return it == kDtypes.end() ? nullptr : &*it;
}

const DtypeName* find_dtype(std::string_view name) {
  const auto it = std::find_if(kDtypes.begin(), kDtypes.end(), [&](const auto& d) { return d.name == name; });
  return it == kDtypes.end() ? nullptr : &*it;
}

std::string known_dtypes() {
  std::string names;
  for (const DtypeName& dtype : kDtypes) names += (names.empty() ? "" : ", ") + std::string(dtype.name);
  return names;
}

std::string quoted(const std::string& text, const std::string& what) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::exception&) {
    fail("cannot write {}: expected names and metadata in UTF-8", what);
  }
}

/// A number of at least 0, or nothing: JSON also has 1.0, -1 and numbers past 64 bits.
std::optional<uint64_t> as_size(const nlohmann::json& value) {
  if (!value.is_number_unsigned()) return std::nullopt;
  return value.get<uint64_t>();
}

/// The bytes of a tensor; nothing on overflow. An empty tensor's other sizes must not overflow
/// either: its strides do.
std::optional<uint64_t> byte_size(const std::vector<int64_t>& shape, int64_t item_size) {
  int64_t extent = item_size;
  bool empty = false;
  for (const int64_t size : shape) {
    empty = empty || size == 0;
    if (__builtin_mul_overflow(extent, std::max<int64_t>(size, 1), &extent)) return std::nullopt;
  }
  return empty ? 0 : static_cast<uint64_t>(extent);
}

SafeTensorsEntry parse_entry(const std::string& name, const nlohmann::json& value, uint64_t data_size,
                             const std::string& what) {
  const auto refuse = [&](const std::string& expected, const nlohmann::json& found) {
    std::string text = found.dump();
    if (text.size() > 200) text = text.substr(0, 200) + " ...";
    fail_usage("{}: tensor '{}': expected {}, found {}", what, name, expected, text);
  };
  if (!value.is_object() || value.size() != 3 || !value.contains("dtype") || !value.contains("shape") ||
      !value.contains("data_offsets")) {
    refuse("an object of dtype, shape and data_offsets", value);
  }
  SafeTensorsEntry entry;
  entry.name = name;

  const nlohmann::json& dtype_value = value["dtype"];
  const DtypeName* dtype = dtype_value.is_string() ? find_dtype(dtype_value.get_ref<const std::string&>()) : nullptr;
  if (dtype == nullptr) refuse("a dtype of " + known_dtypes(), dtype_value);
  entry.dtype = dtype->dtype;

  const nlohmann::json& shape = value["shape"];
  if (!shape.is_array() || shape.size() > kMaxDims) refuse(fmt::format("a shape of at most {} sizes", kMaxDims), shape);
  for (const nlohmann::json& item : shape) {
    const std::optional<uint64_t> size = as_size(item);
    if (!size || *size > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) refuse("a shape of sizes", shape);
    entry.shape.push_back(static_cast<int64_t>(*size));
  }

  const nlohmann::json& offsets = value["data_offsets"];
  const std::optional<uint64_t> begin = offsets.is_array() && offsets.size() == 2 ? as_size(offsets[0]) : std::nullopt;
  const std::optional<uint64_t> end = begin ? as_size(offsets[1]) : std::nullopt;
  if (!begin || !end || *begin > *end) refuse("data_offsets of [begin, end]", offsets);
  if (*end > data_size) refuse(fmt::format("data_offsets within the {} of data", counted(data_size, "byte")), offsets);
  entry.begin = *begin;
  entry.end = *end;

  const std::optional<uint64_t> size = byte_size(entry.shape, dtype->size);
  if (!size) refuse("a shape whose bytes fit 63 bits", shape);
  if (*size != *end - *begin) {
    fail_usage("{}: tensor '{}': expected {} for {} {}, found data_offsets of {}", what, name, counted(*size, "byte"),
               dtype->name, shape.dump(), counted(*end - *begin, "byte"));
  }
  return entry;
}

at::Tensor plain(const std::string& name, const at::Tensor& tensor, const std::string& what) {
  if (!tensor.defined()) fail("cannot write {}: tensor '{}' is undefined", what, name);
  if (name == kMetadataKey) fail("cannot write {}: a tensor cannot be named '{}'", what, name);
  if (tensor.layout() != at::kStrided || find_dtype(tensor.scalar_type()) == nullptr) {
    fail("cannot write {}: tensor '{}': expected a dense tensor of {}, found {}", what, name, known_dtypes(),
         tensor.toString());
  }
  return tensor.detach().cpu().contiguous().resolve_neg();
}

}  // namespace

SafeTensorsHeader parse_safetensors_header(std::string_view json, uint64_t data_size, const std::string& what) {
  const nlohmann::json root = parse_json(json, what);
  if (!root.is_object()) fail_usage("{}: expected a header that is a JSON object, found {}", what, root.type_name());
  SafeTensorsHeader header;
  for (const auto& [name, value] : root.items()) {
    if (name != kMetadataKey) {
      header.entries.push_back(parse_entry(name, value, data_size, what));
      continue;
    }
    if (!value.is_object())
      fail_usage("{}: expected {} to be an object, found {}", what, kMetadataKey, value.type_name());
    for (const auto& [key, text] : value.items()) {
      if (!text.is_string()) {
        fail_usage("{}: {}: expected a string for '{}', found {}", what, kMetadataKey, key, text.type_name());
      }
      header.metadata[key] = text.get<std::string>();
    }
  }
  std::sort(header.entries.begin(), header.entries.end(), [](const auto& a, const auto& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  uint64_t at = 0;
  for (const SafeTensorsEntry& entry : header.entries) {
    if (entry.begin != at) {
      fail_usage("{}: tensor '{}': expected its data to begin at byte {}, found {}: tensors {}", what, entry.name, at,
                 entry.begin, entry.begin < at ? "overlap" : "leave a hole");
    }
    at = entry.end;
  }
  if (at != data_size) {
    fail_usage("{}: expected {} of data after the header, as its tensors end there, found {}", what,
               counted(at, "byte"), data_size);
  }
  return header;
}

void save_safetensors(const std::filesystem::path& path, const SafeTensors& content) {
  const std::string what = path.string();
  std::vector<std::pair<std::string, at::Tensor>> ordered;
  for (const DtypeName& dtype : kDtypes) {
    for (const auto& [name, tensor] : content.tensors) {
      if (tensor.defined() && tensor.scalar_type() == dtype.dtype)
        ordered.emplace_back(name, plain(name, tensor, what));
    }
  }
  if (ordered.size() != content.tensors.size()) {
    for (const auto& [name, tensor] : content.tensors) plain(name, tensor, what);  // throws, naming it
  }

  std::string header = "{";
  const auto separate = [&] { header += header.size() > 1 ? "," : ""; };
  if (!content.metadata.empty()) {
    std::string pairs;
    for (const auto& [key, text] : content.metadata) {
      pairs += (pairs.empty() ? "" : ",") + quoted(key, what) + ":" + quoted(text, what);
    }
    header += fmt::format("\"{}\":{{{}}}", kMetadataKey, pairs);
  }
  uint64_t at = 0;
  for (const auto& [name, tensor] : ordered) {
    const uint64_t end = at + tensor.nbytes();
    separate();
    header += fmt::format(R"({}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", quoted(name, what),
                          find_dtype(tensor.scalar_type())->name, fmt::join(tensor.sizes(), ","), at, end);
    at = end;
  }
  header += "}";
  header.resize((header.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  if (header.size() > kMaxHeaderBytes) {
    fail("cannot write {}: expected a header of at most {} bytes, found {}", what, kMaxHeaderBytes, header.size());
  }

  OutputFile file(path);
  const uint64_t length = header.size();
  file.write(&length, kLengthBytes);
  file.write(header);
  for (const auto& [name, tensor] : ordered) file.write(tensor.const_data_ptr(), tensor.nbytes());
  file.close();
}

SafeTensors load_safetensors(const std::filesystem::path& path) {
  const InputFile file(path);
  const std::string what = path.string();
  if (file.size() < kLengthBytes) {
    fail_usage("{}: expected a safetensors file of at least {} bytes, found {}", what, kLengthBytes, file.size());
  }
  uint64_t length = 0;
  file.read(0, &length, kLengthBytes);
  const uint64_t rest = file.size() - kLengthBytes;
  if (length > rest || length > kMaxHeaderBytes) {
    fail_usage(
        "{}: expected a header of {} at most (the file has {}), found the length {}: cut "
        "short, or no "
        "safetensors file",
        what, counted(std::min(rest, kMaxHeaderBytes), "byte"), file.size(), length);
  }
  std::string json(length, '\0');
  file.read(kLengthBytes, json.data(), json.size());
  SafeTensorsHeader header = parse_safetensors_header(json, rest - length, what);

  SafeTensors content;
  content.metadata = std::move(header.metadata);
  for (const SafeTensorsEntry& entry : header.entries) {
    at::Tensor tensor = at::empty(entry.shape, at::TensorOptions(entry.dtype));
    const uint64_t size = entry.end - entry.begin;
    if (size > 0) file.read(kLengthBytes + length + entry.begin, tensor.mutable_data_ptr(), size);
    if (entry.dtype == at::kBool) {
      const auto* bytes = static_cast<const uint8_t*>(tensor.const_data_ptr());
      const auto* bad = std::find_if(bytes, bytes + size, [](uint8_t byte) { return byte > 1; });
      if (bad != bytes + size)
        fail_usage("{}: tensor '{}': expected booleans of 0 or 1, found {}", what, entry.name, *bad);
    }
    content.tensors.emplace(entry.name, std::move(tensor));
  }
  return content;
}

}  // namespace fovea::train
