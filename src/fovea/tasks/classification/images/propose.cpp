#include "fovea/tasks/classification/images/propose.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <variant>

#include "fovea/config/value.h"
#include "fovea/core/content.h"
#include "fovea/core/counted.h"
#include "fovea/core/error.h"
#include "fovea/core/gzip.h"
#include "fovea/data/idx.h"
#include "fovea/tasks/classification/images/image_set.h"
#include "fovea/tasks/classification/images/spec.h"

namespace fovea::classification {
namespace {

constexpr int64_t kMostClasses = 256;  // labels are bytes
constexpr int64_t kSmallestSide = 8;

// IDX begins with two zero bytes, the type of its values and the number of dimensions.
bool is_idx(const std::string& bytes) {
  return bytes.size() > 4 && bytes[0] == 0 && bytes[1] == 0 && bytes[2] == 8 && bytes[3] >= 1 && bytes[3] <= 4;
}

// One file of images and one of labels, or why they are not that.
std::variant<ImageFiles, std::string> images_and_labels(const std::vector<std::filesystem::path>& files) {
  std::vector<int> dimensions;
  for (const auto& file : files) {
    const std::string bytes = read_maybe_gzip(file);
    if (!is_idx(bytes)) {
      return fmt::format("expected IDX files of bytes, found in {} {}", file.string(), describe_content(bytes));
    }
    dimensions.push_back(bytes[3]);
  }
  if (files.size() != 2) {
    return fmt::format("expected an IDX file of images and one of labels, got {}", counted(files.size(), "file"));
  }
  if ((dimensions[0] == 1) == (dimensions[1] == 1)) {
    const char* both = dimensions[0] == 1 ? "labels" : "images";
    return fmt::format("expected images and labels, but {} and {} both hold {}", files[0].string(), files[1].string(),
                       both);
  }
  return dimensions[0] == 1 ? ImageFiles{files[1], files[0]} : ImageFiles{files[0], files[1]};
}

// Mean and standard deviation of each channel, of values from 0 to 1.
std::pair<std::vector<double>, std::vector<double>> normalisation(const ImageSet& set) {
  std::vector<double> means, stddevs;
  for (int64_t c = 0; c < set.images.size(1); ++c) {
    const at::Tensor channel = set.images.select(1, c).to(at::kDouble) / 255;
    means.push_back(channel.mean().item<double>());
    stddevs.push_back(std::max(channel.std(false).item<double>(), 1e-3));
  }
  return {means, stddevs};
}

std::string numbers(const std::vector<double>& values) {
  std::vector<std::string> texts;
  for (const double value : values) texts.push_back(fmt::format("{:.3f}", value));
  return fmt::format("[{}]", fmt::join(texts, ", "));
}

}  // namespace

tasks::ProposalOrReason propose_images(const tasks::ProposalRequest& request) {
  const auto found = images_and_labels(request.files);
  if (const auto* reason = std::get_if<std::string>(&found)) return *reason;
  const auto* files = std::get_if<ImageFiles>(&found);
  if (!request.validation.empty()) {
    fail_usage("--validation: labelled images take theirs from the training images; give --test only");
  }
  const ImageSet set = read_image_set(*files, kMostClasses);
  const auto counts = at::bincount(set.labels);
  const int64_t num_classes = counts.numel(), count = set.count();
  const int64_t channels = set.images.size(1), height = set.images.size(2), width = set.images.size(3);
  std::vector<std::string> names;
  for (int64_t c = 0; c < num_classes; ++c) names.push_back(fmt::format("class {}", c));

  tasks::Proposal proposal;
  proposal.facts = {
      {"images", fmt::format("{} of {} x {} pixels, {}", count, height, width, counted(channels, "channel"))},
      {"classes", fmt::format("{}, with {} to {} each", num_classes, counts.min().item<int64_t>(),
                              counted(counts.max().item<int64_t>(), "image"))}};
  if (counts.min().item<int64_t>() == 0) proposal.warnings.push_back("a class has no image");
  const int64_t validation = tasks::held_out(count, 10, 5000);
  const int64_t training = count - validation;
  const int64_t batch_size = training < 2000 ? 16 : training < 20000 ? 64 : 128;
  const auto [mean, stddev] = normalisation(set);
  auto& settings = proposal.settings;
  settings = {{"data.name", "idx_images", ""},
              {"data.train_images", request.yaml_path(files->images), ""},
              {"data.train_labels", request.yaml_path(files->labels), ""}};
  if (!request.test.empty()) {
    const auto found_test = images_and_labels(request.test);
    if (const auto* reason = std::get_if<std::string>(&found_test)) fail_usage("--test: {}", *reason);
    const auto* test = std::get_if<ImageFiles>(&found_test);
    const ImageSet test_set = read_image_set(*test, num_classes);
    if (test_set.images.sizes().slice(1) != set.images.sizes().slice(1)) {
      fail_usage("--test: {} holds images of {} (channels x height x width); expected {} as in {}",
                 test->images.string(), fmt::join(test_set.images.sizes().slice(1), " x "),
                 fmt::join(set.images.sizes().slice(1), " x "), files->images.string());
    }
    settings.push_back({"data.test_images", request.yaml_path(test->images), ""});
    settings.push_back({"data.test_labels", request.yaml_path(test->labels), ""});
  } else {
    proposal.warnings.push_back("no test images (--test); `fovea evaluate` measures on the validation part");
  }
  std::vector<std::string> yaml_names;
  for (const auto& name : names) yaml_names.push_back(config::yaml_text(name));
  settings.push_back({"data.classes", fmt::format("[{}]", fmt::join(yaml_names, ", ")),
                      "what the labels 0, 1, ... mean: put your names here, as in [cat, dog]"});
  const auto rounded = [](int64_t side) { return std::max<int64_t>((side + 3) / 4 * 4, kSmallestSide); };
  if (rounded(height) != height || rounded(width) != width) {
    settings.push_back({"data.resize", fmt::format("[{}, {}]", rounded(height), rounded(width)),
                        "height and width that patches divide"});
  }
  settings.push_back({"data.validation.size", std::to_string(validation), "images that training is watched on"});
  settings.push_back({"data.batch_size", std::to_string(batch_size), ""});
  settings.push_back({"data.mean", numbers(mean), "of the training images, on a scale from 0 to 1"});
  settings.push_back({"data.std", numbers(stddev), ""});
  settings.push_back({"data.augment.crop_padding", "2", "each image is moved by up to this many pixels"});
  settings.push_back({"data.augment.flip", "false", "true where a mirror image is of the same class"});
  if (validation > 0) settings.push_back({"train.watch", "accuracy", "decides which epoch is best"});
  proposal.spec = std::make_shared<ImageSpec>(channels, rounded(height), rounded(width), num_classes);
  proposal.amount = {.examples = training,
                     .items = training,
                     .steps_per_epoch = std::max<int64_t>((training + batch_size - 1) / batch_size, 1)};
  proposal.example = "image.png";
  return proposal;
}

}  // namespace fovea::classification
