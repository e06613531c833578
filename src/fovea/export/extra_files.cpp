#include "fovea/export/extra_files.h"

#include <torch/version.h>

#include <nlohmann/json.hpp>

#include "fovea/core/error.h"
#include "fovea/core/version.h"

namespace fovea::exports {
namespace {

using Json = nlohmann::ordered_json;

std::vector<std::string> reserved_tokens(const data::Vocabulary& vocabulary) {
  std::vector<std::string> reserved;
  for (int64_t id = 0; id < vocabulary.size(); ++id) {
    if (vocabulary.is_reserved(id)) reserved.push_back(vocabulary.token(id));
  }
  return reserved;
}

// Tokens are pieces between white space, so none holds a line's end.
std::string token_lines(const data::Vocabulary& vocabulary) {
  std::string lines;
  for (int64_t id = 0; id < vocabulary.size(); ++id) lines += vocabulary.token(id) + "\n";
  return lines;
}

Json describe(const data::Vocabulary& vocabulary) {
  return {{"tokens", vocabulary.size()}, {"reserved", reserved_tokens(vocabulary)},
          {"pad", vocabulary.pad()},     {"bos", vocabulary.bos()},
          {"eos", vocabulary.eos()},     {"unk", vocabulary.unk()}};
}

}  // namespace

void add_text(ScriptModule& script, const translation::TranslationAssets& assets) {
  script.add("lowercase", assets.lowercase());
  script.add("source_pad", assets.source().pad());
  script.add("source_eos", assets.source().eos());
  script.add("source_unk", assets.source().unk());
  script.add("source_reserved", reserved_tokens(assets.source()));
}

torch::jit::ExtraFilesMap extra_files(const Exportable& model) {
  torch::jit::ExtraFilesMap files;
  files["config.yaml"] = model.config_yaml;
  Json about = {{"format", "fovea-torchscript-1"},
                {"fovea", kVersion},
                {"torch", TORCH_VERSION},
                {"model", model.name},
                {"checkpoint", model.checkpoint}};
  if (const auto* text = dynamic_cast<const translation::TranslationAssets*>(&model.assets)) {
    about["kind"] = "translation";
    about["lowercase"] = text->lowercase();
    about["num_steps"] = std::get<translation::TranslationSpec>(text->spec()).num_steps;
    about["source"] = describe(text->source());
    about["target"] = describe(text->target());
    files["source_tokens.txt"] = token_lines(text->source());
    files["target_tokens.txt"] = token_lines(text->target());
  } else if (const auto image = model.assets.image_input()) {
    about["kind"] = "image classification";
    about["channels"] = image->spec.channels;
    about["height"] = image->spec.height;
    about["width"] = image->spec.width;
    about["mean"] = image->mean;
    about["std"] = image->std;
    for (const auto& name : image->class_names) files["class_names.txt"] += name + "\n";
  }
  files["model.json"] = about.dump(2) + "\n";
  return files;
}

}  // namespace fovea::exports
