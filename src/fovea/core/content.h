#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace fovea {

/// The first bytes of a file, `size` at most, to tell what it is; empty where it cannot be read.
std::string read_beginning(const std::filesystem::path& path, size_t size);

/// What the data evidently is, if it is something that no corpus and no data set here can be: an archive, a document,
/// an HTML page; else empty.
std::string_view foreign_format(std::string_view data);

/// The same for anything that is no text: images, programs and gzip data too.
std::string_view binary_format(std::string_view data);

/// What a file holds, for errors that say what was found instead: "nothing (it is empty)", "an HTML page", "gzip data",
/// "a PNG image", "text that begins with "Hello"", "52 bytes that begin with 00 00 08 03".
std::string describe_content(std::string_view data);

}  // namespace fovea
