#include "fovea/core/signals.h"

#include <atomic>
#include <csignal>

namespace fovea {
namespace {

std::atomic<int> signal_number{0};

void on_signal(int number) {
  signal_number.store(number);
  // The second one is for those who will not wait for the step to end.
  std::signal(number, SIG_DFL);
}

}  // namespace

void catch_stop_signals() {
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
}

int stop_signal() {
  return signal_number.load();
}

}  // namespace fovea
