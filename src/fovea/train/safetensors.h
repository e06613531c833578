#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace fovea::train {

/// Named tensors and free text, as a .safetensors file holds them
/// (https://github.com/huggingface/safetensors): 8 bytes little-endian length of the header, the
/// header in JSON padded with spaces to a multiple of 8, the data.
struct SafeTensors {
  std::map<std::string, at::Tensor> tensors;    // loaded ones: contiguous, on the CPU
  std::map<std::string, std::string> metadata;  // "__metadata__"
};

/// Writes the file and fsyncs it (not its directory). The same content gives the same bytes:
/// tensors by dtype, the widest first, then by name, as the Python library lays them out; metadata
/// by key. Tensors of any device and strides; dtypes F64 F32 F16 BF16 I64 I32 I16 I8 U8 BOOL;
/// scalars and tensors without elements too. Error: another dtype or layout, a name that is
/// "__metadata__" or not UTF-8, a failed write.
void save_safetensors(const std::filesystem::path& path, const SafeTensors& content);

/// Reads the whole file. Whatever is wrong with it is an Error that names the file, what was
/// expected and what was found, before memory for the data is taken: a header longer than the file,
/// JSON that is none, a duplicate key, offsets that overlap, leave a hole or pass the end, an
/// unknown dtype, a shape that does not match its bytes.
SafeTensors load_safetensors(const std::filesystem::path& path);

/// One tensor as the header describes it.
struct SafeTensorsEntry {
  std::string name;
  at::ScalarType dtype;
  std::vector<int64_t> shape;
  uint64_t begin = 0;  // bytes from the start of the data
  uint64_t end = 0;
};

/// The header, checked against the size of the data in bytes; entries in order of their bytes.
/// `what` names the file in errors. load_safetensors() is this and the reading.
struct SafeTensorsHeader {
  std::vector<SafeTensorsEntry> entries;
  std::map<std::string, std::string> metadata;
};
SafeTensorsHeader parse_safetensors_header(std::string_view json, uint64_t data_size, const std::string& what);

}  // namespace fovea::train
