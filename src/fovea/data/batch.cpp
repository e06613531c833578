#include "fovea/data/batch.h"

#include <ATen/ATen.h>

#include "fovea/core/error.h"

namespace fovea::data {
namespace {

template <typename Map>
const typename Map::mapped_type& find(const Map& map, const std::string& name, const char* what) {
  const auto found = map.find(name);
  if (found != map.end()) return found->second;
  std::string names;
  for (const auto& [key, value] : map) names += (names.empty() ? "" : ", ") + key;
  fail("batch: there is no {} '{}', only: {}", what, name, names.empty() ? "none" : names);
}

}  // namespace

const at::Tensor& Batch::tensor(const std::string& name) const {
  return find(tensors, name, "tensor");
}

const nn::SequenceLayout& Batch::layout(const std::string& name) const {
  return find(layouts, name, "layout");
}

Batch Batch::to(at::Device device) const {
  Batch moved = *this;
  for (auto& [name, tensor] : moved.tensors) tensor = tensor.to(device);
  for (auto& [name, layout] : moved.layouts) layout = layout.to(device);
  return moved;
}

}  // namespace fovea::data
