#include "fovea/data/idx.h"

#include "fovea/core/content.h"
#include "fovea/core/counted.h"
#include "fovea/core/error.h"
#include "fovea/core/gzip.h"

#include <fmt/ranges.h>

#include <optional>
#include <string_view>

namespace fovea::data {

std::string describe_shape(const std::vector<int64_t>& shape) {
  return fmt::format("{} dimension{} ({})", shape.size(), shape.size() == 1 ? "" : "s", fmt::join(shape, " x "));
}

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

/// What the beginning of a file says it holds.
struct IdxHeader {
  size_t size;  // of the header itself; nothing below is known where there are fewer bytes
  std::vector<int64_t> shape{};
  std::optional<int64_t> values{};
};

IdxHeader parse_header(std::string_view bytes, const std::string& name) {
  if (bytes.size() < 4 || byte_at(bytes, 0) != 0 || byte_at(bytes, 1) != 0 ||
      (byte_at(bytes, 2) != kUnsignedBytes && type_name(byte_at(bytes, 2)).empty())) {
    fail_usage("{}: expected an IDX file (00 00 08 and the number of dimensions), found {}", name,
               describe_content(bytes));
  }
  if (byte_at(bytes, 2) != kUnsignedBytes) {
    fail_usage("{}: expected an IDX file of unsigned bytes, found one of {}", name, type_name(byte_at(bytes, 2)));
  }
  const size_t dimensions = byte_at(bytes, 3);
  if (dimensions == 0) fail_usage("{}: expected an IDX file of one dimension or more, found 0", name);
  IdxHeader header{header_size(dimensions)};
  if (bytes.size() < header.size) return header;
  for (size_t i = 0; i < dimensions; ++i) header.shape.push_back(big_endian(bytes, 4 + 4 * i));
  header.values = product(header.shape);
  return header;
}

[[noreturn]] void fail_size(const std::string& name, const IdxHeader& header, const std::string& found, bool is_more) {
  fail_usage("{}: the header promises {}, {} bytes, found {} after the header: the file is {}", name,
             describe_shape(header.shape), header.values ? fmt::format("{}", *header.values) : "more than 2^63", found,
             is_more ? "longer than it should be, or damaged" : "cut off, or its header damaged");
}

/// Refuses gzip data as soon as they cannot be what the header promises. `so_far`: what is unpacked.
void check_promise(std::string_view so_far, size_t packed_size, const std::string& name) {
  if (so_far.size() < 4) return;
  const IdxHeader header = parse_header(so_far, name);
  if (so_far.size() < header.size) return;
  const auto found = static_cast<int64_t>(so_far.size() - header.size);
  const auto most = static_cast<int64_t>(packed_size * kMostUnpackedOfByte);
  if (!header.values || *header.values > most) {
    fail_size(name, header, fmt::format("gzip data of {} bytes, which hold {} at most,", packed_size, most), false);
  }
  if (found > *header.values) fail_size(name, header, fmt::format("{} or more", found), true);
}

}  // namespace

int64_t IdxArray::size() const {
  return product(shape).value();
}

const uint8_t* IdxArray::data() const {
  return reinterpret_cast<const uint8_t*>(bytes.data()) + header_size(shape.size());
}

IdxArray parse_idx(std::string bytes, const std::string& name) {
  IdxHeader header = parse_header(bytes, name);
  if (bytes.size() < header.size) {
    const size_t dimensions = byte_at(bytes, 3);
    fail_usage("{}: the IDX file is cut off: its header of {} takes {} bytes, found {} in all", name,
               counted(dimensions, "dimension"), header.size, bytes.size());
  }
  const auto found = static_cast<int64_t>(bytes.size() - header.size);
  if (header.values != found) {
    fail_size(name, header, std::to_string(found), header.values && *header.values < found);
  }
  return {.shape = std::move(header.shape), .bytes = std::move(bytes)};
}

IdxArray read_idx(const std::filesystem::path& path) {
  const std::string name = path.string();
  std::string bytes = read_input(path);
  if (is_gzip(bytes)) {
    bytes = gunzip(bytes, name, kMaxInputBytes,
                   [&](std::string_view so_far) { check_promise(so_far, bytes.size(), name); });
  }
  return parse_idx(std::move(bytes), name);
}

}  // namespace fovea::data
