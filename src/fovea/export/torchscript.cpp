#include "fovea/export/torchscript.h"

#include <fmt/ranges.h>
#include <torch/csrc/jit/passes/inliner.h>
#include <torch/csrc/jit/serialization/export.h>
#include <torch/csrc/jit/serialization/import.h>
#include <torch/torch.h>
#include <torch/version.h>

#include <exception>
#include <nlohmann/json.hpp>
#include <set>

#include "fovea/core/error.h"
#include "fovea/core/file.h"
#include "fovea/core/partial.h"
#include "fovea/core/version.h"
#include "fovea/export/script_module.h"
#include "fovea/train/checkpoint.h"
#include "fovea/train/evaluation_mode.h"

namespace fovea::exports {
namespace {

namespace fs = std::filesystem;
namespace jit = torch::jit;

void find_foreign_ops(at::ArrayRef<const jit::Block*> blocks, std::set<std::string>& found) {
  for (const jit::Block* block : blocks) {
    for (const jit::Node* node : block->nodes()) {
      if (!node->kind().is_aten() && !node->kind().is_prim()) found.insert(node->kind().toQualString());
      find_foreign_ops(node->blocks(), found);
    }
  }
}

// Only torch's own ops: the file is to load where this library is not.
void check_ops(const jit::Module& module) {
  std::set<std::string> foreign;
  for (const auto& method : module.get_methods()) {
    const auto graph = method.graph()->copy();
    jit::Inline(*graph);
    find_foreign_ops({graph->block()}, foreign);
  }
  if (!foreign.empty())
    fail("export: the traced model uses ops that torch alone does not have: {}", fmt::join(foreign, ", "));
}

jit::ExtraFilesMap extra_files(const Exportable& model, const ScriptRecipe& recipe) {
  nlohmann::ordered_json about = {{"format", "fovea-torchscript-1"}, {"fovea", kVersion},
                                  {"torch", TORCH_VERSION},          {"model", model.name},
                                  {"checkpoint", model.checkpoint},  {"kind", recipe.kind}};
  about.update(nlohmann::ordered_json::parse(recipe.facts_json));
  jit::ExtraFilesMap files(recipe.files.begin(), recipe.files.end());
  files[train::kConfigFile] = model.config_yaml;
  files["model.json"] = about.dump(2) + "\n";
  return files;
}

// Through a function, so that the folder in the archive is not called after an unfinished file.
void write_script(const jit::Module& script, const jit::ExtraFilesMap& extra, const fs::path& path) {
  OutputFile file(path);
  std::exception_ptr failure;
  // torch finishes the archive in a destructor, where an exception would end the program: after a failure it is left to
  // believe that all is well.
  const auto write = [&](const void* bytes, size_t size) {
    try {
      if (failure == nullptr) file.write(bytes, size);
    } catch (...) {
      failure = std::current_exception();
    }
    return size;
  };
  jit::ExportModule(script, write, extra);
  if (failure != nullptr) std::rethrow_exception(failure);
  file.close();
}

}  // namespace

ExportSummary export_torchscript(const Exportable& model, const ScriptRecipe& recipe, const fs::path& file,
                                 const std::function<void(const std::string&)>& say) {
  const train::EvaluationMode evaluation(model.module.network());
  const at::NoGradGuard no_grad;
  Partial partial(file);
  say("tracing the model");
  try {
    ScriptModule mirror(model.module.network());
    recipe.build(mirror);
    const jit::Module script = mirror.finish();
    check_ops(script);
    say("writing " + file.string());
    write_script(script, extra_files(model, recipe), partial.path());
  } catch (const c10::Error& e) {
    fail("{}: cannot be exported: {}", file.string(), e.what_without_backtrace());
  }

  jit::Module loaded;
  try {
    loaded = jit::load(partial.path().string(), at::kCPU);
  } catch (const c10::Error& e) {
    fail("{}: what was written cannot be loaded: {}", file.string(), e.what_without_backtrace());
  }
  const Comparison compared = recipe.compare(loaded, say);
  partial.put_in_place();
  std::vector<std::string> methods;
  for (const auto& method : loaded.get_methods()) {
    if (!method.name().starts_with('_')) methods.push_back(method.name());
  }
  return {{"methods", fmt::format("{}", fmt::join(methods, ", "))},
          {"compared", fmt::format("{} results with the live model's: {}; largest difference {:.1e}", compared.cases,
                                   compared.sizes, compared.largest)},
          {"bytes", std::to_string(fs::file_size(file))}};
}

}  // namespace fovea::exports
