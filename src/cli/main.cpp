#include <fcntl.h>
#include <unistd.h>

#include <csignal>

#include "cli/run.h"
#include "models/models.h"

namespace {

// A file opened while one of these is closed would take its place, and progress would be written into a checkpoint.
void open_standard_streams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    // Opened read-only where output is due, so that writing fails as it would on a closed stream.
    if (::fcntl(fd, F_GETFD) < 0) ::open("/dev/null", fd == STDERR_FILENO ? O_WRONLY : O_RDONLY);
  }
}

}  // namespace

int main(int argc, char** argv) {
  open_standard_streams();
  std::signal(SIGXFSZ, SIG_IGN);  // a file beyond the size limit is an error to report, not the end
  const fovea::tasks::Registry registry = fovea::models::registry();
  return fovea::cli::run(registry, argc, argv);
}
