#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "fovea/core/error.h"

namespace fovea::tasks {

/// What a model makes of one input.
struct Prediction {
  std::string text;      // its lines, without the last line's end
  std::string json;      // one object
  std::string csv = {};  // a line under Predictor::csv_header(); empty where there is none
  std::string error;     // why there is none; then `text` is empty
  std::string warning;   // something the user should know: "longer than 8 tokens (data.num_steps) and cut"
};

/// A field of a CSV, in quotes where it needs them (RFC 4180).
std::string csv_field(const std::string& text);

/// {"<key>": input, "error": error} on one line. Bytes that are not UTF-8 are replaced.
std::string error_json(const std::string& key, const std::string& input, const std::string& error);

/// A trained model in use. Const and safe to be called from several threads.
class Predictor {
 public:
  virtual ~Predictor() = default;
  /// One prediction for each input, in their order.
  virtual std::vector<Prediction> predict(const std::vector<std::string>& inputs) const = 0;
  /// How many inputs are worth giving at once.
  virtual size_t batch_size() const = 0;
  /// The first line of a CSV of predictions; empty where they are no table.
  virtual std::string csv_header() const { return {}; }
};

/// Inputs that could be read, and where they stand among all.
template <typename Example>
struct Readable {
  std::vector<Example> examples;
  std::vector<size_t> places;
};

/// Reads each input with `read`. One that throws Error becomes `predictions[i].error` and a JSON object of the input,
/// under `key`, and the error.
template <typename Read>
auto read_each(const std::vector<std::string>& inputs, const std::string& key, std::vector<Prediction>& predictions,
               const Read& read) {
  Readable<decltype(read(inputs.front()))> readable;
  for (size_t i = 0; i < inputs.size(); ++i) {
    try {
      readable.examples.push_back(read(inputs[i]));
      readable.places.push_back(i);
    } catch (const Error& e) {
      predictions[i].error = e.what();
      predictions[i].json = error_json(key, inputs[i], e.what());
    }
  }
  return readable;
}

}  // namespace fovea::tasks
