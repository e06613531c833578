#include "fovea/core/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>

#include "fovea/core/error.h"
#include "fovea/core/file.h"
#include "fovea/core/signals.h"

namespace fovea {
namespace {

constexpr int kLookForSignals = 100;  // milliseconds
constexpr int kCannotStart = 127;     // as shells say it

class PipeEnd {
 public:
  PipeEnd() = default;
  explicit PipeEnd(int fd) : fd_(fd) {}
  ~PipeEnd() { close(); }
  PipeEnd(const PipeEnd&) = delete;
  PipeEnd& operator=(const PipeEnd&) = delete;
  int get() const { return fd_; }
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

 private:
  int fd_ = -1;
};

// Between fork and exec: nothing here may take memory or a lock.
[[noreturn]] void become(const char* program, char* const* arguments, int output, pid_t parent) {
  // A group of its own: Ctrl-C reaches this process only, which passes it on. Twice would end the program at once.
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(kCannotStart);
  const int nothing = ::open("/dev/null", O_RDONLY);
  if (nothing >= 0) ::dup2(nothing, STDIN_FILENO);
  ::dup2(output, STDOUT_FILENO);
  ::execv(program, arguments);
  ::_exit(kCannotStart);
}

// Everything that the program writes, until it closes its output.
std::string read_output(pid_t child, int fd) {
  std::string output;
  bool is_told = false;
  for (std::array<char, 1 << 14> bytes;;) {
    if (stop_signal() != 0 && !is_told) {
      ::kill(child, stop_signal());
      is_told = true;
    }
    pollfd waiting{.fd = fd, .events = POLLIN, .revents = 0};
    if (::poll(&waiting, 1, kLookForSignals) <= 0) continue;
    const ssize_t count = ::read(fd, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return output;
    output.append(bytes.data(), static_cast<size_t>(count));
  }
}

}  // namespace

ChildResult run_child(const std::filesystem::path& program, const std::vector<std::string>& arguments) {
  std::error_code unknown;
  const std::filesystem::path file = std::filesystem::canonical(program, unknown);
  std::vector<std::string> words = {(unknown ? program : file).filename().string()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (auto& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) fail_errno("cannot make a pipe to", program, errno);
  const PipeEnd from(ends[0]);
  PipeEnd to(ends[1]);
  const pid_t parent = ::getpid(), child = ::fork();
  if (child < 0) fail_errno("cannot start", program, errno);
  if (child == 0) become(program.c_str(), argv.data(), to.get(), parent);
  ::setpgid(child, child);  // whichever comes first
  to.close();

  ChildResult result;
  result.output = read_output(child, from.get());
  int status = 0;
  rusage usage{};
  while (::wait4(child, &status, 0, &usage) < 0) {
    if (errno != EINTR) fail_errno("cannot wait for", program, errno);
  }
  result.status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  result.peak_memory = int64_t{usage.ru_maxrss} * 1024;
  if (result.status == kCannotStart) fail("cannot start {}", program.string());
  return result;
}

std::filesystem::path this_program() {
  return "/proc/self/exe";
}

}  // namespace fovea
