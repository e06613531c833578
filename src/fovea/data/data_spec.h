#pragma once

namespace fovea::data {

/// What a model must know of its data to be built: sizes, numbers of classes, special ids. Each task derives its own.
struct DataSpec {
  virtual ~DataSpec() = default;
  /// The name of the task that data of this kind belongs to: "translation".
  virtual const char* task() const = 0;
  /// What the data is, for errors and lists: "sentence pairs".
  virtual const char* kind() const = 0;
};

}  // namespace fovea::data
