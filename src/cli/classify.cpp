#include <ATen/ATen.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "command.h"
#include "fovea/core/display.h"
#include "fovea/core/error.h"
#include "fovea/tasks/classification/images/image_assets.h"
#include "fovea/data/image_file.h"
#include "fovea/train/run.h"
#include "models/models.h"

namespace fovea::cli {
namespace {

struct ClassifyOptions {
  std::vector<std::string> positionals;
  std::string checkpoint;
  int64_t top = 1;
  bool json = false;
};

constexpr std::array kSections = {"seed=", "model.", "data.", "optimizer.", "schedule.", "train.", "runtime."};
constexpr size_t kBatch = 64;  // images at a time

// A file and what could be made of it.
struct Read {
  std::string path;
  at::Tensor image;   // (channels, height, width) as the model takes it; undefined where that failed
  std::string error;  // then: why
};

Read read(const std::string& path, const classification::ImageAssets& assets) {
  try {
    return {path, assets.preprocess(data::read_image(path, assets.channels())), {}};
  } catch (const Error& e) {
    return {path, {}, e.what()};
  }
}

// The likeliest classes, best first.
void print(const std::string& path, const at::Tensor& probabilities, const classification::ImageAssets& assets,
           const ClassifyOptions& options) {
  const auto [values, indices] = probabilities.topk(options.top);
  nlohmann::ordered_json line = {{"image", path}, {"classes", nlohmann::json::array()}};
  for (int64_t i = 0; i < options.top; ++i) {
    const std::string& name = assets.class_names()[static_cast<size_t>(indices[i].item<int64_t>())];
    const double probability = values[i].item<double>();
    if (options.json) {
      line["classes"].push_back({{"class", name}, {"probability", probability}});
    } else {
      std::cout << fmt::format("{}\t{}\t{:.4f}\n", one_line(path), one_line(name), probability);
    }
  }
  if (options.json) std::cout << line.dump() << "\n";
}

int classify(const ClassifyOptions& options) {
  Arguments arguments;
  // A file's name may hold '=': only what starts as settings do is one, and no file of that name.
  for (const auto& argument : options.positionals) {
    const bool is_setting = argument.find('=') != std::string::npos && !std::filesystem::exists(argument) &&
                            std::any_of(kSections.begin(), kSections.end(),
                                        [&](const char* section) { return argument.starts_with(section); });
    (is_setting ? arguments.overrides : arguments.words).push_back(argument);
  }
  if (arguments.words.size() < 2) {
    fail_usage("expected a run directory and images, as in: fovea classify runs/vit_fashion_mnist shoe.png");
  }
  const train::LoadedRun run = train::load_run(models::registry(), arguments.words[0], options.checkpoint, arguments.overrides);
  classification::Classifier* model = run.module->classifier();
  const auto* assets = dynamic_cast<const classification::ImageAssets*>(run.assets.get());
  if (model == nullptr || assets == nullptr) {
    fail_usage("{}: its model, {}, does not classify images", arguments.words[0], run.config.model.name);
  }
  if (options.top < 1 || options.top > assets->num_classes()) {
    fail_usage("--top: expected 1 to {}, the number of classes, got {}", assets->num_classes(), options.top);
  }

  const at::NoGradGuard no_grad;
  bool all_read = true;
  for (size_t begin = 1; begin < arguments.words.size(); begin += kBatch) {
    std::vector<Read> files;
    std::vector<at::Tensor> images;
    for (size_t i = begin; i < std::min(arguments.words.size(), begin + kBatch); ++i) {
      files.push_back(read(arguments.words[i], *assets));
      if (files.back().image.defined()) images.push_back(files.back().image);
    }
    at::Tensor probabilities;  // (images, num_classes)
    if (!images.empty()) probabilities = model->logits(at::stack(images).to(run.device)).softmax(1).to(at::kCPU);
    int64_t row = 0;
    for (const Read& file : files) {
      if (file.image.defined()) {
        print(file.path, probabilities[row++], *assets, options);
        continue;
      }
      all_read = false;
      spdlog::error("{}", file.error);
      if (options.json) {
        std::cout << nlohmann::ordered_json{{"image", file.path}, {"error", file.error}}.dump() << "\n";
      }
    }
  }
  return all_read ? 0 : 1;
}

}  // namespace

void add_classify(CLI::App& app, Commands& commands) {
  auto options = std::make_shared<ClassifyOptions>();
  auto* command = app.add_subcommand("classify", "Say what is on images (PNG, JPEG), with a trained model");
  add_arguments(*command, options->positionals, "RUN and images");
  command->add_option("--top", options->top, "Classes to name for each image, the likeliest first, a line each")
      ->capture_default_str();
  command->add_option("--checkpoint", options->checkpoint, "best, last or step-N (default: best, else last)");
  command->add_flag("--json", options->json, "One JSON object per image");
  command->footer(
      "Prints PATH<TAB>CLASS<TAB>PROBABILITY. An image that cannot be read is an error on stderr; the others are\n"
      "classified all the same, and the exit status is 1.");
  commands.emplace_back(command, [options] { return classify(*options); });
}

}  // namespace fovea::cli
