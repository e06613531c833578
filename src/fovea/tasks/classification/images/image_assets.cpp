#include "fovea/tasks/classification/images/image_assets.h"

#include <ATen/ATen.h>
#include <fmt/ranges.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "fovea/core/counted.h"
#include "fovea/core/error.h"
#include "fovea/core/file.h"
#include "fovea/core/json.h"
#include "fovea/data/image_file.h"
#include "fovea/data/image_kernel.h"
#include "fovea/tasks/classification/images/script.h"

namespace fovea::classification {
namespace {

constexpr const char* kFile = "images.json";
constexpr const char* kFormat = "fovea-images-1";
constexpr uint64_t kMaxFileBytes = 16 << 20;
constexpr int64_t kMaxSide = 65536;

const std::set<std::string> kKeys = {"format", "channels", "height", "width", "mean", "std", "classes"};

/// What stands in a JSON object, or an error that names the file and the key.
class ImagesJson {
 public:
  ImagesJson(const nlohmann::json& object, const std::string& file) : object_(object), file_(file) {
    if (!object.is_object()) fail_usage("{}: expected a JSON object, found {}", file, object.type_name());
    for (const auto& [key, value] : object.items()) {
      if (!kKeys.contains(key)) fail_usage("{}: unknown key \"{}\"", file, key);
    }
  }

  int64_t size(const char* key) const {
    const auto& value = at(key);
    if (!value.is_number_unsigned() || value.get<uint64_t>() < 1 || value.get<uint64_t>() > kMaxSide) {
      refuse(key, fmt::format("a whole number from 1 to {}", kMaxSide));
    }
    return value.get<int64_t>();
  }

  std::string text(const char* key) const {
    if (!at(key).is_string()) refuse(key, "text");
    return at(key).get<std::string>();
  }

  std::vector<double> numbers(const char* key) const {
    return list<double>(key, "a list of numbers", [](const auto& item) { return item.is_number(); });
  }

  std::vector<std::string> texts(const char* key) const {
    return list<std::string>(key, "a list of texts", [](const auto& item) { return item.is_string(); });
  }

 private:
  const nlohmann::json& at(const char* key) const {
    if (!object_.contains(key)) fail_usage("{}: the key \"{}\" is missing", file_, key);
    return object_.at(key);
  }

  [[noreturn]] void refuse(const char* key, std::string_view expected) const {
    fail_usage("{}: \"{}\": expected {}, found {}", file_, key, expected, object_.at(key).dump().substr(0, 80));
  }

  template <typename T, typename Test>
  std::vector<T> list(const char* key, const char* expected, const Test& is_item) const {
    std::vector<T> items;
    if (!at(key).is_array()) refuse(key, expected);
    for (const auto& item : at(key)) {
      if (!is_item(item)) refuse(key, expected);
      items.push_back(item.template get<T>());
    }
    return items;
  }

  const nlohmann::json& object_;
  const std::string& file_;
};

}  // namespace

ImageAssets::ImageAssets(const ImageSpec& spec, std::vector<std::string> class_names, Normalisation normalisation)
    : spec_(spec), class_names_(std::move(class_names)), normalisation_(std::move(normalisation)) {
  const auto channels = static_cast<size_t>(spec.channels);
  if (spec.channels < 1 || spec.height < 1 || spec.width < 1) {
    fail_usage("expected images of pixels, found {} x {} x {} (channels x height x width)", spec.channels, spec.height,
               spec.width);
  }
  if (class_names_.size() != static_cast<size_t>(spec.num_classes) || class_names_.empty()) {
    fail_usage("expected a name for each of {}, found {}", counted(spec.num_classes, "class", "classes"),
               class_names_.size());
  }
  const auto& [mean, stddev] = normalisation_;
  if (mean.size() != channels || stddev.size() != channels) {
    fail_usage("expected a mean and a standard deviation for each of {}, found {} and {}", counted(channels, "channel"),
               mean.size(), stddev.size());
  }
  for (size_t c = 0; c < channels; ++c) {
    if (!std::isfinite(mean[c]) || !std::isfinite(stddev[c]) || static_cast<float>(stddev[c]) <= 0) {
      fail_usage("expected finite means and standard deviations above 0, found {} and {}", mean[c], stddev[c]);
    }
  }
}

std::string ImageAssets::dump() const {
  const nlohmann::ordered_json json = {{"format", kFormat},      {"channels", channels()}, {"height", height()},
                                       {"width", width()},       {"mean", mean()},         {"std", stddev()},
                                       {"classes", class_names_}};
  return json.dump(2) + "\n";
}

std::shared_ptr<const ImageAssets> ImageAssets::parse(std::string_view text, const std::string& file) {
  const nlohmann::json json = parse_json(text, file);
  const ImagesJson read(json, file);
  if (read.text("format") != kFormat) {
    fail_usage("{}: expected the format \"{}\", found \"{}\"", file, kFormat, read.text("format"));
  }
  auto names = read.texts("classes");
  const ImageSpec spec(read.size("channels"), read.size("height"), read.size("width"),
                       static_cast<int64_t>(names.size()));
  try {
    return std::make_shared<ImageAssets>(spec, std::move(names),
                                         Normalisation{.mean = read.numbers("mean"), .stddev = read.numbers("std")});
  } catch (const Error& error) {
    fail_usage("{}: {}", file, error.what());
  }
}

std::shared_ptr<const ImageAssets> ImageAssets::load(const config::Section&, const std::filesystem::path& dir) {
  return parse(read_file(dir / kFile, kMaxFileBytes), (dir / kFile).string());
}

void ImageAssets::save(const std::filesystem::path& dir) const {
  replace_file(dir / kFile, dump());
}

void ImageAssets::check_same(const data::DataAssets& saved) const {
  const auto* other = dynamic_cast<const ImageAssets*>(&saved);
  if (other == nullptr) fail_usage("the checkpoint is not of a model of images");
  const auto shape = [](const ImageSpec& s) { return fmt::format("{} x {} x {}", s.channels, s.height, s.width); };
  if (shape(spec_) != shape(other->spec_)) {
    fail_usage("the images are not of the checkpoint's size: they were {}, now {} (channels x height x width)",
               shape(other->spec_), shape(spec_));
  }
  if (class_names_.size() != other->class_names_.size()) {
    fail_usage("the classes are not those of the checkpoint: there were {}, now {}", other->class_names_.size(),
               class_names_.size());
  }
  for (size_t i = 0; i < class_names_.size(); ++i) {
    if (class_names_[i] == other->class_names_[i]) continue;
    fail_usage("the classes are not those of the checkpoint: class {} was '{}', now '{}'", i, other->class_names_[i],
               class_names_[i]);
  }
  if (normalisation_ != other->normalisation_) {
    fail_usage("the normalisation is not the checkpoint's: mean was [{}], now [{}]; std was [{}], now [{}]",
               fmt::join(other->mean(), ", "), fmt::join(mean(), ", "), fmt::join(other->stddev(), ", "),
               fmt::join(stddev(), ", "));
  }
}

void ImageAssets::normalise(const uint8_t* pixels, float* out) const {
  const int64_t plane = height() * width();
  for (int64_t c = 0; c < channels(); ++c) {
    const auto at = static_cast<size_t>(c);
    data::normalise_row(pixels + c * plane, out + c * plane, plane, static_cast<float>(mean()[at]),
                        static_cast<float>(stddev()[at]));
  }
}

at::Tensor ImageAssets::preprocess(const at::Tensor& image) const {
  if (image.scalar_type() != at::kByte || image.dim() != 3 || image.size(0) != channels()) {
    fail_usage("expected an image as uint8 ({}, height, width), found {} of {}{}", channels(),
               c10::toString(image.scalar_type()), counted(image.dim(), "dimension"),
               image.dim() == 3 ? " and " + counted(image.size(0), "channel") : "");
  }
  const at::Tensor in = image.cpu().contiguous();
  const at::Tensor resized = at::empty({channels(), height(), width()}, at::kByte);
  data::Resizer(in.size(1), in.size(2), height(), width())(in.const_data_ptr<uint8_t>(), resized.data_ptr<uint8_t>(),
                                                           channels());
  at::Tensor out = at::empty({channels(), height(), width()}, at::kFloat);  // (channels, height, width)
  normalise(resized.const_data_ptr<uint8_t>(), out.data_ptr<float>());
  return out;
}

at::Tensor ImageAssets::read_example(const std::string& path) const {
  return preprocess(data::read_image(path, channels()));
}

data::Batch ImageAssets::make_batch(const std::vector<at::Tensor>& examples) const {
  data::Batch batch;
  batch.tensors["image"] = at::stack(examples);  // (batch, channels, height, width)
  batch.examples = batch.items = static_cast<int64_t>(examples.size());
  return batch;
}

exports::ScriptRecipe ImageAssets::script(const Classifier& model) const {
  return script_recipe(model, *this);
}

std::optional<tasks::Report::Picture> ImageAssets::picture(const at::Tensor& example) const {
  const auto column = [](const std::vector<double>& values) { return at::tensor(values, at::kFloat).view({-1, 1, 1}); };
  const at::Tensor values = (example * column(stddev()) + column(mean())) * 255;
  const at::Tensor pixels = values.round().clamp(0, 255).to(at::kByte).contiguous();
  const uint8_t* begin = pixels.const_data_ptr<uint8_t>();
  return tasks::Report::Picture{.channels = pixels.size(0),
                                .height = pixels.size(1),
                                .width = pixels.size(2),
                                .pixels = {begin, begin + pixels.numel()}};
}

}  // namespace fovea::classification
