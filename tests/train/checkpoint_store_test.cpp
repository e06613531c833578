#include "fovea/train/checkpoint_store.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "fovea/core/error.h"
#include "fovea/core/file.h"
#include "tests/catch.h"
#include "tests/temp_dir.h"

namespace fs = std::filesystem;
using namespace fovea;
using fovea::train::CheckpointStore;

namespace {

auto files_of(const std::string& text) {
  return [text](const fs::path& dir) {
    write_bytes(dir / "model.safetensors", text + std::string(50, 'm'));
    write_bytes(dir / "state.json", text);
  };
}

std::string state_in(const fs::path& dir) {
  return read_bytes(dir / "state.json");
}

size_t entries_in(const fs::path& dir) {
  return static_cast<size_t>(std::distance(fs::directory_iterator(dir), fs::directory_iterator()));
}

}  // namespace

TEST_CASE("checkpoint store: write, mark, open, replace", "[checkpoint]") {
  const TempDir dir;
  train::CheckpointStore store(dir / "runs/a");
  CHECK(store.list().empty());
  CHECK(store.step_of() == std::nullopt);
  CHECK_THAT(error_of([&] { store.open(); }),
             ContainsSubstring("runs/a/checkpoints: expected a checkpoint, found none"));

  store.write(20, files_of("twenty"));
  store.mark("last", 20);
  store.mark("best", 20);
  store.write(9, files_of("nine"));
  store.write(100, files_of("hundred"));
  store.mark("last", 100);
  CHECK(store.list() == std::vector<int64_t>{9, 20, 100});
  CHECK(store.step_of("") == 20);
  CHECK(store.step_of("best") == 20);
  CHECK(store.step_of("last") == 100);
  CHECK(store.step_of("step-9") == 9);
  CHECK(store.step_of("step-8") == std::nullopt);
  CHECK(store.open() == dir / "runs/a/checkpoints/step-20");
  CHECK(state_in(store.open("last")) == "hundred");
  CHECK(fs::read_symlink(store.directory() / "last") == "step-100");

  store.write(100, files_of("again"));
  CHECK(state_in(store.open("last")) == "again");
  CHECK(entries_in(store.directory()) == 5);

  for (const char* which : {"step-", "step-09", "step--9", "step-9x", "first", "../x", "step-99999999999999999999"}) {
    CHECK_THAT(error_of([&] { store.open(which); }), ContainsSubstring("expected best, last or step-N"));
  }
  CHECK_THAT(error_of([&] { store.open("step-8"); }),
             ContainsSubstring("expected a checkpoint step-8, found none\navailable: --checkpoint step-100"));
  CHECK_THAT(error_of([&] { store.mark("last", 8); }), ContainsSubstring("step-8 as last: it is not there"));
  CHECK_THAT(error_of([&] { store.mark("first", 9); }), ContainsSubstring("found 'first'"));
  CHECK_THAT(error_of([&] { store.write(-1, files_of("")); }), ContainsSubstring("found -1"));
}

TEST_CASE("checkpoint store: prune keeps the newest, the marked and what it does not know", "[checkpoint]") {
  const TempDir dir;
  train::CheckpointStore store(dir.path());
  for (int64_t step = 1; step <= 9; ++step) store.write(step, files_of("x"));
  store.mark("best", 2);
  store.mark("last", 3);
  write_bytes(store.directory() / "step-4" / "notes.txt", "mine");
  write_bytes(store.directory() / "step-5" / "manifest.json", "{}");
  write_bytes(store.directory() / "notes.txt", "mine");
  fs::create_directory(store.directory() / "step-0x");
  store.prune(2);
  CHECK(store.list() == std::vector<int64_t>{2, 3, 4, 5, 8, 9});
  CHECK(fs::exists(store.directory() / "notes.txt"));
  CHECK(fs::exists(store.directory() / "step-0x"));
  store.prune(0);
  CHECK(store.list() == std::vector<int64_t>{2, 3, 4, 5});
  store.prune(100);
  CHECK(store.list().size() == 4);
}

TEST_CASE("checkpoint store: marks that are gone", "[checkpoint]") {
  const TempDir dir;
  train::CheckpointStore store(dir.path());
  for (int64_t step = 1; step <= 3; ++step) store.write(step, files_of(std::to_string(step)));
  CHECK(store.step_of("last") == 3);  // never marked: the newest whole
  store.mark("best", 1);
  store.mark("last", 2);
  CHECK(state_in(store.open("last")) == "2");
  fs::remove_all(store.directory() / "step-2");
  fs::resize_file(store.directory() / "step-3" / "state.json", 0);
  CHECK(store.step_of("last") == 1);  // dangling, and 3 is damaged
  CHECK(store.step_of() == 1);
  fs::remove_all(store.directory() / "step-1");
  CHECK(store.step_of() == std::nullopt);  // the best is gone: not silently another
  store.write(4, files_of("4"));
  CHECK_THAT(error_of([&] { store.open(); }),
             ContainsSubstring("found none: step-1 is gone\navailable: --checkpoint step-4"));

  // A copy that followed the links.
  fs::remove(store.directory() / "last");
  fs::copy(store.directory() / "step-4", store.directory() / "last");
  CHECK(store.step_of("last") == 4);
  CHECK(state_in(store.open("last")) == "4");
  // A link that leads elsewhere is not followed.
  fs::remove_all(store.directory() / "last");
  fs::create_directory_symlink("../elsewhere/step-9", store.directory() / "last");
  CHECK(store.step_of("last") == 4);
}

TEST_CASE("checkpoint store: damage is named, with the way out", "[checkpoint][C35]") {
  const TempDir dir;
  train::CheckpointStore store(dir.path());
  store.write(40, files_of("forty"));
  store.write(60, files_of("sixty"));
  store.mark("last", 60);
  const fs::path checkpoint = store.directory() / "step-60";
  const fs::path whole = dir / "whole";
  fs::copy(checkpoint, whole);
  const auto damage = [&](const auto& change) {
    fs::remove_all(checkpoint);
    fs::copy(whole, checkpoint);
    change();
    const std::string error = error_of([&] { store.open("last"); });
    CHECK_THAT(error, ContainsSubstring("step-60/"));
    CHECK_THAT(error, ContainsSubstring("\navailable: --checkpoint step-40"));
    return error;
  };
  const fs::path model = checkpoint / "model.safetensors";
  const fs::path manifest = checkpoint / "manifest.json";
  CHECK_THAT(damage([&] { fs::remove(model); }),
             ContainsSubstring("model.safetensors: expected a file of 55 bytes, it is missing"));
  CHECK_THAT(damage([&] { fs::resize_file(model, 10); }),
             ContainsSubstring("model.safetensors: expected 55 bytes, found 10"));
  CHECK_THAT(damage([&] { write_bytes(model, std::string(55, 'x')); }), ContainsSubstring("damaged: expected CRC-32"));
  CHECK_THAT(damage([&] { write_bytes(checkpoint / "more", ""); }),
             ContainsSubstring("more: not one of this checkpoint's files"));
  CHECK_THAT(damage([&] { fs::create_directory(checkpoint / "more"); }), ContainsSubstring("found something else"));
  CHECK_THAT(damage([&] { fs::remove(manifest); }), ContainsSubstring("manifest.json: No such file"));
  CHECK_THAT(damage([&] { write_bytes(manifest, R"({"format":2})"); }), ContainsSubstring("of format 1, found 2"));
  CHECK_THAT(damage([&] {
               fs::copy_file(store.directory() / "step-40/manifest.json", manifest,
                             fs::copy_options::overwrite_existing);
             }),
             ContainsSubstring("expected step 60, found 40"));
  for (const char* name : {"manifest.json", "model.safetensors", "state.json"}) {
    const std::string bytes = read_bytes(whole / name);
    for (const size_t percent : {0, 10, 50, 99}) {
      damage([&] { write_bytes(checkpoint / name, bytes.substr(0, bytes.size() * percent / 100)); });
    }
    for (size_t at = 0; at < bytes.size(); ++at) {
      std::string flipped = bytes;
      flipped[at] = static_cast<char>(flipped[at] ^ (1 << (at % 8)));
      damage([&] { write_bytes(checkpoint / name, flipped); });
    }
  }
  fs::remove_all(store.directory() / "step-40");
  CHECK_THAT(error_of([&] { store.open("last"); }), !ContainsSubstring("another checkpoint"));
}

TEST_CASE("checkpoint store: a failed write leaves everything as it was", "[checkpoint][C35]") {
  const TempDir dir;
  train::CheckpointStore store(dir.path());
  store.write(40, files_of("forty"));
  store.mark("last", 40);
  const auto failing = [](const fs::path& into) {
    write_bytes(into / "model.safetensors", "half");
    fovea::fail("no luck");
  };
  for (const int64_t step : {40, 60}) {
    CHECK(error_of([&] { store.write(step, failing); }) == "no luck");
    CHECK(state_in(store.open("last")) == "forty");
    CHECK(entries_in(store.directory()) == 2);
  }
  CHECK_THAT(error_of([&] { store.write(60, [](const fs::path& into) { fs::create_directory(into / "sub"); }); }),
             ContainsSubstring("sub: expected only files"));

  // A disk that is full: the limit on file sizes has the kernel refuse the write alike.
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit old_limit{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &old_limit) == 0);
  const rlimit small{1000, old_limit.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  const std::string full = error_of([&] {
    store.write(60, [](const fs::path& into) {
      fovea::OutputFile file(into / "model.safetensors");
      file.write(std::string(2000, 'x'));
      file.close();
    });
  });
  ::setrlimit(RLIMIT_FSIZE, &old_limit);
  std::signal(SIGXFSZ, old_handler);
  CHECK_THAT(full, ContainsSubstring("cannot write ") && ContainsSubstring("model.safetensors: File too large"));
  CHECK(state_in(store.open()) == "forty");
  CHECK(entries_in(store.directory()) == 2);

  // A place that cannot be written to.
  write_bytes(dir / "file", "");
  CHECK_THAT(error_of([&] { train::CheckpointStore(dir / "file").write(1, files_of("")); }),
             ContainsSubstring("cannot create ") && ContainsSubstring("file/checkpoints: Not a directory"));
  if (::geteuid() != 0) {
    fs::permissions(store.directory(), fs::perms::owner_read | fs::perms::owner_exec);
    CHECK_THAT(error_of([&] { store.write(60, files_of("")); }), ContainsSubstring("Permission denied"));
    CHECK(state_in(store.open()) == "forty");
    fs::permissions(store.directory(), fs::perms::owner_all);
  }
}

TEST_CASE("checkpoint store: killed at any moment, a whole checkpoint is found", "[checkpoint][C35]") {
  const TempDir dir;
  train::CheckpointStore store(dir.path());
  store.write(0, files_of("0"));
  store.mark("last", 0);
  const std::string large(200'000, 'x');
  for (int round = 0; round < 40; ++round) {
    const int64_t newest = store.list().back();
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      for (int64_t step = newest;; ++step) {  // replaces the newest, then goes on
        store.write(step, files_of(std::to_string(step) + large));
        store.mark("last", step);
        store.prune(2);
      }
    }
    ::usleep(static_cast<useconds_t>(500 + (round * 7919) % 9000));
    REQUIRE(::kill(child, SIGKILL) == 0);
    REQUIRE(::waitpid(child, nullptr, 0) == child);
    const int64_t step = *store.step_of("last");
    CHECK(step >= newest - 1);
    CHECK(state_in(store.open("last")).substr(0, std::to_string(step).size()) == std::to_string(step));
    for (const int64_t each : store.list()) CHECK_NOTHROW(store.open("step-" + std::to_string(each)));
  }
  fs::remove(store.directory() / ".last.partial");
  fs::create_symlink("step-0", store.directory() / ".last.partial");  // as one that was killed while marking leaves it
  store.write(1'000'000, files_of("end"));
  store.prune(1);
  CHECK(entries_in(store.directory()) <= 3);  // what killed processes left is gone
}

TEST_CASE("checkpoint store: killed while replacing where directories cannot be exchanged", "[checkpoint][C35]") {
  const TempDir dir;
  train::CheckpointStore store(dir.path());
  store.write(5, files_of("five"));
  store.mark("last", 5);
  fs::rename(store.directory() / "step-5", store.directory() / ".step-5.replaced");
  CHECK(store.list() == std::vector<int64_t>{5});
  CHECK(state_in(store.open("last")) == "five");
  store.write(6, files_of("six"));
  CHECK(store.open("last") == store.directory() / "step-5");
  fs::copy(store.directory() / "step-5", store.directory() / ".step-5.replaced");
  store.write(7, files_of("seven"));
  CHECK(store.list() == std::vector<int64_t>{5, 6, 7});
  CHECK(entries_in(store.directory()) == 4);
}

TEST_CASE("C46: marks that are files, where there are no links, are as good as links", "[checkpoint]") {
  const TempDir dir;
  train::CheckpointStore store(dir.path());
  for (const int64_t step : {1, 2, 3}) store.write(step, files_of(std::to_string(step)));
  write_bytes(store.directory() / "last", "step-3\n");
  write_bytes(store.directory() / "best", "step-2");
  CHECK(store.step_of("") == 2);
  CHECK(state_in(store.open("last")) == "3");
  store.prune(0);
  CHECK(store.list() == std::vector<int64_t>{2, 3});
  store.mark("best", 3);
  CHECK(store.step_of("best") == 3);
  write_bytes(store.directory() / "last", std::string(100, 'x'));
  CHECK_THAT(error_of([&] { store.step_of("last"); }), ContainsSubstring("at most 64 bytes"));
}

TEST_CASE("C43: a reader looks again where its checkpoint is removed under its hands", "[checkpoint]") {
  const TempDir dir;
  train::CheckpointStore store(dir.path());
  store.write(1, files_of("one"));
  store.mark("last", 1);
  int looks = 0;
  const std::string read = store.read("last", [&](const fs::path& checkpoint) {
    if (++looks == 1) {
      store.write(2, files_of("two"));
      store.mark("last", 2);
      store.prune(1);
    }
    if (!fs::exists(checkpoint)) fail("{}: is gone", checkpoint.string());
    return state_in(checkpoint);
  });
  CHECK(read == "two");
  CHECK(looks == 2);
  // What is wrong for another reason is said at once; so is a checkpoint that is gone for good.
  looks = 0;
  CHECK_THROWS_WITH(store.read("last",
                               [&](const fs::path&) -> int {
                                 ++looks;
                                 fail("damaged");
                               }),
                    "damaged");
  CHECK(looks == 1);
  CHECK_THROWS_WITH(store.read("step-1", [](const fs::path&) { return 0; }), ContainsSubstring("found none"));
}
