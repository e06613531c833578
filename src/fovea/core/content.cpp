#include "fovea/core/content.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <span>

#include "fovea/core/counted.h"
#include "fovea/core/utf8.h"

namespace fovea {
namespace {

using namespace std::string_view_literals;

struct Format {
  std::string_view magic, name;
};

constexpr auto kForeign = std::to_array<Format>({
    {"PK\x03\x04"sv, "a zip archive"},
    {"\xFD"
     "7zXZ\0"sv,
     "xz data"},
    {"7z\xBC\xAF\x27\x1C"sv, "a 7z archive"},
    {"\x28\xB5\x2F\xFD"sv, "zstd data"},
    {"%PDF-"sv, "a PDF document"},
    {"\x04\x22\x4D\x18"sv, "lz4 data"},
    {"Rar!\x1A\x07"sv, "a RAR archive"},
});

constexpr auto kKnown = std::to_array<Format>({
    {"\x1F\x8B"sv, "gzip data"},
    {"\x89PNG\r\n\x1A\n"sv, "a PNG image"},
    {"\xFF\xD8\xFF"sv, "a JPEG image"},
    {"GIF8"sv, "a GIF image"},
    {"BM"sv, "a BMP image"},
    {"II*\0"sv, "a TIFF image"},
    {"MM\0*"sv, "a TIFF image"},
    {"\x93NUMPY"sv, "a NumPy array"},
    {"\x80\x02"sv, "a Python pickle"},
    {"\x7F"
     "ELF"sv,
     "a program"},
});

std::string_view name_of(std::string_view data, std::span<const Format> formats) {
  for (const auto& format : formats) {
    if (data.starts_with(format.magic)) return format.name;
  }
  return {};
}

bool begins_with_tag(std::string_view data, std::string_view lower_case_tag) {
  return data.size() >= lower_case_tag.size() &&
         std::equal(lower_case_tag.begin(), lower_case_tag.end(), data.begin(),
                    [](char tag, char found) { return tag == (found >= 'A' && found <= 'Z' ? found + 32 : found); });
}

bool is_html(std::string_view data) {
  if (data.starts_with("\xEF\xBB\xBF")) data.remove_prefix(3);
  data.remove_prefix(std::min(data.find_first_not_of(" \t\r\n"), data.size()));
  return begins_with_tag(data, "<!doctype html") || begins_with_tag(data, "<html");
}

bool is_printable(std::string_view character) {
  const char c = character.front();
  return character.size() > 1 || (c >= ' ' && c <= '~') || c == '\n' || c == '\r' || c == '\t';
}

// The first characters of a text, about `size` bytes; empty for what is no UTF-8 text.
std::string_view beginning_of_text(std::string_view data, size_t size) {
  size_t at = 0;
  while (at < data.size() && at < size) {
    const size_t length = utf8_length(data, at);
    if (length == 0 || !is_printable(data.substr(at, length))) return {};
    at += length;
  }
  return data.substr(0, at);
}

}  // namespace

std::string read_beginning(const std::filesystem::path& path, size_t size) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes(size, '\0');
  file.read(bytes.data(), static_cast<std::streamsize>(size));
  bytes.resize(static_cast<size_t>(file.gcount()));
  return bytes;
}

std::string_view foreign_format(std::string_view data) {
  if (const auto name = name_of(data, kForeign); !name.empty()) return name;
  if (data.starts_with("BZh") && data.substr(std::min<size_t>(data.size(), 4)).starts_with("1AY&SY")) {
    return "bzip2 data";
  }
  if (data.size() >= 262 && data.substr(257, 5) == "ustar") return "a tar archive";
  if (is_html(data)) return "an HTML page";
  return {};
}

std::string_view binary_format(std::string_view data) {
  if (const auto name = foreign_format(data); !name.empty()) return name;
  if (const auto name = name_of(data, kKnown); !name.empty()) return name;
  return data.starts_with("RIFF") && data.size() >= 12 && data.substr(8, 4) == "WEBP" ? "a WebP image" : "";
}

std::string describe_content(std::string_view data) {
  if (data.empty()) return "nothing (it is empty)";
  if (const auto name = binary_format(data); !name.empty()) return std::string(name);
  if (const std::string_view head = beginning_of_text(data, 24); !head.empty()) {
    const std::string_view line = head.substr(0, head.find_first_of("\r\n"));
    return fmt::format("text that begins with \"{}\"", line);
  }
  std::string bytes;
  for (const char c : data.substr(0, 4)) bytes += fmt::format(" {:02x}", static_cast<unsigned char>(c));
  return fmt::format("{} that begin{} with{}", counted(data.size(), "byte"), data.size() == 1 ? "s" : "", bytes);
}

}  // namespace fovea
