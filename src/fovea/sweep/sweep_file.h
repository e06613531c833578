#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fovea/config/fields.h"
#include "fovea/tasks/task.h"
#include "fovea/train/experiment.h"

/// Experiments of many runs: a YAML file says what is varied, `fovea sweep` trains the members one after another.
namespace fovea::sweep {

/// One training of a sweep.
struct Member {
  std::string name;                           // of its run in the sweep's directory: "transformer-num_heads-4-seed1"
  std::string variant = {};                   // empty where the file has none
  std::vector<config::KeyValue> values = {};  // of the grid, as in YAML
  int64_t seed = 0;
  train::ExperimentConfig config;

  /// What seeds have in common: "transformer, num_heads 4". `keys`: names for the keys of the grid.
  std::string setup(const std::vector<std::string>& keys) const;
};

/// What the picture of a sweep shows.
struct PlotConfig : config::Section {
  std::optional<std::string> x;
  bool log = false;
  void fields(config::Fields& f) override;
};

/// A sweep as its file describes it:
///
///     base: ../transformer_tiny.yaml     # each variant may name its own
///     settings: {train.max_epochs: 20}   # of all members
///     grid: {model.num_heads: [1, 2, 4]} # each value with each of the others
///     variants:                          # instead of the grid or times it
///       - {name: small, settings: {model.num_hiddens: 64}}
///     seeds: [1, 2, 3]
///     evaluate: {split: validation, beam: 4}
///     measures: [bleu, minutes]
///     budget: 60
///     plot: {x: model.num_heads}
///
/// Keys of settings are paths of keys; later ones win: base, settings, grid, variant, seed, command line.
struct Sweep {
  std::filesystem::path file;
  std::vector<std::string> grid;        // the keys that are varied
  std::vector<std::string> grid_names;  // short names for them: "num_heads"
  std::vector<Member> members;          // in the order of training: one seed of everything, then the next
  std::vector<int64_t> seeds;           // empty: that of the base
  data::Part part = data::Part::kValidation;
  std::vector<std::string> evaluate;  // arguments of `fovea evaluate`, --split among them
  std::vector<std::string> measures;  // of the table; empty: all scores that the evaluation has
  std::optional<double> budget;       // minutes of training after which no member begins
  PlotConfig plot;
};

/// Reads the file and makes the configuration of every member. `overrides` hold for all of them. Throws a usage Error
/// with file, line and key for anything that is wrong with the file or with a member's settings, for members that are
/// the same or of several tasks, and for what the task's evaluation does not take.
Sweep load_sweep(const tasks::Registry& registry, const std::filesystem::path& file,
                 const std::vector<std::string>& overrides = {});

}  // namespace fovea::sweep
