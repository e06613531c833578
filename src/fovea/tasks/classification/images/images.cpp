#include "fovea/tasks/classification/images/images.h"

#include <ATen/ATen.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "fovea/config/checker.h"
#include "fovea/core/counted.h"
#include "fovea/core/error.h"
#include "fovea/core/hash.h"
#include "fovea/data/image_kernel.h"
#include "fovea/data/split.h"

namespace fovea::classification {

void ImageValidationConfig::fields(config::Fields& f) {
  f("size", size,
    "how many training images to hold out and watch the training on: a fraction below 1, or a number of images",
    config::at_least(0));
}

void ImageOptions::fields(config::Fields& f) {
  f("resize", resize, "[height, width] the images are resized to, as PIL does (bilinear, antialiased); []: not resized",
    config::range(1, 4096));
  f.section("validation", validation, "what the training is watched on");
  f("train_size", train_size, "train on this many of the images, chosen by the seed", config::at_least(1));
  f("batch_size", batch_size, "images in a batch", config::range(1, 65536));
  f("eval_batch_size", eval_batch_size, "images in a batch where nothing is trained; null: batch_size",
    config::range(1, 65536));
  f("mean", mean, "taken from pixels of 0 to 1: one number, or one for each channel", config::at_least_items(1));
  f("std", stddev, "then divided by: one number, or one for each channel", config::above(0), config::at_least_items(1));
  f.section("augment", augment, "what is changed at random in images that are trained on");
}

void ImageOptions::check(const config::Checker& c) const {
  if (!resize.empty() && resize.size() != 2) {
    c.fail("resize", "expected [height, width] or [], found {}", counted(resize.size(), "number"));
  }
  if (batch_size % augment.repeats != 0) {
    c.fail({"batch_size", "augment.repeats"}, "expected a batch that holds all repeats of its images, got {} and {}",
           batch_size, augment.repeats);
  }
  if (mean.size() != stddev.size() && mean.size() != 1 && stddev.size() != 1) {
    c.fail({"mean", "std"}, "expected as many means as standard deviations, found {} and {}", mean.size(),
           stddev.size());
  }
}

namespace {

// One number counts for all channels.
std::vector<double> for_channels(const char* key, std::vector<double> values, int64_t channels) {
  if (values.size() == 1) values.resize(static_cast<size_t>(channels), values[0]);
  if (values.size() != static_cast<size_t>(channels)) {
    fail_usage("data.{}: expected 1 number or {}, one for each channel of the images, found {}", key, channels,
               values.size());
  }
  return values;
}

std::shared_ptr<const ImageAssets> make_assets(const ImageOptions& options, std::vector<std::string> class_names,
                                               const ImageSet& set) {
  const auto num_classes = static_cast<int64_t>(class_names.size());
  const int64_t channels = set.images.size(1);
  const bool as_is = options.resize.empty();
  const ImageSpec spec(channels, as_is ? set.images.size(2) : options.resize[0],
                       as_is ? set.images.size(3) : options.resize[1], num_classes);
  return std::make_shared<ImageAssets>(spec, std::move(class_names),
                                       Normalisation{.mean = for_channels("mean", options.mean, channels),
                                                     .stddev = for_channels("std", options.stddev, channels)});
}

std::string size_text(const ImageSet& set) {
  return fmt::format("{}", fmt::join(set.images.sizes().slice(1), " x "));
}

void add_examples(Fnv1a& hash, const std::vector<uint64_t>& images, const at::Tensor& labels) {
  const int64_t* label = labels.defined() ? labels.const_data_ptr<int64_t>() : nullptr;
  for (const uint64_t image : images) {
    hash.add(image ^ image >> 32);
    hash.add(static_cast<uint64_t>(*label++));
  }
  hash.add(images.size());
}

}  // namespace

ImageData::ImageData(const ImageOptions& options, std::vector<std::string> class_names, uint64_t seed,
                     const ImageSet& train, ImageSet test, std::shared_ptr<const ImageAssets> assets)
    : ImageData(options, seed, {.classes = std::move(class_names), .train = train, .test = std::move(test)},
                std::move(assets)) {}

ImageData::ImageData(const ImageOptions& options, uint64_t seed, ImageParts parts,
                     std::shared_ptr<const ImageAssets> assets)
    : options_(options),
      seed_(seed),
      facts_(std::move(parts.facts)),
      warnings_(std::move(parts.warnings)),
      assets_(std::move(assets)) {
  const ImageSet& train = parts.train;
  if (train.count() == 0) fail_usage("expected images to train on, found none");
  if (parts.test.count() > 0 && size_text(parts.test) != size_text(train)) {
    fail_usage("expected test images of the size of those to train on, {} (channels x height x width), found {}",
               size_text(train), size_text(parts.test));
  }
  if (assets_ == nullptr) assets_ = make_assets(options, parts.classes, train);
  make_resizer(train);
  split(parts, seed);
}

ImageData::ImageData(const ImageOptions& options, ImageSet test, std::shared_ptr<const ImageAssets> assets)
    : options_(options), seed_(0), assets_(std::move(assets)) {
  if (test.count() > 0) make_resizer(test);
  parts_[static_cast<size_t>(data::Part::kTest)] = std::move(test);
}

void ImageData::make_resizer(const ImageSet& like) {
  if (like.images.size(1) != assets_->channels()) {
    fail_usage("expected images of {}, as the model takes, found {}", counted(assets_->channels(), "channel"),
               like.images.size(1));
  }
  const data::Resizer resizer(like.images.size(2), like.images.size(3), assets_->height(), assets_->width());
  if (!resizer.is_identity()) resizer_ = resizer;
}

// Equal images are in one part, as equal sentences are: a model is not watched on what it has seen.
void ImageData::split(const ImageParts& given, uint64_t seed) {
  const ImageSet& all = given.train;
  const std::vector<uint64_t> hashes = all.hashes();
  std::vector<std::string> keys;
  keys.reserve(hashes.size());
  for (const uint64_t hash : hashes) keys.emplace_back(reinterpret_cast<const char*>(&hash), sizeof(hash));
  const data::SplitSpec spec{.validation = given.validation.count() > 0 ? 0 : options_.validation.size,
                             .test = given.test.count() > 0 ? 0 : given.test_size,
                             .seed = seed};
  data::Split parts;
  if (given.by_class) {
    const int64_t* label = all.labels.const_data_ptr<int64_t>();
    parts = data::split_by_class(keys, {label, label + all.count()}, given.classes, spec);
  } else {
    parts = data::split_by_source(keys, spec);
  }

  if (options_.train_size) {
    const auto wanted = static_cast<size_t>(*options_.train_size);
    if (wanted > parts.train.size()) {
      fail_usage("data.train_size: expected at most {}, those left of {} after holding out {}, found {}",
                 counted(parts.train.size(), "image"), all.count(), parts.validation.size() + parts.test.size(),
                 wanted);
    }
    // An order of its own, apart from those of the epochs.
    std::vector<int64_t> chosen;
    for (const int64_t i : data::shuffled(static_cast<int64_t>(parts.train.size()), seed, -1)) {
      if (chosen.size() < wanted) chosen.push_back(parts.train[static_cast<size_t>(i)]);
    }
    std::sort(chosen.begin(), chosen.end());
    parts.train = std::move(chosen);
  }

  const auto set_of = [&](const ImageSet& set, const std::vector<int64_t>& held_out) {
    return set.count() > 0 ? set : all.take(held_out);
  };
  const bool is_whole = static_cast<int64_t>(parts.train.size()) == all.count();
  parts_ = {is_whole ? all : all.take(parts.train), set_of(given.validation, parts.validation),
            set_of(given.test, parts.test)};
  Fnv1a fingerprint;
  for (const data::Part part : {data::Part::kTrain, data::Part::kValidation}) {
    add_examples(fingerprint, of(part).hashes(), of(part).labels);
  }
  fingerprint_ = fingerprint.value;
}

uint64_t ImageData::part_fingerprint(data::Part part) const {
  Fnv1a hash;
  add_examples(hash, of(part).hashes(), of(part).labels);
  return hash.value;
}

data::BatchPlan ImageData::plan(data::Part part, int64_t epoch) const {
  const int64_t count = size(part), repeats = options_.augment.repeats;
  if (part != data::Part::kTrain) {
    const data::BatchingOptions options{.batch_size = options_.eval_batch_size.value_or(options_.batch_size)};
    return data::plan_evaluation_batches(std::vector<int64_t>(static_cast<size_t>(count), 1), options);
  }
  // Each epoch has its own choice of so many different images, and each batch all repeats of its images.
  const int64_t different = (count + repeats - 1) / repeats;
  const data::BatchingOptions options{.batch_size = options_.batch_size / repeats};
  auto batches =
      data::plan_training_batches(std::vector<int64_t>(static_cast<size_t>(different), 1), options, seed_, epoch);
  if (repeats == 1) return batches;
  constexpr uint64_t kChoice = 0x7265706561747300ull;  // an order apart from that of the batches
  const auto chosen = data::shuffled(count, seed_ ^ kChoice, epoch);
  for (auto& batch : batches) {
    std::vector<int64_t> whole;
    for (const int64_t i : batch) {
      for (int64_t r = 0; r < repeats; ++r) whole.push_back(chosen[static_cast<size_t>(i)] + r * count);
    }
    batch = std::move(whole);
  }
  return batches;
}

class ImageData::Renderer {
 public:
  Renderer(const ImageData& data, data::Part part, int64_t epoch)
      : data_(data),
        set_(data.of(part)),
        epoch_(epoch),
        height_(data.assets_->height()),
        width_(data.assets_->width()) {
    const data::AugmentConfig& augment = data.options_.augment;
    draws_ = part == data::Part::kTrain &&
             (augment.crop_padding > 0 || augment.flip || augment.erasing > 0 || augment.rand_augment.operations > 0);
    const auto values = static_cast<size_t>(channels() * height_ * width_);
    if (data.resizer_) resized_.resize(values);
    if (draws_) changed_.resize(values);
  }

  void render(int64_t example, float* out) {
    const uint8_t* pixels = set_.pixels(example % set_.count());
    if (data_.resizer_) {
      (*data_.resizer_)(pixels, resized_.data(), channels());
      pixels = resized_.data();
    }
    if (!draws_) return data_.assets_->normalise(pixels, out);
    const data::Augmentation drawn =
        data::draw_augmentation(data_.options_.augment, height_, width_, data_.seed_, epoch_, example);
    data::crop_and_flip(pixels, changed_.data(), channels(), height_, width_, drawn);
    for (const auto& operation : drawn.operations) data::apply(operation, changed_.data(), channels(), height_, width_);
    data_.assets_->normalise(changed_.data(), out);
    data::erase(out, channels(), height_, width_, drawn.erased);
  }

 private:
  int64_t channels() const { return data_.assets_->channels(); }

  const ImageData& data_;
  const ImageSet& set_;
  int64_t epoch_, height_, width_;
  bool draws_ = false;
  std::vector<uint8_t> resized_, changed_;
};

data::Batch ImageData::batch(data::Part part, int64_t epoch, const std::vector<int64_t>& examples) const {
  const ImageSet& set = of(part);
  const bool trains = part == data::Part::kTrain;
  const int64_t count = static_cast<int64_t>(examples.size());
  const int64_t known = set.count() * (trains ? options_.augment.repeats : 1);

  const at::Tensor image = at::empty({count, assets_->channels(), assets_->height(), assets_->width()}, at::kFloat);
  const at::Tensor label = at::empty({count}, at::kLong);
  Renderer renderer(*this, part, epoch);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t example = examples[static_cast<size_t>(i)];
    if (example < 0 || example >= known) fail("there is no example {} among {}", example, known);
    renderer.render(example, image.data_ptr<float>() + i * image.stride(0));
    label.data_ptr<int64_t>()[i] = set.label(example % set.count());
  }

  data::Batch batch;
  batch.examples = batch.items = count;
  batch.tensors = {{"image", image}, {"label", label}};
  if (trains && options_.augment.mixes()) mix(batch, epoch, examples);
  return batch;
}

void ImageData::mix(data::Batch& batch, int64_t epoch, const std::vector<int64_t>& examples) const {
  const at::Tensor image = batch.tensor("image"), label = batch.tensor("label");
  const int64_t count = image.size(0), height = image.size(2), width = image.size(3), values = image.stride(0);
  const data::Mix mix = data::draw_mix(options_.augment, height, width, seed_, epoch, examples);
  const at::Tensor mixed = at::empty_like(image), mixed_label = at::empty_like(label);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t partner = mix.partners[static_cast<size_t>(i)];
    const float *own = image.const_data_ptr<float>() + i * values,
                *other = image.const_data_ptr<float>() + partner * values;
    float* out = mixed.data_ptr<float>() + i * values;
    if (mix.box) {
      std::copy_n(own, values, out);
      data::copy_box(other, out, image.size(1), height, width, *mix.box);
    } else {
      data::mix_row(own, other, out, values, mix.share);
    }
    mixed_label.data_ptr<int64_t>()[i] = label.const_data_ptr<int64_t>()[partner];
  }
  batch.tensors["image"] = mixed;
  batch.tensors["mixed_label"] = mixed_label;
  batch.tensors["share"] = at::full({count}, mix.share, at::kFloat);
}

std::vector<std::pair<std::string, std::string>> ImageData::describe() const {
  std::vector<std::pair<std::string, std::string>> lines;
  for (const data::Part part : {data::Part::kTrain, data::Part::kValidation, data::Part::kTest}) {
    std::string text = counted(size(part), "image");
    if (resizer_ && size(part) > 0) text += " of " + size_text(of(part));
    lines.emplace_back(data::part_name(part), text);
  }
  lines.emplace_back("images",
                     fmt::format("{} x {} x {} (channels x height x width), {}", assets_->channels(), assets_->height(),
                                 assets_->width(), counted(assets_->num_classes(), "class", "classes")));
  lines.insert(lines.end(), facts_.begin(), facts_.end());
  const data::AugmentConfig& augment = options_.augment;
  std::vector<std::string> changes;
  if (augment.crop_padding > 0) changes.push_back(fmt::format("crop with padding {}", augment.crop_padding));
  if (augment.flip) changes.emplace_back("flip");
  if (augment.erasing > 0) changes.push_back(fmt::format("erasing {}", augment.erasing));
  if (augment.rand_augment.operations > 0) {
    changes.push_back(
        fmt::format("{} operations of strength {}", augment.rand_augment.operations, augment.rand_augment.magnitude));
  }
  if (augment.mixup > 0) changes.push_back(fmt::format("mixup {}", augment.mixup));
  if (augment.cutmix > 0) changes.push_back(fmt::format("cutmix {}", augment.cutmix));
  if (augment.repeats > 1) changes.push_back(fmt::format("{} repeats", augment.repeats));
  if (!changes.empty()) lines.emplace_back("augmentation", fmt::format("{}", fmt::join(changes, ", ")));
  return lines;
}

std::vector<std::string> ImageData::warnings() const {
  std::vector<std::string> warnings = warnings_;
  const at::Tensor labels = of(data::Part::kTrain).labels;
  if (!labels.defined() || labels.numel() == 0) return warnings;
  const at::Tensor counts = at::bincount(labels, {}, assets_->num_classes());
  std::vector<std::string> missing;
  for (int64_t c = 0; c < assets_->num_classes(); ++c) {
    if (counts[c].item<int64_t>() == 0) missing.push_back(assets_->class_names()[static_cast<size_t>(c)]);
  }
  const auto present = static_cast<size_t>(assets_->num_classes()) - missing.size();
  if (present == 1) {
    warnings.emplace_back("train: all images are of one class, so that there is nothing to tell apart");
  } else if (!missing.empty()) {
    warnings.push_back(
        fmt::format("train: no image is of the class{} {}", missing.size() == 1 ? "" : "es", fmt::join(missing, ", ")));
  }
  return warnings;
}

}  // namespace fovea::classification
