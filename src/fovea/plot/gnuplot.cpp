#include "fovea/plot/gnuplot.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <system_error>

#include "fovea/core/display.h"
#include "fovea/core/error.h"
#include "fovea/core/file.h"
#include "fovea/core/output.h"
#include "fovea/core/partial.h"

extern char** environ;

namespace fovea::plot {
namespace fs = std::filesystem;
namespace {

constexpr const char* kProgram = "gnuplot";

// A file without a name, which takes any amount and blocks nobody.
class Scratch {
 public:
  Scratch() : file_(std::tmpfile(), &std::fclose) {
    if (!file_) fail("cannot make a temporary file: {}", std::generic_category().message(errno));
  }
  void write(const std::string& text) {
    const bool written = std::fwrite(text.data(), 1, text.size(), file_.get()) == text.size();
    if (!written || std::fflush(file_.get()) != 0) {
      fail("cannot write a temporary file: {}", std::generic_category().message(errno));
    }
    std::rewind(file_.get());
  }
  std::string read() {
    std::rewind(file_.get());
    std::string text;
    char block[1024];
    for (size_t size = 0; (size = std::fread(block, 1, sizeof block, file_.get())) > 0;) text.append(block, size);
    return text;
  }
  int fd() const { return ::fileno(file_.get()); }

 private:
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
};

struct Ended {
  int status = 0;    // as waitpid gives it
  std::string said;  // on stderr and stdout
};

Ended run_gnuplot(const std::string& script) {
  Scratch input, output;
  input.write(script);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, input.fd(), STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, output.fd(), STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, output.fd(), STDERR_FILENO);
  std::string name = kProgram, no_settings = "-d";  // a user's own ~/.gnuplot is not heeded
  char* arguments[] = {name.data(), no_settings.data(), nullptr};
  pid_t child = 0;
  const int error = ::posix_spawnp(&child, kProgram, &actions, nullptr, arguments, environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) fail("cannot run gnuplot: {}", std::generic_category().message(error));
  Ended ended;
  while (::waitpid(child, &ended.status, 0) < 0 && errno == EINTR) {
  }
  ended.said = output.read();
  return ended;
}

std::string terminal(const Picture& picture, Format format) {
  const int width = picture.width, height = picture.height;
  switch (format) {
    case Format::kSvg:
      return fmt::format("svg size {},{} dynamic noenhanced font 'sans-serif,13' background '#ffffff' linewidth 1.3",
                         width, height);
    case Format::kPng:
      return fmt::format(
          "pngcairo size {},{} noenhanced font 'sans,20' background '#ffffff' linewidth 2.4 pointscale 2", 2 * width,
          2 * height);
    case Format::kPdf:
      return fmt::format("pdfcairo size {:.3f}in,{:.3f}in noenhanced font 'sans,10' background '#ffffff' linewidth 1.2",
                         width / 96.0, height / 96.0);
  }
  return "";
}

// What gnuplot said, without the lines of the script that it repeats and points into.
std::string last_line(std::string text) {
  text.erase(text.find_last_not_of(" \n") + 1);
  return one_line(text.substr(text.rfind('\n') + 1));
}

}  // namespace

Format format_of(const fs::path& file) {
  const std::string extension = file.extension().string();
  for (const auto& [format, name] : enum_names(Format{})) {
    if (extension == "." + std::string(name)) return format;
  }
  fail_usage("{}: expected a name that ends in .svg, .png or .pdf", file.string());
}

void check_gnuplot() {
  const char* path = std::getenv("PATH");
  std::string_view folders = path == nullptr ? "" : path;
  while (!folders.empty()) {
    const std::string_view folder = folders.substr(0, folders.find(':'));
    if (::access((fs::path(folder) / kProgram).c_str(), X_OK) == 0) return;
    folders.remove_prefix(std::min(folder.size() + 1, folders.size()));
  }
  fail("gnuplot, which draws the pictures, is not on the PATH; install it (Debian: apt install gnuplot-nox)");
}

fs::path check_picture(const fs::path& file, bool overwrite, const std::vector<fs::path>& sources) {
  if (file.empty()) {
    if (overwrite) fail_usage("--overwrite needs --output");
    return {};
  }
  format_of(file);
  check_gnuplot();
  return check_output({.path = file, .option = "--output", .overwrite = overwrite, .sources = sources});
}

std::string literal(const std::string& text) {
  std::string quoted = "'";
  for (const char c : one_line(text)) {
    if (c == '\'') quoted += '\'';
    quoted += c;
  }
  return quoted + "'";
}

std::string colour_of(size_t index) {
  constexpr std::array<const char*, 7> kColours = {"#0072B2", "#D55E00", "#009E73", "#CC79A7",
                                                   "#E69F00", "#56B4E9", "#000000"};
  return kColours[index % kColours.size()];
}

void draw(const Picture& picture, const fs::path& file, Format format) {
  check_gnuplot();
  Partial partial(file);
  const Ended ended =
      run_gnuplot(fmt::format("set terminal {}\nset output {}\nset encoding utf8\n{}\nunset output\n",
                              terminal(picture, format), literal(partial.path().string()), picture.script));
  if (!WIFEXITED(ended.status) || WEXITSTATUS(ended.status) != 0) {
    fail("{}: gnuplot failed: {}", file.string(), last_line(ended.said));
  }
  std::error_code error;
  if (fs::file_size(partial.path(), error) == 0 || error) {
    fail("{}: gnuplot wrote nothing: {}", file.string(), last_line(ended.said));
  }
  sync_path(partial.path());
  partial.put_in_place();
}

}  // namespace fovea::plot
