#pragma once

#include <string>
#include <vector>

#include "fovea/config/explain.h"

namespace fovea::config {

/// The settings whose last part is `word`, in the order of declaration: "train.max_epochs" for "max_epochs" or
/// "max-epochs". Where there is none, those that the field's usual abbreviation stands for: "optimizer.learning_rate"
/// for "lr".
std::vector<std::string> settings_called(const std::string& word, const std::vector<Explained>& lines);

/// The setting that a word without its section was meant to be: the first of settings_called(), else the one with the
/// nearest last part; empty if none is near.
std::string nearest_setting(const std::string& word, const std::vector<Explained>& lines);

}  // namespace fovea::config
