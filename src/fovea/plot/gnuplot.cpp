#include "fovea/plot/gnuplot.h"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstdio>
#include <memory>

#include "fovea/core/display.h"
#include "fovea/core/error.h"
#include "fovea/core/file.h"
#include "fovea/core/partial.h"

extern char** environ;  // NOLINT(readability-redundant-declaration): not every libc declares it

namespace fovea::plot {
namespace {

constexpr double kPixelsPerInch = 96;

using TemporaryFile = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

TemporaryFile temporary_file() {
  TemporaryFile file(std::tmpfile(), std::fclose);
  if (file == nullptr) fail_errno("cannot make a file in", std::filesystem::temp_directory_path(), errno);
  return file;
}

// What the process printed.
std::string contents(std::FILE* file) {
  std::rewind(file);
  std::string text;
  for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file)) text += static_cast<char>(c);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

std::string terminal(const Figure& figure, const std::string& extension) {
  const auto inches = [](int64_t pixels) { return static_cast<double>(pixels) / kPixelsPerInch; };
  if (extension == ".svg")
    return fmt::format("svg size {},{} font 'DejaVu Sans,12' noenhanced", figure.width, figure.height);
  if (extension == ".pdf") {
    return fmt::format("pdfcairo size {:.3f}in,{:.3f}in font 'DejaVu Sans,9' noenhanced", inches(figure.width),
                       inches(figure.height));
  }
  // Twice as many pixels, for screens that have them.
  return fmt::format("pngcairo size {},{} fontscale 2 linewidth 2 font 'DejaVu Sans,9' noenhanced background '#ffffff'",
                     figure.width * 2, figure.height * 2);
}

// Runs gnuplot with commands on its standard input; returns its exit status and what it said.
std::pair<int, std::string> run(const std::string& commands) {
  const TemporaryFile in = temporary_file(), out = temporary_file();
  if (std::fwrite(commands.data(), 1, commands.size(), in.get()) != commands.size() || std::fflush(in.get()) != 0) {
    fail("cannot hand {} bytes to gnuplot: no space for temporary files", commands.size());
  }
  std::rewind(in.get());
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, fileno(in.get()), 0);
  posix_spawn_file_actions_adddup2(&actions, fileno(out.get()), 1);
  posix_spawn_file_actions_adddup2(&actions, fileno(out.get()), 2);
  std::string name = "gnuplot", rest = "-";
  char* arguments[] = {name.data(), rest.data(), nullptr};  // NOLINT(modernize-avoid-c-arrays)
  pid_t pid = 0;
  const int error = posix_spawnp(&pid, "gnuplot", &actions, nullptr, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error == ENOENT) fail_usage("gnuplot is not installed, which draws pictures: apt-get install gnuplot-nox");
  if (error != 0) fail_errno("cannot start", "gnuplot", error);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), contents(out.get())};
}

}  // namespace

void check_format(const std::filesystem::path& output) {
  const std::string extension = output.extension();
  if (extension != ".png" && extension != ".svg" && extension != ".pdf") {
    fail_usage("{}: expected a name that ends in .png, .svg or .pdf, got '{}'", output.string(), extension);
  }
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : one_line(text)) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

void draw(const Figure& figure, const std::filesystem::path& output) {
  check_format(output);
  Partial partial(output);
  const std::string commands =
      fmt::format("set encoding utf8\nset terminal {}\nset output {}\n{}\nunset output\n",
                  terminal(figure, output.extension()), quoted(partial.path().string()), figure.commands);
  const auto [status, said] = run(commands);
  std::error_code error;
  if (status != 0 || !std::filesystem::exists(partial.path(), error)) {
    fail("gnuplot could not draw {}{}{}", output.string(), said.empty() ? "" : ": ", one_line(said));
  }
  partial.put_in_place();
}

}  // namespace fovea::plot
