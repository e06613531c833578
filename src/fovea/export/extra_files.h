#pragma once

#include "fovea/tasks/translation/translation.h"
#include "fovea/export/script_module.h"
#include "fovea/export/torchscript.h"

namespace fovea::exports {

/// The extra files of a TorchScript file: see torchscript.h.
torch::jit::ExtraFilesMap extra_files(const Exportable& model);

/// The attributes that say how text becomes ids.
void add_text(ScriptModule& script, const translation::TranslationAssets& assets);

}  // namespace fovea::exports
