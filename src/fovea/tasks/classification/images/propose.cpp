#include "fovea/tasks/classification/images/propose.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>
#include <variant>

#include "fovea/config/value.h"
#include "fovea/core/content.h"
#include "fovea/core/counted.h"
#include "fovea/core/error.h"
#include "fovea/core/gzip.h"
#include "fovea/core/shell.h"
#include "fovea/data/idx.h"
#include "fovea/data/image_file.h"
#include "fovea/data/resize.h"
#include "fovea/tasks/classification/images/image_listing.h"
#include "fovea/tasks/classification/images/image_set.h"
#include "fovea/tasks/classification/images/spec.h"

namespace fovea::classification {
namespace {

constexpr int64_t kMostClasses = 256;  // labels are bytes
constexpr int64_t kSmallestSide = 8;
constexpr int64_t kLargestAsItIs = 64;  // images of one size up to this keep it
constexpr int64_t kProposedSide = 64;   // else: a size that a few cores train
constexpr size_t kSampledImages = 200;  // of a folder are looked at

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

int64_t rounded_side(int64_t side) {
  return std::max<int64_t>((side + 3) / 4 * 4, kSmallestSide);
}

// What is known of the images, whatever files hold them.
struct SeenImages {
  int64_t count = 0, num_classes = 0, channels = 0, height = 0, width = 0;
  std::vector<double> mean, stddev;
};

// What all data sets of images are told, after their own settings.
void propose_common(tasks::Proposal& proposal, const SeenImages& seen, int64_t validation, int64_t training) {
  const int64_t batch_size = training < 2000 ? 16 : training < 20000 ? 64 : 128;
  auto& settings = proposal.settings;
  settings.push_back({"data.validation.size", std::to_string(validation), "images that training is watched on"});
  settings.push_back({"data.batch_size", std::to_string(batch_size), ""});
  settings.push_back({"data.mean", numbers(seen.mean), "of the training images, on a scale from 0 to 1"});
  settings.push_back({"data.std", numbers(seen.stddev), ""});
  settings.push_back({"data.augment.crop_padding", "2", "each image is moved by up to this many pixels"});
  settings.push_back({"data.augment.flip", "false", "true where a mirror image is of the same class"});
  if (validation > 0) settings.push_back({"train.watch", "accuracy", "decides which epoch is best"});
  proposal.spec = std::make_shared<ImageSpec>(seen.channels, seen.height, seen.width, seen.num_classes);
  proposal.amount = {.examples = training,
                     .items = training,
                     .steps_per_epoch = std::max<int64_t>((training + batch_size - 1) / batch_size, 1)};
}

tasks::ProposalOrReason propose_idx(const tasks::ProposalRequest& request) {
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
  const SeenImages seen{.count = count,
                        .num_classes = num_classes,
                        .channels = channels,
                        .height = rounded_side(height),
                        .width = rounded_side(width),
                        .mean = mean,
                        .stddev = stddev};
  if (seen.height != height || seen.width != width) {
    settings.push_back(
        {"data.resize", fmt::format("[{}, {}]", seen.height, seen.width), "height and width that patches divide"});
  }
  propose_common(proposal, seen, validation, count - validation);
  proposal.example = "image.png";
  return proposal;
}

// Some of the images of a folder, evenly over all of them, as they come out of their files.
struct SampledImages {
  std::vector<at::Tensor> images;  // uint8 (3, height, width)
  std::vector<std::string> damage;

  explicit SampledImages(const std::vector<std::filesystem::path>& files) {
    const size_t step = std::max<size_t>(1, files.size() / kSampledImages);
    for (size_t i = 0; i < files.size() && images.size() < kSampledImages; i += step) {
      try {
        images.push_back(data::read_image(files[i], 3));
      } catch (const Error& e) {
        damage.emplace_back(e.what());
      }
    }
    if (images.empty()) fail_usage("none of the images looked at can be read; the first: {}", damage.front());
  }
  bool is_gray() const {
    return std::all_of(images.begin(), images.end(),
                       [](const at::Tensor& i) { return at::equal(i[0], i[1]) && at::equal(i[0], i[2]); });
  }
  // Least and greatest height and width.
  std::pair<int64_t, int64_t> heights() const { return range(1); }
  std::pair<int64_t, int64_t> widths() const { return range(2); }

  ImageSet resized(int64_t channels, int64_t height, int64_t width) const {
    std::vector<at::Tensor> all;
    for (const auto& image : images) {
      const at::Tensor in = image.narrow(0, 0, channels).contiguous();
      const at::Tensor out = at::empty({channels, height, width}, at::kByte);
      const data::Resizer resize(in.size(1), in.size(2), height, width);
      resize(in.const_data_ptr<uint8_t>(), out.data_ptr<uint8_t>(), channels);
      all.push_back(out);
    }
    return {at::stack(all), at::zeros({static_cast<int64_t>(all.size())}, at::kLong)};
  }

 private:
  std::pair<int64_t, int64_t> range(int64_t axis) const {
    const auto [least, most] = std::minmax_element(
        images.begin(), images.end(), [axis](const auto& a, const auto& b) { return a.size(axis) < b.size(axis); });
    return {least->size(axis), most->size(axis)};
  }
};

std::string range_text(std::pair<int64_t, int64_t> range) {
  return range.first == range.second ? std::to_string(range.first) : fmt::format("{} to {}", range.first, range.second);
}

tasks::ProposalOrReason propose_folder(const tasks::ProposalRequest& request) {
  if (request.files.size() != 1) return std::string("expected one folder of images");
  if (!request.validation.empty() || !request.test.empty()) {
    fail_usage("--{}: images in folders have their parts beside one another: {}, {} and {}",
               request.test.empty() ? "validation" : "test", (request.files[0] / "train").string(),
               (request.files[0] / "val").string(), (request.files[0] / "test").string());
  }
  const ImageListing listing = list_image_folder(request.files[0]);
  const LabelledFiles& train = listing.of(data::Part::kTrain);
  const auto count = static_cast<int64_t>(train.files.size());
  const auto counts = at::bincount(at::tensor(train.labels, at::kLong));
  const SampledImages sample(train.files);

  tasks::Proposal proposal;
  proposal.warnings = listing.warnings;
  const auto [low_height, height] = sample.heights();
  const auto [low_width, width] = sample.widths();
  const bool is_small = low_height == height && low_width == width && std::max(height, width) <= kLargestAsItIs;
  SeenImages seen{.count = count,
                  .num_classes = static_cast<int64_t>(listing.classes.size()),
                  .channels = sample.is_gray() ? 1 : 3,
                  .height = is_small ? rounded_side(height) : kProposedSide,
                  .width = is_small ? rounded_side(width) : kProposedSide,
                  .mean = {},
                  .stddev = {}};
  std::tie(seen.mean, seen.stddev) = normalisation(sample.resized(seen.channels, seen.height, seen.width));
  proposal.facts = {
      {"images", fmt::format("{}, {} high and {} wide, {}", counted(count, "image"), range_text(sample.heights()),
                             range_text(sample.widths()), seen.channels == 1 ? "gray" : "in colour")},
      {"classes", fmt::format("{}, with {} to {} each", seen.num_classes, counts.min().item<int64_t>(),
                              counted(counts.max().item<int64_t>(), "image"))}};
  if (!sample.damage.empty()) {
    proposal.warnings.push_back(fmt::format("{} of {} looked at cannot be read, such as {}", sample.damage.size(),
                                            counted(sample.damage.size() + sample.images.size(), "image"),
                                            sample.damage.front()));
  }
  proposal.settings = {
      {"data.name", "image_folder", ""},
      {"data.path", request.yaml_path(request.files[0]), ""},
      {"data.channels", std::to_string(seen.channels), seen.channels == 1 ? "they are gray" : "1: read as gray"},
      {"data.resize", fmt::format("[{}, {}]", seen.height, seen.width),
       "height and width; larger ones show more and cost more time"}};
  const bool has_validation = !listing.of(data::Part::kValidation).files.empty();
  const bool has_test = !listing.of(data::Part::kTest).files.empty();
  const int64_t held = std::max(tasks::held_out(count, 10, 5000), seen.num_classes);
  const int64_t validation = has_validation ? 0 : held, test = has_test ? 0 : held;
  if (has_validation) {
    proposal.facts.emplace_back("validation", counted(listing.of(data::Part::kValidation).files.size(), "image"));
  }
  if (has_test) proposal.facts.emplace_back("test", counted(listing.of(data::Part::kTest).files.size(), "image"));
  if (!has_test) {
    proposal.settings.push_back({"data.test.size", std::to_string(test), "images that `fovea evaluate` measures on"});
  }
  propose_common(proposal, seen, validation, std::max<int64_t>(1, count - validation - test));
  if (has_validation) {
    std::erase_if(proposal.settings, [](const auto& setting) { return setting.key == "data.validation.size"; });
    proposal.settings.push_back({"train.watch", "accuracy", "decides which epoch is best"});
  }
  proposal.example = shell_quoted(train.files.front().string());
  return proposal;
}

}  // namespace

tasks::ProposalOrReason propose_images(const tasks::ProposalRequest& request) {
  return request.folder() ? propose_folder(request) : propose_idx(request);
}

}  // namespace fovea::classification
