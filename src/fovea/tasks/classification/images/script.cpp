#include "fovea/tasks/classification/images/script.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/torch.h>

#include <nlohmann/json.hpp>

#include "fovea/core/error.h"
#include "fovea/export/script_module.h"

namespace fovea::classification {
namespace {

namespace jit = torch::jit;

constexpr const char* kMethods = R"(
def _triangles(self, before: int, after: int, like: Tensor) -> Tensor:
    # Pillow's weights (after, before), whole numbers with 22 bits after the point.
    float64 = 7  # dtypes have numbers here
    scale = before / after
    centres = (torch.arange(after, dtype=float64, device=like.device) + 0.5) * scale
    places = torch.arange(before, dtype=float64, device=like.device) + 0.5
    weights = (1.0 - (places.unsqueeze(0) - centres.unsqueeze(1)).abs() / max(scale, 1.0)).clamp(min=0.0)
    return (weights / weights.sum(1, keepdim=True) * 4194304.0 + 0.5).floor()

def _round(self, x: Tensor) -> Tensor:
    return ((x + 2097152.0) / 4194304.0).floor().clamp(0.0, 255.0)

def _resize_bytes(self, image: Tensor) -> Tensor:
    # Products and sums of whole numbers, which doubles hold exactly: to the bit what Pillow gives.
    float64, float32 = 7, 6
    x = image.to(float64)
    down = self._triangles(image.size(2), self.height, x)  # (height, rows)
    across = self._triangles(image.size(3), self.width, x).t()  # (columns, width)
    lost_rows, lost_columns = image.size(2) - self.height, image.size(3) - self.width
    if lost_rows > 0 and lost_rows > 2 * lost_columns:  # Pillow's order where the height loses much more
        x = self._round(torch.matmul(self._round(torch.matmul(down, x)), across))
    else:
        x = self._round(torch.matmul(down, self._round(torch.matmul(x, across))))
    return x.to(float32)

def preprocess(self, image: Tensor) -> Tensor:
    uint8, float32 = 0, 6
    fits = image.dim() == 4 and image.size(1) == self.channels
    assert fits, "expected images of (batch, {}, height, width), got {}".format(self.channels, image.size())
    is_bytes = image.dtype == uint8
    assert is_bytes or image.is_floating_point(), "expected bytes from 0 to 255 or floats from 0 to 1"
    x = image.to(float32)
    if not is_bytes and image.numel() > 0:
        low, high = float(x.amin()), float(x.amax())
        in_range = low >= -0.001 and high <= 1.001  # resizing by others may overshoot a little; NaN is in no range
        message = "expected floats from 0 to 1 (bytes / 255, not normalised), found floats from {} to {}"
        assert in_range, message.format(low, high)
    if image.size(2) != self.height or image.size(3) != self.width:
        if is_bytes:
            x = self._resize_bytes(image)
        else:
            x = torch._upsample_bilinear2d_aa(x, [self.height, self.width], False, None, None)
    if is_bytes:
        x = x / 255
    return ((x - self.input_mean) / self.input_std).to(self.input_mean.dtype)  # half after .half()

def forward(self, image: Tensor) -> Tensor:
    return self._logits(self.preprocess(image))
)";

// Numbers of the channels as (channels, 1, 1), to go with images.
at::Tensor by_channel(const std::vector<double>& values) {
  return at::tensor(values, at::kFloat).view({-1, 1, 1});
}

data::Batch image_batch(const at::Tensor& image) {
  data::Batch batch;
  batch.tensors["image"] = image;
  batch.examples = batch.items = image.size(0);
  return batch;
}

void add_classifier(exports::ScriptModule& script, const Classifier& model, const ImageAssets& assets) {
  const ImageSpec& spec = assets.spec();
  script.trace(
      "_logits", {"image"}, {at::zeros({2, spec.channels, spec.height, spec.width})},
      [&](const torch::jit::Stack& in) -> torch::jit::IValue { return model.logits(image_batch(in[0].toTensor())); });
  script.add("channels", spec.channels);
  script.add("height", spec.height);
  script.add("width", spec.width);
  script.add("class_names", assets.class_names());
  script.add_buffer("input_mean", by_channel(assets.mean()));
  script.add_buffer("input_std", by_channel(assets.stddev()));
  script.define(kMethods);
}

exports::Comparison compare_classifier(const jit::Module& loaded, const Classifier& live, const ImageAssets& assets,
                                       const std::function<void(const std::string&)>& say) {
  const ImageSpec& spec = assets.spec();
  jit::Module module = loaded;
  const at::Tensor mean = by_channel(assets.mean()), std = by_channel(assets.stddev());
  auto generator = at::make_generator<at::CPUGeneratorImpl>(11);
  const std::vector<std::pair<int64_t, int64_t>> sizes = {{spec.height, spec.width},
                                                          {2 * spec.height + 1, 3 * spec.width},
                                                          {std::max<int64_t>(1, spec.height / 2), spec.width + 5}};
  exports::Comparing comparing;
  std::string words;
  for (const int64_t batch : {1, 3}) {
    for (const auto& size : sizes) {
      const int64_t height = size.first, width = size.second;  // not a binding, which Clang 14 lets no lambda see
      say(fmt::format("comparing batches of {}, {} x {} pixels", batch, height, width));
      if (batch == 1) words += fmt::format("{}{} x {}", words.empty() ? "" : ", ", height, width);
      const at::Tensor bytes = at::randint(256, {batch, spec.channels, height, width}, generator, at::kByte);
      for (const bool is_bytes : {true, false}) {
        comparing.run(fmt::format("batch {}, {} x {} {}", batch, height, width, is_bytes ? "bytes" : "floats"), [&] {
          const at::Tensor image = is_bytes ? bytes : bytes.to(at::kFloat) / 255;
          const at::Tensor seen = module.run_method("preprocess", image).toTensor();
          if (is_bytes) {
            std::vector<at::Tensor> expected;
            for (const auto& one : image.unbind(0)) expected.push_back(assets.preprocess(one));
            comparing.same("pixels", seen, at::stack(expected));
          } else {
            at::Tensor expected = image;
            if (height != spec.height || width != spec.width) {
              expected = at::_upsample_bilinear2d_aa(expected, {spec.height, spec.width}, /*align_corners=*/false);
            }
            comparing.same("pixels", seen, (expected - mean) / std);
          }
          comparing.same("logits", module.forward({image}).toTensor(), live.logits(image_batch(seen)));
        });
      }
    }
  }
  comparing.result.sizes = "batches of 1 and 3, images of " + words;
  return comparing.result;
}

}  // namespace

exports::ScriptRecipe script_recipe(const Classifier& model, const ImageAssets& assets) {
  const nlohmann::ordered_json facts = {{"channels", assets.channels()},
                                        {"height", assets.height()},
                                        {"width", assets.width()},
                                        {"mean", assets.mean()},
                                        {"std", assets.stddev()}};
  std::string names;
  for (const auto& name : assets.class_names()) names += name + "\n";
  return {.kind = "image classification",
          .build = [&](exports::ScriptModule& script) { add_classifier(script, model, assets); },
          .compare = [&](const jit::Module& loaded,
                         const auto& say) { return compare_classifier(loaded, model, assets, say); },
          .facts_json = facts.dump(),
          .files = {{"class_names.txt", names}}};
}

}  // namespace fovea::classification
