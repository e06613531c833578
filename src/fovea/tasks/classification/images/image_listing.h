#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "fovea/data/data_module.h"

namespace fovea::classification {

/// Image files and what they show.
struct LabelledFiles {
  std::vector<std::filesystem::path> files;
  std::vector<int64_t> labels;      // of the listing's classes
  std::vector<int64_t> lines = {};  // of the table that names them, from 1 on; empty without a table

  void add(std::filesystem::path file, int64_t label) {
    files.push_back(std::move(file));
    labels.push_back(label);
  }
};

/// The image files of a data set, by part; none is opened.
struct ImageListing {
  std::vector<std::string> classes;
  std::array<LabelledFiles, 3> parts;  // train holds all where the files are not in parts
  bool has_parts = false;              // there are folders or marks for parts
  std::vector<std::string> warnings;   // what was left out

  LabelledFiles& of(data::Part part) { return parts[static_cast<size_t>(part)]; }
  const LabelledFiles& of(data::Part part) const { return parts[static_cast<size_t>(part)]; }
};

/// The classes that a trained model knows; nothing before the training.
using KnownClasses = std::optional<std::vector<std::string>>;

/// Whether a file's name is that of a PNG or JPEG.
bool has_image_name(const std::filesystem::path& path);

/// The images in a folder, sorted by path, from its sub-folders too; hidden ones are passed over. `others` counts files
/// of other names.
std::vector<std::filesystem::path> images_below(const std::filesystem::path& folder, int64_t* others = nullptr);

/// The part that a folder or a mark of a table names: train, val, valid, validation, dev, test; any case.
std::optional<data::Part> part_of_name(const std::string& name);

/// A folder with a folder for each class, or one with folders train, val (valid, validation) and test of such. Classes
/// are the folders of train by name, in the order of their bytes; names that are all whole numbers, in that of numbers.
/// With `known`, the classes are those, and train may be missing.
///
/// Throws a usage Error naming the folder for: no folders; images beside folders; folders of parts beside others; a
/// part that is there twice; without images; fewer than two classes; a class without images to train on; a class that
/// training does not know; names that are not UTF-8 or hold tabs or line ends.
ImageListing list_image_folder(const std::filesystem::path& root, const KnownClasses& known = {});

/// Which columns of a table are read; null: found by the names in its first line.
struct ImageTableColumns {
  std::optional<std::string> image, label, part;
};

/// A CSV or TSV (the first of tab, comma, semicolon in the first line; double quotes as in RFC 4180) of paths, relative
/// to the table, and labels. Columns are found by name: path, file, filename, file_name, image, filepath, image_path;
/// label, class, category, target; split, part, subset, set. A first line whose names are none of these is an example
/// where it has two columns, a path and a label. With a column of parts, each example is in the part it names.
///
/// Throws a usage Error naming file and line for: a line of other length, an empty path or label, an unknown part, a
/// path that has two labels, a quote that does not end, columns that are not found; fewer than two classes.
ImageListing list_image_table(const std::filesystem::path& table, const ImageTableColumns& columns,
                              const KnownClasses& known = {});

}  // namespace fovea::classification
