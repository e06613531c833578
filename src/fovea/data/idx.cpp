#include "fovea/data/idx.h"

#include "fovea/core/content.h"
#include "fovea/core/counted.h"
#include "fovea/core/error.h"
#include "fovea/core/gzip.h"

#include <fmt/ranges.h>

#include <optional>
#include <string_view>

namespace fovea::data {
namespace {

constexpr int kUnsignedBytes = 0x08;

uint32_t byte_at(std::string_view bytes, size_t i) {
  return static_cast<uint8_t>(bytes[i]);
}

uint32_t big_endian(std::string_view bytes, size_t i) {
  return byte_at(bytes, i) << 24 | byte_at(bytes, i + 1) << 16 | byte_at(bytes, i + 2) << 8 | byte_at(bytes, i + 3);
}

std::string_view type_name(uint32_t type) {
  switch (type) {
    case 0x09:
      return "signed bytes";
    case 0x0B:
      return "16-bit numbers";
    case 0x0C:
      return "32-bit numbers";
    case 0x0D:
      return "float32 numbers";
    case 0x0E:
      return "float64 numbers";
    default:
      return "";
  }
}

size_t header_size(size_t dimensions) {
  return 4 + 4 * dimensions;
}

/// The product of the sizes; nothing if it does not fit 63 bits, which no file can hold.
std::optional<int64_t> product(const std::vector<int64_t>& shape) {
  int64_t total = 1;
  for (const int64_t size : shape) {
    if (__builtin_mul_overflow(total, size, &total)) return std::nullopt;
  }
  return total;
}

}  // namespace

int64_t IdxArray::size() const {
  return product(shape).value();
}

const uint8_t* IdxArray::data() const {
  return reinterpret_cast<const uint8_t*>(bytes.data()) + header_size(shape.size());
}

std::string describe_shape(const std::vector<int64_t>& shape) {
  return fmt::format("{} ({})", counted(shape.size(), "dimension"), fmt::join(shape, " x "));
}

IdxArray parse_idx(std::string bytes, const std::string& name) {
  if (bytes.size() < 4 || byte_at(bytes, 0) != 0 || byte_at(bytes, 1) != 0 ||
      (byte_at(bytes, 2) != kUnsignedBytes && type_name(byte_at(bytes, 2)).empty())) {
    fail("{}: expected an IDX file (00 00 08 and the number of dimensions), found {}", name, describe_content(bytes));
  }
  if (byte_at(bytes, 2) != kUnsignedBytes) {
    fail("{}: expected an IDX file of unsigned bytes, found one of {}", name, type_name(byte_at(bytes, 2)));
  }
  const size_t dimensions = byte_at(bytes, 3);
  if (dimensions == 0) fail("{}: expected an IDX file of one dimension or more, found 0", name);
  const size_t header = header_size(dimensions);
  if (bytes.size() < header) {
    fail("{}: the IDX file is cut off: its header of {} takes {} bytes, found {} in all", name,
         counted(dimensions, "dimension"), header, bytes.size());
  }
  IdxArray array;
  for (size_t i = 0; i < dimensions; ++i) array.shape.push_back(big_endian(bytes, 4 + 4 * i));
  const auto expected = product(array.shape);
  const auto found = static_cast<int64_t>(bytes.size() - header);
  if (expected != found) {
    fail("{}: the header promises {}, {}, found {} after the header: the file is {}", name, describe_shape(array.shape),
         expected ? counted(*expected, "byte") : "more than 2^63 bytes", found,
         !expected || *expected > found ? "cut off, or its header damaged" : "longer than it should be, or damaged");
  }
  array.bytes = std::move(bytes);
  return array;
}

IdxArray read_idx(const std::filesystem::path& path) {
  return parse_idx(read_maybe_gzip(path), path.string());
}

}  // namespace fovea::data
