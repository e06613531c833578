#include "fovea/core/partial.h"

#include "fovea/core/error.h"
#include "fovea/core/file.h"

namespace fovea {

namespace fs = std::filesystem;

Partial::Partial(fs::path target)
    : target_(std::move(target)), path_(target_.parent_path() / ("." + target_.filename().string() + ".partial")) {}

Partial::~Partial() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

void Partial::put_in_place() {
  std::error_code error;
  fs::rename(path_, target_, error);
  if (error) fail("{}: cannot be written: {}", target_.string(), error.message());
  sync_path(fs::absolute(target_).parent_path());
}

}  // namespace fovea
