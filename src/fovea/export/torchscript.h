#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "fovea/data/data_module.h"
#include "fovea/train/module.h"

namespace fovea::exports {

/// A model and what has to go with it to be used elsewhere.
struct Exportable {
  train::Module& module;  // on the CPU
  const data::DataAssets& assets;
  std::string name;         // of the model, in configurations
  std::string config_yaml;  // the resolved experiment
  std::string checkpoint;   // where the weights come from, e.g. "step-40"
};

/// What there is to tell about an export, as (name, text).
using ExportSummary = std::vector<std::pair<std::string, std::string>>;

/// Writes a TorchScript file that torch alone can load, in Python and in C++, made of ATen's own ops, for any batch
/// size and any lengths. What its methods are, see seq2seq_script.h and classifier_script.h. Beside them it has
///   as attributes   training (False), and for text: lowercase, source_pad, source_eos, source_unk, source_reserved,
///                   num_steps, max_positions, pad, bos, eos, unk; for images: channels, height, width, class_names
///   as extra files  config.yaml; model.json (what it is, of which versions, special tokens, normalisation);
///                   source_tokens.txt and target_tokens.txt, or class_names.txt: one a line, in the order of the ids
///
/// The network is in evaluation mode meanwhile and then as it was. Before the file gets its name it is loaded again
/// and compared with the live model at other batch sizes, lengths and image sizes (see torchscript_check.h); if
/// anything differs, there is no file and an Error that says what. `say` hears what is being done.
ExportSummary export_torchscript(const Exportable& model, const std::filesystem::path& file,
                                 const std::function<void(const std::string&)>& say);

}  // namespace fovea::exports
