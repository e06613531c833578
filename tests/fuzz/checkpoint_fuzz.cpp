// Checkpoint files of any bytes: read or refused with fovea::Error, nothing else.

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "fovea/core/error.h"
#include "fovea/train/manifest.h"
#include "fovea/train/safetensors.h"

namespace {

template <typename Read>
void read_or_refuse(const Read& read) {
  try {
    read();
  } catch (const fovea::Error&) {  // as it should be
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  read_or_refuse([&] { fovea::train::parse_manifest(bytes, "manifest.json"); });
  // The JSON of a header directly: its length field would stop most mutations.
  read_or_refuse([&] { fovea::train::parse_safetensors_header(bytes, size, "header"); });

  const int fd = ::memfd_create("checkpoint", 0);
  if (fd < 0 || ::write(fd, data, size) != static_cast<ssize_t>(size)) std::abort();
  read_or_refuse([&] { fovea::train::load_safetensors("/proc/self/fd/" + std::to_string(fd)); });
  ::close(fd);
  return 0;
}
