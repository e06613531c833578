#include "fovea/tasks/classification/images/image_listing.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "fovea/core/content.h"
#include "fovea/core/counted.h"
#include "fovea/core/error.h"
#include "fovea/core/gzip.h"
#include "fovea/core/numbers.h"
#include "fovea/core/suggest.h"
#include "fovea/core/utf8.h"
#include "fovea/data/text.h"

namespace fovea::classification {
namespace fs = std::filesystem;
namespace {

std::string lower_ascii(std::string text) {
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  return text;
}

bool is_hidden(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.starts_with('.') || name.starts_with("__MACOSX");
}

// Files that programs leave in folders of pictures, which nobody means.
bool is_litter(const fs::path& path) {
  const std::string name = lower_ascii(path.filename().string());
  return name == "thumbs.db" || name == "desktop.ini";
}

void check_class_name(const std::string& name, const std::string& where) {
  if (!is_utf8(name)) fail_usage("{}: the name of the class is not UTF-8; rename it", where);
  if (name.empty() || name.find_first_of("\t\n\r") != std::string::npos) {
    fail_usage("{}: the name of a class may not be empty or hold tabs or line ends", where);
  }
}

bool is_whole_number(const std::string& name) {
  return !name.empty() && name.size() < 10 &&
         std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
}

std::vector<std::string> in_order(const std::set<std::string>& names) {
  std::vector<std::string> sorted(names.begin(), names.end());
  if (std::all_of(sorted.begin(), sorted.end(), is_whole_number)) {
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const auto& a, const auto& b) { return std::stol(a) < std::stol(b); });
  }
  return sorted;
}

// The number of a class; an Error where there is none of that name.
int64_t class_number(const std::vector<std::string>& classes, const std::string& name, const std::string& where,
                     bool is_trained) {
  const auto found = std::find(classes.begin(), classes.end(), name);
  if (found == classes.end()) {
    fail_usage("{}: the class {} is not one of {}: {}{}", where, name,
               is_trained ? "those that the model was trained on" : "those to train on",
               fmt::join(classes.begin(),
                         classes.begin() + static_cast<std::ptrdiff_t>(std::min<size_t>(8, classes.size())), ", "),
               classes.size() > 8 ? ", ..." : "");
  }
  return found - classes.begin();
}

struct FolderContent {
  std::vector<fs::path> folders, images;  // sorted
  int64_t others = 0;
};

FolderContent content_of(const fs::path& folder) {
  FolderContent content;
  std::error_code error;
  fs::directory_iterator iterator(folder, error);
  if (error) fail_usage("{}: cannot be read: {}", folder.string(), error.message());
  for (const auto& entry : iterator) {
    if (is_hidden(entry.path())) continue;
    if (entry.is_directory(error)) {
      content.folders.push_back(entry.path());
    } else if (has_image_name(entry.path())) {
      content.images.push_back(entry.path());
    } else if (!is_litter(entry.path())) {
      ++content.others;
    }
  }
  std::sort(content.folders.begin(), content.folders.end());
  std::sort(content.images.begin(), content.images.end());
  return content;
}

void check_no_images_beside(const fs::path& folder, const FolderContent& content) {
  if (content.images.empty()) return;
  if (content.folders.empty()) {
    fail_usage(
        "{}: holds {} and no folders; expected a folder for each class, with its images in it, such as {} and {}",
        folder.string(), counted(content.images.size(), "image"), (folder / "cat").string(), (folder / "dog").string());
  }
  fail_usage("{}: holds {} beside the folders of the classes, such as {}; put each into the folder of its class",
             folder.string(), counted(content.images.size(), "image"), content.images.front().string());
}

// The folders of parts, or nothing where the folders are those of classes. A class may be called "train" if its folder
// holds images.
std::map<data::Part, fs::path> part_folders(const fs::path& root, const FolderContent& content) {
  std::map<data::Part, fs::path> parts;
  std::vector<std::string> others;
  for (const auto& folder : content.folders) {
    const auto part = part_of_name(folder.filename().string());
    if (!part || content_of(folder).folders.empty()) {
      others.push_back(folder.filename().string());
      continue;
    }
    if (const auto [known, is_new] = parts.emplace(*part, folder); !is_new) {
      fail_usage("{}: holds two folders of one part, {} and {}; put them together", root.string(),
                 known->second.filename().string(), folder.filename().string());
    }
  }
  if (!parts.empty() && !others.empty()) {
    fail_usage("{}: holds {} beside {}; expected either train, val and test, or a folder for each class", root.string(),
               others.front(), parts.begin()->second.filename().string());
  }
  return parts;
}

void list_classes(ImageListing& listing, data::Part part, const fs::path& folder, const FolderContent& content,
                  bool is_trained) {
  int64_t others = 0;
  for (const auto& class_folder : content.folders) {
    const std::string name = class_folder.filename().string();
    check_class_name(name, class_folder.string());
    auto files = images_below(class_folder, &others);
    if (files.empty()) {
      if (part != data::Part::kTrain) continue;
      fail_usage("{}: the folder of a class holds no PNG or JPEG images", class_folder.string());
    }
    const int64_t label = class_number(listing.classes, name, class_folder.string(), is_trained);
    for (auto& file : files) listing.of(part).add(std::move(file), label);
  }
  if (listing.of(part).files.empty()) fail_usage("{}: holds no PNG or JPEG images", folder.string());
  if (others > 0) {
    listing.warnings.push_back(fmt::format("{}: {} {} left out: by name neither PNG nor JPEG", folder.string(),
                                           counted(others, "file"), others == 1 ? "is" : "are"));
  }
}

void check_several_classes(const std::vector<std::string>& classes, const std::string& where) {
  if (classes.size() == 1) {
    fail_usage("{}: holds one class only, {}; expected two or more, to be told apart", where, classes.front());
  }
}

// Fields of a line, as RFC 4180 has them.
std::vector<std::string> csv_fields(std::string_view line, char separator, const std::string& where) {
  std::vector<std::string> fields(1);
  bool is_quoted = false;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (is_quoted) {
      if (c != '"') {
        fields.back() += c;
      } else if (i + 1 < line.size() && line[i + 1] == '"') {
        fields.back() += line[++i];
      } else {
        is_quoted = false;
      }
    } else if (c == '"' && fields.back().empty()) {
      is_quoted = true;
    } else if (c == separator) {
      fields.emplace_back();
    } else {
      fields.back() += c;
    }
  }
  if (is_quoted) fail_usage("{}: a quote (\") does not end", where);
  for (auto& field : fields) {
    while (!field.empty() && field.back() == ' ') field.pop_back();
    field.erase(0, std::min(field.find_first_not_of(' '), field.size()));
  }
  return fields;
}

constexpr auto kImageNames = std::to_array<std::string_view>(
    {"path", "file", "filename", "file_name", "image", "filepath", "file_path", "image_path", "img"});
constexpr auto kLabelNames = std::to_array<std::string_view>({"label", "class", "category", "target", "labels"});
constexpr auto kPartNames = std::to_array<std::string_view>({"split", "part", "subset", "set"});

struct ColumnNumbers {
  size_t image = 0, label = 1;
  std::optional<size_t> part;
  bool has_header = true;
};

// The column that is asked for by name, or one of the usual names.
template <size_t n>
std::optional<size_t> find_column(const std::vector<std::string>& names, const std::optional<std::string>& asked,
                                  const std::array<std::string_view, n>& usual, const char* key,
                                  const std::string& table) {
  for (size_t c = 0; c < names.size(); ++c) {
    if (asked ? names[c] == *asked : std::find(usual.begin(), usual.end(), lower_ascii(names[c])) != usual.end()) {
      return c;
    }
  }
  if (asked) {
    fail_usage("{}: there is no column {} (data.{}); there are {}{}", table, *asked, key, fmt::join(names, ", "),
               did_you_mean(*asked, names));
  }
  return std::nullopt;
}

ColumnNumbers find_columns(const std::vector<std::string>& names, const ImageTableColumns& asked,
                           const std::string& table) {
  const auto image = find_column(names, asked.image, kImageNames, "image_column", table);
  const auto label = find_column(names, asked.label, kLabelNames, "label_column", table);
  const auto part = find_column(names, asked.part, kPartNames, "part_column", table);
  if (image && label) return {*image, *label, part, true};
  if (!image && !label && !part && names.size() == 2 && has_image_name(names[0])) return {0, 1, {}, false};
  fail_usage("{}: expected a column of paths and one of labels; the first line holds {}; say which they are: {}", table,
             fmt::join(names, ", "),
             !image && !label ? "data.image_column=NAME data.label_column=NAME"
             : !image         ? "data.image_column=NAME"
                              : "data.label_column=NAME");
}

}  // namespace

bool has_image_name(const fs::path& path) {
  const std::string extension = lower_ascii(path.extension().string());
  return extension == ".png" || extension == ".jpg" || extension == ".jpeg";
}

std::optional<data::Part> part_of_name(const std::string& name) {
  static const std::map<std::string, data::Part> names = {
      {"train", data::Part::kTrain},      {"training", data::Part::kTrain},        {"val", data::Part::kValidation},
      {"valid", data::Part::kValidation}, {"validation", data::Part::kValidation}, {"dev", data::Part::kValidation},
      {"test", data::Part::kTest}};
  const auto found = names.find(lower_ascii(name));
  return found == names.end() ? std::nullopt : std::optional(found->second);
}

std::vector<fs::path> images_below(const fs::path& folder, int64_t* others) {
  std::vector<fs::path> files;
  std::error_code error;
  fs::recursive_directory_iterator iterator(folder, error);
  if (error) fail_usage("{}: cannot be read: {}", folder.string(), error.message());
  for (auto at = fs::begin(iterator); at != fs::end(iterator); at.increment(error)) {
    if (error) fail_usage("{}: cannot be read: {}", folder.string(), error.message());
    const bool is_folder = at->is_directory(error);
    if (is_hidden(at->path())) {
      if (is_folder) at.disable_recursion_pending();
    } else if (!is_folder && has_image_name(at->path())) {
      files.push_back(at->path());
    } else if (!is_folder && others != nullptr && !is_litter(at->path())) {
      ++*others;
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

ImageListing list_image_folder(const fs::path& root, const KnownClasses& known) {
  std::error_code ignored;
  if (!fs::exists(root, ignored)) fail_usage("{}: there is no such folder", root.string());
  if (!fs::is_directory(root, ignored)) {
    fail_usage("{}: expected a folder of images, found a file: {}", root.string(),
               describe_content(read_beginning(root, 256)));
  }
  const FolderContent content = content_of(root);
  check_no_images_beside(root, content);
  if (content.folders.empty()) {
    fail_usage("{}: expected a folder for each class, with its PNG or JPEG images in it, found {}", root.string(),
               content.others > 0 ? counted(content.others, "other file") : "nothing");
  }
  const auto parts = part_folders(root, content);
  ImageListing listing;
  listing.has_parts = !parts.empty();
  if (listing.has_parts && !known && !parts.contains(data::Part::kTrain)) {
    fail_usage("{}: holds {} and no train; expected the images to train on in {}", root.string(),
               parts.begin()->second.filename().string(), (root / "train").string());
  }
  const fs::path train = listing.has_parts && !known ? parts.at(data::Part::kTrain) : root;
  if (known) {
    listing.classes = *known;
  } else {
    std::set<std::string> names;
    for (const auto& folder : content_of(train).folders) names.insert(folder.filename().string());
    listing.classes = in_order(names);
    check_several_classes(listing.classes, train.string());
  }
  if (!listing.has_parts) {
    list_classes(listing, data::Part::kTrain, root, content, known.has_value());
  }
  for (const auto& [part, folder] : parts) {
    const FolderContent classes = content_of(folder);
    check_no_images_beside(folder, classes);
    list_classes(listing, part, folder, classes, known.has_value());
  }
  return listing;
}

ImageListing list_image_table(const fs::path& table, const ImageTableColumns& columns, const KnownClasses& known) {
  const std::string name = table.string();
  const std::string bytes = read_maybe_gzip(table);
  const auto lines = data::split_lines(data::check_utf8(bytes, name));
  struct Example {
    fs::path file;
    std::string label;
    data::Part part;
    int64_t line;
  };
  std::vector<Example> examples;
  std::optional<ColumnNumbers> at;
  char separator = ',';
  size_t width = 0;
  std::map<fs::path, std::pair<std::string, int64_t>> seen;  // the label of each file, and its line
  std::set<std::string> names;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (data::is_blank(lines[i])) continue;
    const std::string where = fmt::format("{}:{}", name, i + 1);
    if (!at) {
      const size_t found =
          lines[i].find('\t') != std::string_view::npos ? lines[i].find('\t') : lines[i].find_first_of(",;");
      separator = found == std::string_view::npos ? ',' : lines[i][found];
    }
    const auto fields = csv_fields(lines[i], separator, where);
    if (!at) {
      at = find_columns(fields, columns, name);
      width = fields.size();
      if (at->has_header) continue;
    }
    if (fields.size() != width) {
      fail_usage("{}: expected {} as in the first line, found {}", where, counted(width, "column"), fields.size());
    }
    const std::string &path = fields[at->image], &label = fields[at->label];
    if (path.empty() || label.empty()) {
      fail_usage("{}: expected a path and a label, found {} without {}", where, path.empty() ? "a label" : "a path",
                 path.empty() ? "a path" : "a label");
    }
    check_class_name(label, where);
    data::Part part = data::Part::kTrain;
    if (at->part) {
      const auto named = part_of_name(fields[*at->part]);
      if (!named) {
        fail_usage("{}: expected the part train, validation or test, found \"{}\"", where,
                   data::excerpt(fields[*at->part]));
      }
      part = *named;
    }
    const fs::path file = (table.parent_path() / path).lexically_normal();
    const auto [first, is_new] = seen.emplace(file, std::pair(label, static_cast<int64_t>(i + 1)));
    if (!is_new && first->second.first != label) {
      fail_usage("{}: {} is {} here, and {} in line {}; expected one label", where, path, label, first->second.first,
                 first->second.second);
    }
    if (part == data::Part::kTrain) names.insert(label);
    examples.push_back({file, label, part, static_cast<int64_t>(i + 1)});
  }
  if (examples.empty()) fail_usage("{}: expected lines of paths and labels, found none", name);

  ImageListing listing;
  listing.has_parts = at->part.has_value();
  if (!known && names.empty()) fail_usage("{}: no example is of the part train", name);
  listing.classes = known ? *known : in_order(names);
  if (!known) check_several_classes(listing.classes, name);
  for (auto& example : examples) {
    LabelledFiles& part = listing.of(example.part);
    part.add(std::move(example.file),
             class_number(listing.classes, example.label, fmt::format("{}:{}", name, example.line), known.has_value()));
    part.lines.push_back(example.line);
  }
  return listing;
}

}  // namespace fovea::classification
