#include "fovea/train/checkpoint_store.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>  // renameat2, a GNU extension
#include <string_view>
#include <system_error>

#include "fovea/core/error.h"
#include "fovea/core/file.h"
#include "fovea/train/manifest.h"

namespace fovea::train {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kPrefix = "step-";
constexpr uint64_t kMaxMarkBytes = 64;

/// 40 for "step-40"; nothing for any other text ("step-040", "step--1" too).
std::optional<int64_t> parse_step(std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const std::string_view digits = name.substr(kPrefix.size());
  int64_t step = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  const bool canonical = digits.size() == 1 || (!digits.empty() && digits.front() != '0');
  if (error != std::errc() || end != digits.data() + digits.size() || step < 0 || !canonical) return std::nullopt;
  return step;
}

std::string step_name(int64_t step) {
  return fmt::format("{}{}", kPrefix, step);
}

/// Where a checkpoint is being made, and where one that is being replaced waits. The dot hides both
/// from list().
std::string partial_name(int64_t step) {
  return "." + step_name(step) + ".partial";
}
std::string replaced_name(int64_t step) {
  return "." + step_name(step) + ".replaced";
}

/// The step of a name as above, given its ending.
std::optional<int64_t> parse_hidden(std::string_view name, std::string_view ending) {
  if (!name.starts_with('.') || !name.ends_with(ending)) return std::nullopt;
  return parse_step(name.substr(1, name.size() - 1 - ending.size()));
}

std::vector<fs::path> entries(const fs::path& dir) {
  std::vector<fs::path> paths;
  std::error_code error;
  fs::directory_iterator it(dir, error);
  for (; !error && it != fs::directory_iterator(); it.increment(error)) paths.push_back(it->path());
  if (error && error != std::errc::no_such_file_or_directory)
    fail_errno("cannot list", dir, error.value(), ErrorKind::kUsage);
  return paths;
}

bool is_real_directory(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(fs::symlink_status(path, error));
}

void make_directory(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) fail_errno("cannot create", path, error.value());
}

void remove_tree(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) fail_errno("cannot remove", path, error.value());
}

void rename_path(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) fail_errno("cannot replace", to, errno);
}

/// Puts `partial` in the place of `target`, a checkpoint or nothing. At no moment are both gone:
/// where the file system cannot exchange two directories, the old one waits under a name at which
/// find_step() looks too.
void put_in_place(const fs::path& partial, const fs::path& target, const fs::path& replaced) {
  if (!is_real_directory(target)) return rename_path(partial, target);
  if (::renameat2(AT_FDCWD, partial.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) == 0) return;
  if (errno != EINVAL && errno != ENOSYS) fail_errno("cannot replace", target, errno);
  rename_path(target, replaced);
  rename_path(partial, target);
}

}  // namespace

CheckpointStore::CheckpointStore(fs::path run_dir) : dir_(std::move(run_dir) / "checkpoints") {}

void CheckpointStore::write(int64_t step, const std::function<void(const fs::path& dir)>& writer) {
  if (step < 0) fail("expected a step of at least 0 for a checkpoint, found {}", step);
  if (!is_real_directory(dir_)) {
    make_directory(dir_);
    sync_path(dir_.parent_path());
  }
  remove_leftovers();
  const fs::path partial = dir_ / partial_name(step);
  try {
    make_directory(partial);
    writer(partial);
    const Manifest manifest = describe_directory(partial, step);
    for (const Manifest::File& file : manifest.files) sync_path(partial / file.name);
    write_manifest(partial, manifest);
    sync_path(partial);
    put_in_place(partial, dir_ / step_name(step), dir_ / replaced_name(step));
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(partial, ignored);
    throw;
  }
  sync_path(dir_);
  remove_leftovers();  // the one that was replaced
}

void CheckpointStore::mark(const std::string& name, int64_t step) {
  if (name != "last" && name != "best") fail("expected 'last' or 'best' to mark a checkpoint, found '{}'", name);
  if (!is_real_directory(dir_ / step_name(step))) {
    fail("cannot mark {} as {}: it is not there", (dir_ / step_name(step)).string(), name);
  }
  // A copy that followed links has a directory where the link was; what it holds is there as a checkpoint too, or now.
  if (const fs::path copy = dir_ / name; is_real_directory(copy)) {
    const int64_t copied = read_manifest(copy).step;
    if (is_real_directory(dir_ / step_name(copied))) {
      remove_tree(copy);
    } else {
      rename_path(copy, dir_ / step_name(copied));
    }
  }
  const fs::path aside = dir_ / ("." + name + ".partial");
  ::unlink(aside.c_str());  // a killed process may have left it
  if (::symlink(step_name(step).c_str(), aside.c_str()) != 0) {
    if (errno != EPERM && errno != EOPNOTSUPP && errno != ENOSYS && errno != EINVAL) {
      fail_errno("cannot create", aside, errno);
    }
    return replace_file(dir_ / name, step_name(step) + "\n");  // FAT, exFAT and some shared folders have no links
  }
  try {
    rename_path(aside, dir_ / name);
  } catch (...) {
    ::unlink(aside.c_str());
    throw;
  }
  sync_path(dir_);
}

void CheckpointStore::prune(int64_t keep_last) {
  remove_leftovers();
  std::vector<int64_t> steps = list();
  steps.resize(steps.size() - std::min(steps.size(), static_cast<size_t>(std::max<int64_t>(keep_last, 0))));
  const std::optional<Found> last = find_marked("last");
  const std::optional<Found> best = find_marked("best");
  for (const int64_t step : steps) {
    if ((last && last->step == step) || (best && best->step == step)) continue;
    const fs::path dir = dir_ / step_name(step);
    try {
      if (entries(dir).size() > read_manifest(dir).files.size() + 1) continue;
    } catch (const Error&) {
      continue;  // not as it was written: leave it to its owner
    }
    // Out of the way as a whole first: a kill during the removal must not leave half a checkpoint.
    rename_path(dir, dir_ / partial_name(step));
    remove_tree(dir_ / partial_name(step));
  }
}

std::string CheckpointStore::identity(const std::string& which) const {
  try {
    const std::optional<Found> found = find(which);
    struct stat status {};
    if (!found || ::stat(found->dir.c_str(), &status) != 0) return "";
    return fmt::format("{} {} {}", found->dir.string(), status.st_dev, status.st_ino);
  } catch (const Error&) {
    return "";
  }
}

fs::path CheckpointStore::open(const std::string& which) const {
  const std::optional<Found> found = find(which);
  if (found && which.empty() && !find_marked("best") && !find_marked("last")) {
    spdlog::warn(
        "{}: neither 'best' nor 'last' is there (a copy without links?): {} is used, and which is the best is not "
        "known",
        dir_.string(), found->dir.filename().string());
  }
  std::string damage;
  if (found) {
    try {
      const Manifest manifest = read_manifest(found->dir);
      if (manifest.step != found->step) {
        fail_usage("{}: expected step {}, found {}", (found->dir / kManifestName).string(), found->step, manifest.step);
      }
      verify_directory(found->dir, manifest);
      return found->dir;
    } catch (const Error& error) {
      damage = error.what();
    }
  } else {
    std::error_code error;
    const fs::path target = fs::read_symlink(dir_ / (which.empty() ? "best" : which), error);
    damage = fmt::format("{}: expected a checkpoint{}, found none{}", dir_.string(), which.empty() ? "" : " " + which,
                         error ? "" : fmt::format(": {} is gone", target.string()));
  }
  const std::optional<Found> other = newest_whole(found ? std::optional(found->step) : std::nullopt);
  if (!other) throw Error(damage, ErrorKind::kUsage);
  fail_usage("{}\navailable: --checkpoint {}", damage, step_name(other->step));
}

std::optional<fs::path> CheckpointStore::directory_of(const std::string& which) const {
  const std::optional<Found> found = find(which);
  return found ? std::optional(found->dir) : std::nullopt;
}

std::optional<int64_t> CheckpointStore::step_of(const std::string& which) const {
  const std::optional<Found> found = find(which);
  return found ? std::optional(found->step) : std::nullopt;
}

std::vector<int64_t> CheckpointStore::list() const {
  std::vector<int64_t> steps;
  for (const fs::path& path : entries(dir_)) {
    const std::string name = path.filename().string();
    std::optional<int64_t> step = parse_step(name);
    if (!step) step = parse_hidden(name, ".replaced");
    if (step && is_real_directory(path)) steps.push_back(*step);
  }
  std::sort(steps.begin(), steps.end());
  steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
  return steps;
}

std::optional<CheckpointStore::Found> CheckpointStore::find(const std::string& which) const {
  if (const std::optional<int64_t> step = parse_step(which)) return find_step(*step);
  if (which == "best") return find_marked("best");
  if (which.empty()) {
    std::error_code error;
    // A best that is marked but gone is not silently replaced by another: open() says so.
    if (fs::exists(fs::symlink_status(dir_ / "best", error))) return find_marked("best");
  } else if (which != "last") {
    fail_usage("expected best, last or step-N for a checkpoint, found '{}'", which);
  }
  const std::optional<Found> last = find_marked("last");
  return last ? last : newest_whole();
}

std::optional<CheckpointStore::Found> CheckpointStore::find_marked(const std::string& name) const {
  const fs::path mark = dir_ / name;
  // A copy that followed links has a directory here.
  if (is_real_directory(mark)) return Found{mark, read_manifest(mark).step};
  std::error_code error;
  std::string target;
  if (fs::is_regular_file(fs::symlink_status(mark, error))) {
    target = read_file(mark, kMaxMarkBytes);
    target.resize(std::min(target.find_last_not_of("\r\n") + 1, target.size()));
  } else {
    target = fs::read_symlink(mark, error).string();
  }
  const std::optional<int64_t> step = parse_step(target);
  return step ? find_step(*step) : std::nullopt;
}

std::optional<CheckpointStore::Found> CheckpointStore::find_step(int64_t step) const {
  for (const std::string& name : {step_name(step), replaced_name(step)}) {
    if (is_real_directory(dir_ / name)) return Found{dir_ / name, step};
  }
  return std::nullopt;
}

std::optional<CheckpointStore::Found> CheckpointStore::newest_whole(std::optional<int64_t> except) const {
  const std::vector<int64_t> steps = list();
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    const std::optional<Found> found = find_step(*step);
    if (!found || except == *step) continue;
    try {
      const Manifest manifest = read_manifest(found->dir);
      verify_directory(found->dir, manifest);
      if (manifest.step == *step) return found;
    } catch (const Error&) {  // look further
    }
  }
  return std::nullopt;
}

void CheckpointStore::remove_leftovers() const {
  for (const fs::path& path : entries(dir_)) {
    const std::string name = path.filename().string();
    if (parse_hidden(name, ".partial")) remove_tree(path);
    if (name == ".last.partial" || name == ".best.partial") ::unlink(path.c_str());  // killed while marking
    if (const std::optional<int64_t> step = parse_hidden(name, ".replaced")) {
      const fs::path target = dir_ / step_name(*step);
      is_real_directory(target) ? remove_tree(path) : rename_path(path, target);
    }
  }
}

}  // namespace fovea::train
