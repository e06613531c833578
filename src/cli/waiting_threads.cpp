// Threads that wait for the next parallel loop should not keep other programs from the cores.
//
// libgomp's threads spin for milliseconds before they sleep. That is quick while a program is alone. With two programs
// on the same cores, each spins away the time that the other needs. A shorter spin costs a lone program nothing that
// can be measured. libgomp reads the setting when it is loaded, which is before main(). So this runs before any library
// is initialised, and starts the program again with the setting (10 ms). Whoever sets OMP_WAIT_POLICY or GOMP_SPINCOUNT
// has the last word.

#include <alloca.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

namespace {

char spin_count[] = "GOMP_SPINCOUNT=4000";

bool sets(const char* variable, const char* name) {
  const size_t length = std::strlen(name);
  return std::strncmp(variable, name, length) == 0 && variable[length] == '=';
}

// The C library is not initialised here: nothing may allocate, and the environment is the one that is passed in.
void shorten_spin(int /*argc*/, char** argv, char** environment) {
  size_t count = 0;
  for (; environment[count] != nullptr; ++count) {
    if (sets(environment[count], "OMP_WAIT_POLICY") || sets(environment[count], "GOMP_SPINCOUNT")) return;
  }
  auto** extended = static_cast<char**>(alloca((count + 2) * sizeof(char*)));
  std::memcpy(extended, environment, count * sizeof(char*));
  extended[count] = spin_count;
  extended[count + 1] = nullptr;
  // By the name it was started with, so that the process keeps it. Where that fails, threads spin.
  ::execve(reinterpret_cast<const char*>(::getauxval(AT_EXECFN)), argv, extended);
}

}  // namespace

__attribute__((section(".preinit_array"), used)) static void (*const run_before_libraries)(int, char**,
                                                                                           char**) = shorten_spin;

#endif
