#include "fovea/export/classifier_script.h"

#include <torch/torch.h>

namespace fovea {
namespace {

constexpr const char* kMethods = R"(
def preprocess(self, image: Tensor) -> Tensor:
    uint8, float32 = 0, 6  # dtypes by number
    fits = image.dim() == 4 and image.size(1) == self.channels
    assert fits, "expected images of (batch, {}, height, width), got {}".format(self.channels, image.size())
    is_bytes = image.dtype == uint8
    assert is_bytes or image.is_floating_point(), "expected bytes from 0 to 255 or floats from 0 to 1"
    x = image.to(float32)
    if image.size(2) != self.height or image.size(3) != self.width:
        # As Pillow does: down before across where the height loses much more.
        lost_rows, lost_columns = image.size(2) - self.height, image.size(3) - self.width
        between = [image.size(2), self.width]
        if lost_rows > 0 and lost_rows > 2 * lost_columns:
            between = [self.height, image.size(3)]
        for size in [between, [self.height, self.width]]:
            x = torch._upsample_bilinear2d_aa(x, size, False, None, None)
            if is_bytes:
                x = (x + 0.5).floor().clamp(0, 255)
    if is_bytes:
        x = x / 255
    return (x - self.input_mean) / self.input_std

def forward(self, image: Tensor) -> Tensor:
    return self._logits(self.preprocess(image))
)";

}  // namespace

void add_classifier(ScriptModule& script, decode::Classifier& model, const ImageInput& input) {
  const ImageSpec& spec = input.spec;
  script.trace("_logits", {"image"}, {at::zeros({2, spec.channels, spec.height, spec.width})},
               [&](const torch::jit::Stack& in) -> torch::jit::IValue { return model.logits(in[0].toTensor()); });
  script.add("channels", spec.channels);
  script.add("height", spec.height);
  script.add("width", spec.width);
  script.add("class_names", input.class_names);
  const auto by_channel = [](const std::vector<double>& values) {
    return at::tensor(values, at::kFloat).view({-1, 1, 1});  // (channels, 1, 1)
  };
  script.add_buffer("input_mean", by_channel(input.mean));
  script.add_buffer("input_std", by_channel(input.std));
  script.define(kMethods);
}

}  // namespace fovea
