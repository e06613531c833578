#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "fovea/sweep/sweep_file.h"

namespace fovea::sweep {

/// What is known of a member that was trained and evaluated.
struct Result {
  std::string member;
  std::vector<std::string> evaluate = {};  // the arguments of its evaluation
  nlohmann::ordered_json report = {};      // what `fovea evaluate --json` printed
  nlohmann::ordered_json training = {};    // minutes, parameters, peak_memory_mb and the like; a null report: so far

  /// A measure of the report or else of the training; nothing where neither has a number of that name.
  std::optional<double> measure(const std::string& name) const;
};

/// The results of a sweep: SWEEP/results.jsonl, a line for each member. The file is replaced as a whole.
class Results {
 public:
  /// Reads the file; none is the same as an empty one. Throws a usage Error for a damaged one.
  explicit Results(std::filesystem::path file);

  /// Null where there is none.
  const Result* find(const std::string& member) const;
  /// Puts it in the place of the member's last one and writes the file.
  void put(Result result);

 private:
  std::filesystem::path file_;
  std::vector<Result> results_;
};

/// A measure over the seeds.
struct Statistics {
  int64_t count = 0;  // of seeds that have it
  double mean = 0;
  double spread = 0;  // the standard deviation (n - 1); 0 for a single one

  static Statistics of(const std::vector<double>& values);
  /// "60.43 ± 0.52", with digits as the spread allows; "-" for none.
  std::string text() const;
};

/// The members that differ in their seeds only.
struct Setup {
  std::string variant = {};
  std::vector<config::KeyValue> values = {};
  std::string name = {};  // Member::setup
  int64_t seeds = 0;      // with a result
  std::vector<Statistics> measures = {};
};

/// Scores of a band of examples: "1-5 words", "boot".
struct Bands {
  std::string key;                                                // of the report's table: "by_length"
  std::string label;                                              // of its first column: "length"
  std::vector<std::string> names = {};                            // of the bands
  std::vector<std::string> measures = {};                         // "bleu", "loss"
  std::vector<std::vector<std::vector<Statistics>>> values = {};  // of (measure, setup, band)
};

/// What a sweep found so far.
struct Findings {
  std::vector<std::string> measures = {};
  std::vector<Setup> setups = {};  // in the order of the file
  std::vector<Bands> bands = {};   // of evaluations --by something
};

/// Throws a usage Error for a measure of the file that no result has; it names those that there are.
Findings findings_of(const Sweep& sweep, const Results& results);

}  // namespace fovea::sweep
