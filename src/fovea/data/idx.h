#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace fovea::data {

/// An array of unsigned bytes as IDX files hold it: the format of MNIST and the sets made after it. A header of big
/// endian numbers (00 00, the type, the number of dimensions, then the size of each), and the values, row by row.
/// https://yann.lecun.com/exdb/mnist
struct IdxArray {
  std::vector<int64_t> shape;  // at least one dimension; a size may be 0
  std::string bytes;           // the whole file unpacked, its header too: images are not copied to be read

  int64_t size() const;         // of the array, in values
  const uint8_t* data() const;  // size() values
};

/// Reads an IDX file, plain or gzip (of one or more members): the content decides, not the name. Memory is taken for
/// what is there, never for what a header promises.
///
/// Throws a usage Error naming the file where it is missing, unreadable, empty, damaged (CRC of the gzip data),
/// evidently something else, of other values than unsigned bytes, or of another size than its header says, with both
/// sizes. Gzip data are refused while they are unpacked: as soon as there is more than the header promises, and at once
/// where it promises more than so much gzip data can hold.
IdxArray read_idx(const std::filesystem::path& path);

/// The same of a file's unpacked bytes; `name` names them in errors.
IdxArray parse_idx(std::string bytes, const std::string& name);

/// "3 dimensions (60000 x 28 x 28)"
std::string describe_shape(const std::vector<int64_t>& shape);

}  // namespace fovea::data
