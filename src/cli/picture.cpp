#include <algorithm>
#include <iostream>
#include <memory>

#include "command.h"
#include "fovea/core/error.h"
#include "fovea/core/suggest.h"
#include "fovea/core/table.h"
#include "fovea/plot/book_pictures.h"
#include "fovea/plot/gnuplot.h"

namespace fovea::cli {
namespace {

struct PictureFlags {
  std::string name;
  std::filesystem::path output;
  bool overwrite = false;
};

const plot::BookPicture& named(const std::string& name) {
  const auto& all = plot::book_pictures();
  const auto found = std::find_if(all.begin(), all.end(), [&](const auto& picture) { return picture.name == name; });
  if (found != all.end()) return *found;
  std::vector<std::string> names;
  for (const auto& picture : all) names.push_back(picture.name);
  fail_usage("there is no picture '{}'{}; fovea picture lists all", name, did_you_mean(name, names));
}

int picture(const PictureFlags& flags) {
  if (flags.name.empty()) {
    Table table({.header = {"picture", "section", "shows"}, .align = {}, .width = output_width()});
    for (const auto& p : plot::book_pictures()) table.add_row({p.name, p.section, p.summary});
    std::cout << table.str();
    return 0;
  }
  const plot::BookPicture& chosen = named(flags.name);
  const std::filesystem::path name = flags.output.empty() ? std::filesystem::path(chosen.name + ".svg") : flags.output;
  const plot::Format format = plot::format_of(name);
  const auto file = plot::check_picture(name, flags.overwrite);
  plot::draw(chosen.make(), file, format);
  std::cout << name.string() << "\n";
  return 0;
}

}  // namespace

void add_picture(CLI::App& app, Commands& commands) {
  auto flags = std::make_shared<PictureFlags>();
  auto* command = app.add_subcommand("picture", "Draw a picture of the book's chapter on attention");
  command->add_option("name", flags->name, "Which one; without a name all are listed");
  command
      ->add_option("-o,--output", flags->output, "Where to: a name that ends in .svg, .png or .pdf (default NAME.svg)")
      ->type_name("FILE")
      ->transform(as_path());
  command->add_flag("--overwrite", flags->overwrite, "Replace the file if it exists");
  command->footer(
      "Examples:\n  fovea picture\n  fovea picture kernels -o kernels.png\n"
      "These pictures need no trained model. What a trained model looks at is drawn by `fovea attend`, learning curves "
      "by `fovea plot`.");
  commands.emplace_back(command, [flags] { return picture(*flags); });
}

}  // namespace fovea::cli
