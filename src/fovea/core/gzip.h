#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace fovea {

/// The most bytes an input file may hold once unpacked, unless the caller says otherwise: 4 GiB. A
/// few kilobytes of gzip can promise terabytes.
inline constexpr size_t kMaxInputBytes = size_t{4} << 30;

/// Reads a whole input file that a user named, as it is; pipes work. A slow writer is waited for.
///
/// Throws a usage Error where the path is missing, a directory, a terminal, a pipe that nobody writes to within ten
/// seconds, unreadable, or larger than max_bytes.
std::string read_input(const std::filesystem::path& path, size_t max_bytes = kMaxInputBytes);

/// Reads a whole input file that a user named, unpacking it when it holds gzip data. The content
/// decides, not the name: gzip without ".gz" is unpacked, plain data named ".gz" is returned as it
/// is. Several gzip members (files joined with cat) are read whole. Pipes work: `--input <(sort
/// x)`.
///
/// Throws a usage Error where the path is missing, a directory or unreadable, and where the
/// content is damaged gzip, larger than max_bytes, or evidently something else (an HTML page, a
/// zip, xz, ... archive), saying what was found.
std::string read_maybe_gzip(const std::filesystem::path& path, size_t max_bytes = kMaxInputBytes);

/// The same for data that was read already; `name` stands for it in errors.
std::string unpack_input(std::string data, const std::string& name, size_t max_bytes = kMaxInputBytes);

/// Unpacks gzip data (RFC 1952) with one or more members; zero bytes after the last are padding and
/// ignored. CRC and length are checked. `name` names the data in errors, which give the offset in
/// the packed bytes. `watch` sees what there is so far, from time to time, and may throw to stop it.
std::string gunzip(std::string_view packed, const std::string& name, size_t max_bytes = kMaxInputBytes,
                   const std::function<void(std::string_view)>& watch = {});

/// The most that deflate makes of one byte.
inline constexpr size_t kMostUnpackedOfByte = 1032;

/// True if the data begins as gzip data does (1f 8b).
bool is_gzip(std::string_view data);

/// CRC-32 as gzip, zip and PNG use it; pass the previous value to go on with more bytes.
uint32_t crc32(std::string_view bytes, uint32_t previous = 0);

}  // namespace fovea
