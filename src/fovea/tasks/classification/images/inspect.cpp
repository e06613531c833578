#include "fovea/tasks/classification/images/inspect.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "fovea/core/counted.h"
#include "fovea/core/error.h"
#include "fovea/core/hash.h"
#include "fovea/data/batching.h"
#include "fovea/data/image_file.h"
#include "fovea/data/split.h"
#include "fovea/data/threads.h"
#include "fovea/tasks/classification/images/file_images.h"
#include "fovea/tasks/histogram.h"

namespace fovea::classification {
namespace {

constexpr size_t kListedSizes = 10;
constexpr double kUnbalanced = 10;  // the largest class against the smallest

/// One image, whatever it was read from.
struct InspectedImage {
  std::string name;  // "cat/17.png", "train 17"
  data::Part part = data::Part::kTrain;
  int64_t label = 0;
  int64_t height = 0, width = 0;
  uint64_t hash = 0;  // of the pixels and the size
  std::string damage = {};
};

struct InspectedImages {
  std::vector<std::string> classes;
  std::vector<InspectedImage> images;
  std::vector<std::string> warnings;
  bool are_files = false;
};

InspectedImages look_at_files(const FileImageConfig& config, const ImageListing& listing, Progress* progress) {
  InspectedImages found{.classes = listing.classes, .images = {}, .warnings = listing.warnings, .are_files = true};
  std::vector<std::filesystem::path> files;
  const std::filesystem::path root =
      std::filesystem::is_directory(config.path) ? config.path : config.path.parent_path();
  for (size_t part = 0; part < listing.parts.size(); ++part) {
    for (size_t i = 0; i < listing.parts[part].files.size(); ++i) {
      files.push_back(listing.parts[part].files[i]);
      found.images.push_back({.name = files.back().lexically_relative(root).string(),
                              .part = static_cast<data::Part>(part),
                              .label = listing.parts[part].labels[i]});
    }
  }
  std::mutex mutex;
  ProgressState shown{.name = "reading images", .total = static_cast<int64_t>(files.size())};
  data::for_each_on_threads(files.size(), [&](size_t i) {
    InspectedImage& image = found.images[i];
    try {
      const at::Tensor pixels = data::read_image(files[i], config.channels);
      image.height = pixels.size(1);
      image.width = pixels.size(2);
      Fnv1a hash;
      hash.add(hash_words(pixels.const_data_ptr<uint8_t>(), static_cast<size_t>(pixels.numel())));
      hash.add(static_cast<uint64_t>(image.width));
      image.hash = hash.value;
    } catch (const Error& e) {
      image.damage = e.what();
    }
    if (progress == nullptr) return;
    const std::lock_guard lock(mutex);
    ++shown.done;
    progress->update(shown);
  });
  if (progress != nullptr) progress->finish();
  return found;
}

// As a training would: of each class its share, damaged ones left out.
void hold_out_files(InspectedImages& found, const FileImageConfig& config, const ImageListing& listing, uint64_t seed) {
  std::vector<std::string> keys;
  std::vector<int64_t> labels;
  std::vector<InspectedImage*> whole;
  for (auto& image : found.images) {
    if (image.part != data::Part::kTrain || !image.damage.empty()) continue;
    keys.emplace_back(reinterpret_cast<const char*>(&image.hash), sizeof(image.hash));
    labels.push_back(image.label);
    whole.push_back(&image);
  }
  const auto size_of = [&](data::Part part, double size) { return listing.of(part).files.empty() ? size : 0; };
  try {
    const data::Split split =
        data::split_by_class(keys, labels, found.classes,
                             {.validation = size_of(data::Part::kValidation, config.images.validation.size),
                              .test = size_of(data::Part::kTest, config.test.size),
                              .seed = seed});
    for (const int64_t i : split.validation) whole[static_cast<size_t>(i)]->part = data::Part::kValidation;
    for (const int64_t i : split.test) whole[static_cast<size_t>(i)]->part = data::Part::kTest;
  } catch (const Error& e) {
    found.warnings.emplace_back(e.what());
  }
}

InspectedImages look_at_data(const ImageData& data) {
  InspectedImages found{.classes = data.image_assets().class_names(), .images = {}, .warnings = data.warnings()};
  for (const data::Part part : {data::Part::kTrain, data::Part::kValidation, data::Part::kTest}) {
    for (int64_t i = 0; i < data.size(part); ++i) {
      const at::Tensor image = data.image(part, i);
      found.images.push_back({.name = fmt::format("{} {}", data::part_name(part), i),
                              .part = part,
                              .label = data.labels(part).const_data_ptr<int64_t>()[i],
                              .height = image.size(1),
                              .width = image.size(2),
                              .hash = hash_words(image.const_data_ptr<uint8_t>(), static_cast<size_t>(image.numel()))});
    }
  }
  return found;
}

InspectedImages look_at(const tasks::InspectRequest& request) {
  const auto look = [&](const auto& config) {
    const ImageListing listing = config.list({});
    InspectedImages found = look_at_files(config, listing, request.progress);
    hold_out_files(found, config, listing, request.seed);
    return found;
  };
  if (const auto* folder = dynamic_cast<const ImageFolderConfig*>(request.section)) return look(*folder);
  if (const auto* table = dynamic_cast<const ImageTableConfig*>(request.section)) return look(*table);
  const auto data = request.entry->make(*request.section, request.seed, nullptr);
  return look_at_data(dynamic_cast<const ImageData&>(*data));
}

tasks::Report::Grid class_grid(const InspectedImages& found) {
  std::vector<std::array<int64_t, 3>> counts(found.classes.size());
  for (const auto& image : found.images) {
    if (image.damage.empty()) ++counts[static_cast<size_t>(image.label)][static_cast<size_t>(image.part)];
  }
  int64_t most = 1;
  for (const auto& parts : counts) most = std::max(most, parts[0] + parts[1] + parts[2]);
  tasks::Report::Grid grid{.key = "classes",
                           .columns = {{"name", "class"},
                                       {"train", "train"},
                                       {"validation", "validation"},
                                       {"test", "test"},
                                       {.key = "bar", .label = "", .in_json = false}},
                           .rows = {}};
  for (size_t c = 0; c < counts.size(); ++c) {
    const auto& [train, validation, test] = counts[c];
    const auto all = static_cast<double>(train + validation + test);
    grid.rows.push_back({found.classes[c], train, validation, test, tasks::bar(all / static_cast<double>(most))});
  }
  return grid;
}

tasks::Report::Grid size_grid(const InspectedImages& found) {
  std::map<std::pair<int64_t, int64_t>, int64_t> counts;
  for (const auto& image : found.images) {
    if (image.damage.empty()) ++counts[{image.height, image.width}];
  }
  std::vector<std::pair<int64_t, std::pair<int64_t, int64_t>>> sorted;
  for (const auto& [size, count] : counts) sorted.emplace_back(-count, size);
  std::sort(sorted.begin(), sorted.end());
  tasks::Report::Grid grid{.key = "sizes",
                           .columns = {{"height", "height"},
                                       {"width", "width"},
                                       {"images", "images"},
                                       {.key = "bar", .label = "", .in_json = false}},
                           .rows = {}};
  for (const auto& [count, size] : sorted) {
    if (grid.rows.size() == kListedSizes) break;
    grid.rows.push_back({size.first, size.second, -count,
                         tasks::bar(static_cast<double>(count) / static_cast<double>(sorted.front().first))});
  }
  return grid;
}

// Images that are equal, and what that means.
struct EqualImages {
  tasks::Report::Grid grid;  // of the first ones
  int64_t copies = 0, across_classes = 0, across_parts = 0;
};

EqualImages equal_images(const InspectedImages& found, int64_t listed) {
  EqualImages equal{.grid = {.key = "equal_images",
                             .columns = {{"image", "image"}, {"equals", "equals"}, {"note", "note"}},
                             .rows = {}}};
  std::map<uint64_t, const InspectedImage*> seen;
  std::vector<std::vector<tasks::Value>> grave, harmless;
  for (const auto& image : found.images) {
    if (!image.damage.empty()) continue;
    const auto [first, is_new] = seen.emplace(image.hash, &image);
    if (is_new) continue;
    ++equal.copies;
    const InspectedImage& other = *first->second;
    const bool other_class = other.label != image.label, other_part = other.part != image.part;
    equal.across_classes += other_class ? 1 : 0;
    equal.across_parts += other_part ? 1 : 0;
    std::string note;
    if (other_class) {
      note = fmt::format("{}, the other {}", found.classes[static_cast<size_t>(image.label)],
                         found.classes[static_cast<size_t>(other.label)]);
    }
    if (other_part) {
      note += fmt::format("{}{}, the other {}", note.empty() ? "" : "; ", data::part_name(image.part),
                          data::part_name(other.part));
    }
    (note.empty() ? harmless : grave).push_back({image.name, other.name, note});
  }
  grave.insert(grave.end(), harmless.begin(), harmless.end());
  grave.resize(std::min<size_t>(grave.size(), static_cast<size_t>(listed)));
  equal.grid.rows = std::move(grave);
  return equal;
}

void add_class_warnings(tasks::Report& report, const InspectedImages& found) {
  std::vector<int64_t> counts(found.classes.size(), 0);
  for (const auto& image : found.images) counts[static_cast<size_t>(image.label)] += image.damage.empty() ? 1 : 0;
  const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
  const std::string& rare = found.classes[static_cast<size_t>(least - counts.begin())];
  report.facts.push_back(
      {.key = "classes",
       .value = static_cast<int64_t>(counts.size()),
       .text = fmt::format("{}, with {} to {} each", counts.size(), *least, counted(*most, "image"))});
  if (static_cast<double>(*most) > kUnbalanced * static_cast<double>(*least)) {
    report.warnings.push_back(
        fmt::format("the classes are unbalanced: {} has {}, {} has {}; look at recall and F1, not at accuracy alone",
                    rare, counted(*least, "image"), found.classes[static_cast<size_t>(most - counts.begin())], *most));
  }
}

}  // namespace

tasks::Report inspect_images(const tasks::InspectRequest& request) {
  const InspectedImages found = look_at(request);
  tasks::Report report;
  std::array<int64_t, 3> parts{};
  std::vector<const InspectedImage*> damaged, whole;
  for (const auto& image : found.images) (image.damage.empty() ? whole : damaged).push_back(&image);
  for (const auto* image : whole) ++parts[static_cast<size_t>(image->part)];
  report.facts.push_back({.key = "images", .value = static_cast<int64_t>(found.images.size())});
  for (const data::Part part : {data::Part::kTrain, data::Part::kValidation, data::Part::kTest}) {
    report.facts.push_back({.key = data::part_name(part), .value = parts[static_cast<size_t>(part)]});
  }
  report.warnings = found.warnings;
  add_class_warnings(report, found);
  if (found.are_files) {
    report.facts.push_back({.key = "damaged", .value = static_cast<int64_t>(damaged.size())});
  }
  EqualImages equal = equal_images(found, request.listed);
  report.facts.push_back({.key = "copies",
                          .value = equal.copies,
                          .text = equal.copies == 0
                                      ? "0"
                                      : fmt::format("{} of other images: {} of another class, {} in another part",
                                                    equal.copies, equal.across_classes, equal.across_parts)});
  report.facts.push_back({.key = "copies_of_another_class", .value = equal.across_classes, .in_table = false});
  report.facts.push_back({.key = "copies_in_another_part", .value = equal.across_parts, .in_table = false});
  if (!damaged.empty()) {
    report.warnings.push_back(
        fmt::format("{} cannot be read; training refuses them, or leaves them out with "
                    "data.damaged=skip",
                    counted(damaged.size(), "image")));
  }
  if (equal.across_classes > 0) {
    report.warnings.push_back(fmt::format(
        "{} of an image of another class: no model can be right about both",
        equal.across_classes == 1 ? "1 image is a copy" : fmt::format("{} images are copies", equal.across_classes)));
  }
  if (equal.across_parts > 0) {
    report.warnings.push_back("some images are in two parts: the scores of held-out images will be too good");
  }

  report.grids.push_back(class_grid(found));
  report.grids.push_back(size_grid(found));
  if (!damaged.empty()) {
    tasks::Report::Grid grid{.key = "damaged_files", .columns = {{"image", "image"}, {"why", "why"}}, .rows = {}};
    for (const auto* image : damaged) {
      if (static_cast<int64_t>(grid.rows.size()) < request.listed) grid.rows.push_back({image->name, image->damage});
    }
    report.grids.push_back(std::move(grid));
  }
  if (!equal.grid.rows.empty()) report.grids.push_back(std::move(equal.grid));
  tasks::Report::Grid examples{
      .key = "examples",
      .columns = {{"image", "example"}, {"part", "part"}, {"class", "class"}, {"height", "height"}, {"width", "width"}},
      .rows = {}};
  for (const int64_t i : data::shuffled(static_cast<int64_t>(whole.size()), request.seed, -2)) {
    if (static_cast<int64_t>(examples.rows.size()) == request.examples) break;
    const InspectedImage& image = *whole[static_cast<size_t>(i)];
    examples.rows.push_back({image.name, std::string(data::part_name(image.part)),
                             found.classes[static_cast<size_t>(image.label)], image.height, image.width});
  }
  report.grids.push_back(std::move(examples));
  return report;
}

}  // namespace fovea::classification
