#include "fovea/export/import_weights.h"

#include "fovea/nn/positional_encoding.h"
#include "fovea/train/module.h"
#include "tests/temp_dir.h"
#include "tests/test.h"

using namespace fovea;

namespace {

struct Net : torch::nn::Module {
  Net() {
    dense = register_module("dense", torch::nn::Linear(3, 2));
    tied = register_module("tied", torch::nn::Linear(3, 2));
    tied->weight = tied->register_parameter("same", dense->weight);
    pos = register_module("pos", nn::PositionalEncoding(nn::PositionalEncodingOptions{.num_hiddens = 4, .max_len = 5}));
  }
  torch::nn::Linear dense{nullptr}, tied{nullptr};
  nn::PositionalEncoding pos{nullptr};
};

// All the weights the network wants: dense.weight, dense.bias, tied.weight, tied.bias, and dense.weight as tied.same.
exports::ForeignWeights good() {
  exports::ForeignWeights weights;
  Net net;
  for (const auto& [name, tensor] : train::persistent_tensors(net)) weights.tensors[name] = at::randn(tensor.sizes());
  return weights;
}

std::string refusal(const exports::ForeignWeights& weights, const std::string& map = "") {
  Net net;
  const at::Tensor before = net.dense->bias.detach().clone();
  const std::string error =
      error_of([&] { exports::import_weights(net, weights, train::NameMap::parse(map, "map"), "w.pt"); });
  if (!error.empty()) CHECK(at::equal(net.dense->bias, before));
  return error;
}

}  // namespace

TEST_CASE("weights come in by name, tied ones under any of theirs") {
  Net net;
  exports::ForeignWeights weights = good();
  CHECK(exports::import_weights(net, weights, {}, "w.pt").empty());
  for (const auto& [name, tensor] : train::persistent_tensors(net)) CHECK(at::equal(tensor, weights.tensors.at(name)));
  const auto node = weights.tensors.extract("dense.weight");
  weights.tensors["tied.same"] = at::ones({2, 3});
  exports::import_weights(net, weights, {}, "w.pt");
  CHECK(at::equal(net.dense->weight, at::ones({2, 3})));
  weights.tensors["dense.weight"] = at::ones({2, 3});
  CHECK(refusal(weights) == "");
  weights.tensors["dense.weight"] = at::zeros({2, 3});
  CHECK_THAT(refusal(weights), ContainsSubstring("dense.weight and tied.same: both are dense.weight, with different"));
}

TEST_CASE("what does not fit is listed, all of it, with the names that were probably meant") {
  exports::ForeignWeights weights = good();
  weights.tensors["dense.wieght"] = weights.tensors.at("dense.weight");
  weights.tensors.erase("dense.weight");
  weights.tensors["dense.bias"] = at::zeros({3});
  weights.tensors["tied.bias"] = at::full({2}, NAN);
  weights.tensors["step"] = at::zeros({}, at::kLong);
  const std::string error = refusal(weights);
  CHECK_THAT(error, ContainsSubstring("w.pt: the weights do not fit this model:"));
  CHECK_THAT(error, ContainsSubstring("dense.weight: missing, expected [2, 3]; did you mean 'dense.wieght'?"));
  CHECK_THAT(error, ContainsSubstring("dense.wieght: [2, 3], not part of this model; did you mean 'dense.weight'?"));
  CHECK_THAT(error, ContainsSubstring("dense.bias: found [3], expected [2]"));
  CHECK_THAT(error, ContainsSubstring("tied.bias: not all of its numbers are finite"));
  CHECK_THAT(error, ContainsSubstring("step: [], not part of this model"));
  CHECK_THAT(error, ContainsSubstring("--map"));
  weights = good();
  weights.tensors["dense.bias"] = at::zeros({2}, at::kInt);
  CHECK_THAT(refusal(weights), ContainsSubstring("dense.bias: found numbers of Int, expected Float"));
}

TEST_CASE("dtypes are converted, computed buffers ignored, names mapped; each with a notice") {
  Net net;
  exports::ForeignWeights weights = good();
  exports::ForeignWeights foreign;
  for (const auto& [name, tensor] : weights.tensors) foreign.tensors["net." + name] = tensor.to(at::kDouble);
  foreign.tensors["net.pos.P"] = at::zeros({1, 5, 4});
  foreign.tensors["epoch"] = at::zeros({1});
  const auto notices =
      exports::import_weights(net, foreign, train::NameMap::parse("net.* = *\nepoch = -\nnothing = x", "map"), "w.pt");
  for (const auto& [name, tensor] : train::persistent_tensors(net)) CHECK(at::equal(tensor, weights.tensors.at(name)));
  std::string all;
  for (const auto& notice : notices) all += notice + "\n";
  CHECK_THAT(all, ContainsSubstring("epoch: left out"));
  CHECK_THAT(all, ContainsSubstring("net.pos.P: not used, it is computed"));
  CHECK_THAT(all, ContainsSubstring("4 of 4 tensors were Double and are Float now"));
  CHECK_THAT(all, ContainsSubstring("'nothing = x' matched nothing"));
  CHECK_THAT(refusal(foreign, "net.* = *"), ContainsSubstring("epoch: [1], not part of this model"));
}
