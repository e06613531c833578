#pragma once

#include <string>
#include <vector>

#include "command.h"
#include "fovea/train/run.h"

namespace fovea::cli {

/// What `fovea evaluate` is told, for every kind of model.
struct EvaluateOptions {
  std::vector<std::string> positionals;
  std::string run;  // the directory, out of the positionals
  std::string split = "test", checkpoint;
  bool json = false;

  // For translators.
  std::string input;
  translation::TranslatorOptions translator;
  int64_t samples = 0;

  data::Part part() const;  // a usage Error for a split that there is not
};

/// One for each kind of model. They print to stdout and return the exit status.
int evaluate_translator(const train::LoadedRun& run, decode::Seq2Seq& model, const EvaluateOptions& options);
int evaluate_classifier(const train::LoadedRun& run, classification::Classifier& model, const EvaluateOptions& options);

}  // namespace fovea::cli
