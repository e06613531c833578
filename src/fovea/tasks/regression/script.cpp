#include "fovea/tasks/regression/script.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/torch.h>

#include <nlohmann/json.hpp>

#include "fovea/export/script_module.h"

namespace fovea::regression {
namespace {

namespace jit = torch::jit;

constexpr const char* kForward = R"(
def forward(self, x: Tensor) -> Tensor:
    fits = x.dim() == 2 and x.size(1) == self.num_features
    assert fits, "expected numbers of (batch, {}), got {}".format(self.num_features, x.size())
    y = self._predict(((x - self.feature_mean) / self.feature_std).to(self.feature_mean.dtype))  # half after .half()
    return y * self.target_std + self.target_mean
)";

data::Batch batch_of(const at::Tensor& x) {
  data::Batch batch;
  batch.tensors["x"] = x;
  batch.examples = batch.items = x.size(0);
  return batch;
}

}  // namespace

exports::ScriptRecipe script_recipe(const Regressor& model, const TableAssets& assets) {
  const RegressionSpec& spec = assets.spec();
  const nlohmann::ordered_json facts = {{"num_features", spec.num_features}, {"num_targets", spec.num_targets}};
  return {.kind = "regression",
          .build =
              [&](exports::ScriptModule& script) {
                script.trace(
                    "_predict", {"x"}, {at::zeros({2, spec.num_features})},
                    [&](const jit::Stack& in) -> jit::IValue { return model.predict(batch_of(in[0].toTensor())); });
                script.add("num_features", spec.num_features);
                script.add("num_targets", spec.num_targets);
                script.add_buffer("feature_mean", assets.feature_means().to(at::kFloat));
                script.add_buffer("feature_std", assets.feature_stddevs().to(at::kFloat));
                script.add_buffer("target_mean", assets.target_means().to(at::kFloat));
                script.add_buffer("target_std", assets.target_stddevs().to(at::kFloat));
                script.define(kForward);
              },
          .compare =
              [&](const jit::Module& loaded, const auto& say) {
                exports::Comparing comparing;
                auto generator = at::make_generator<at::CPUGeneratorImpl>(11);
                jit::Module module = loaded;
                for (const int64_t rows : {1, 3, 37}) {
                  say(fmt::format("comparing batches of {}", rows));
                  comparing.run(fmt::format("batch {}", rows), [&] {
                    const at::Tensor x = at::randn({rows, spec.num_features}, generator, at::kFloat);
                    const at::Tensor in_units = (x * assets.feature_stddevs() + assets.feature_means()).to(at::kFloat);
                    comparing.same("predictions", module.forward({in_units}).toTensor(),
                                   assets.targets_in_units(model.predict(batch_of(x))));
                  });
                }
                comparing.result.sizes = "batches of 1, 3 and 37";
                return comparing.result;
              },
          .facts_json = facts.dump()};
}

}  // namespace fovea::regression
