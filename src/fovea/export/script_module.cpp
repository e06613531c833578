#include "fovea/export/script_module.h"

#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/torch.h>

#include <cctype>
#include <map>

namespace fovea::exports {
namespace {

namespace jit = torch::jit;

// "fovea::nn::MultiHeadAttentionImpl" -> "MultiHeadAttention"
std::string class_name(const torch::nn::Module& module) {
  std::string name = module.name();
  name = name.substr(name.rfind(':') + 1);
  if (name.ends_with("Impl")) name.resize(name.size() - 4);
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return name;
}

bool has_tensors(const torch::nn::Module& module) {
  return !module.parameters().empty() || !module.buffers().empty();
}

jit::Module mirror(const torch::nn::Module& module, const std::shared_ptr<jit::CompilationUnit>& unit) {
  jit::Module copy(c10::QualifiedName("__torch__.fovea." + class_name(module)), unit, /*shouldMangle=*/true);
  copy.register_attribute("training", c10::BoolType::get(), false);
  for (const auto& item : module.named_parameters(/*recurse=*/false)) {
    copy.register_parameter(item.key(), item.value(), /*is_buffer=*/false);
  }
  for (const auto& item : module.named_buffers(/*recurse=*/false)) copy.register_buffer(item.key(), item.value());
  for (const auto& item : module.named_children()) {
    if (has_tensors(*item.value())) copy.register_module(item.key(), mirror(*item.value(), unit));
  }
  return copy;
}

// A leaf of its own for each parameter, but one for all names of a tied one.
void detach(const jit::Module& module, std::map<const void*, at::Tensor>& detached) {
  for (const auto& item : module.named_attributes(/*recurse=*/false)) {
    if (!item.value.isTensor()) continue;
    const at::Tensor tensor = item.value.toTensor();
    at::Tensor& copy = detached[tensor.unsafeGetTensorImpl()];
    if (!copy.defined()) copy = tensor.detach();
    module._ivalue()->setAttr(item.name, copy);
  }
  for (const auto& child : module.children()) detach(child, detached);
}

}  // namespace

ScriptModule::ScriptModule(const torch::nn::Module& network)
    : module_(mirror(network, std::make_shared<jit::CompilationUnit>())) {}

void ScriptModule::trace(const std::string& method, const std::vector<std::string>& arguments, jit::Stack example,
                         const Function& function) {
  // Not strict: lists of tensors may be inputs and outputs, which is safe since their lengths do not vary.
  const auto traced = jit::tracer::trace(
      std::move(example), [&](const jit::Stack& inputs) -> jit::Stack { return {function(inputs)}; },
      [](const at::Tensor&) { return std::string(); }, /*strict=*/false, /*force_outplace=*/false, &module_, arguments);
  const auto name = c10::QualifiedName(*module_.type()->name(), method);
  module_.type()->addMethod(module_._ivalue()->compilation_unit()->create_function(name, traced.first->graph));
}

void ScriptModule::add(const std::string& name, int64_t value) {
  module_.register_attribute(name, c10::IntType::get(), value);
}

void ScriptModule::add(const std::string& name, bool value) {
  module_.register_attribute(name, c10::BoolType::get(), value);
}

void ScriptModule::add(const std::string& name, const std::string& value) {
  module_.register_attribute(name, c10::StringType::get(), value);
}

void ScriptModule::add(const std::string& name, const std::vector<std::string>& value) {
  module_.register_attribute(name, c10::ListType::ofStrings(), value);
}

torch::jit::Module ScriptModule::finish() {
  std::map<const void*, at::Tensor> detached;
  detach(module_, detached);
  return module_;
}

}  // namespace fovea::exports
