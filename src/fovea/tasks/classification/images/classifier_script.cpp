#include "fovea/tasks/classification/images/classifier_script.h"

#include <torch/torch.h>

namespace fovea::classification {
namespace {

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
    if image.size(2) != self.height or image.size(3) != self.width:
        if is_bytes:
            x = self._resize_bytes(image)
        else:
            x = torch._upsample_bilinear2d_aa(x, [self.height, self.width], False, None, None)
    if is_bytes:
        x = x / 255
    return (x - self.input_mean) / self.input_std

def forward(self, image: Tensor) -> Tensor:
    return self._logits(self.preprocess(image))
)";

}  // namespace

at::Tensor by_channel(const std::vector<double>& values) {
  return at::tensor(values, at::kFloat).view({-1, 1, 1});
}

void add_classifier(exports::ScriptModule& script, Classifier& model, const ImageInput& input) {
  const ImageSpec& spec = input.spec;
  script.trace("_logits", {"image"}, {at::zeros({2, spec.channels, spec.height, spec.width})},
               [&](const torch::jit::Stack& in) -> torch::jit::IValue { return model.logits(in[0].toTensor()); });
  script.add("channels", spec.channels);
  script.add("height", spec.height);
  script.add("width", spec.width);
  script.add("class_names", input.class_names);
  script.add_buffer("input_mean", by_channel(input.mean));
  script.add_buffer("input_std", by_channel(input.std));
  script.define(kMethods);
}

}  // namespace fovea::classification
