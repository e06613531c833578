#include "fovea/train/weight_average.h"

#include <torch/torch.h>

#include "tests/test.h"

using namespace fovea;

TEST_CASE("the average follows the parameters with min(decay, (1 + step) / (10 + step))") {
  torch::nn::Linear network(3, 2);
  const at::NoGradGuard no_grad;
  train::WeightAverage average(*network, 0.5);
  at::Tensor expected = network->weight.detach().clone().to(at::kDouble);
  for (int64_t step = 0; step < 20; ++step) {
    network->weight.add_(0.1 * static_cast<double>(step + 1));
    average.update(step);
    const double decay = std::min(0.5, (1.0 + static_cast<double>(step)) / (10.0 + static_cast<double>(step)));
    expected = decay * expected + (1 - decay) * network->weight.to(at::kDouble);
  }
  const train::WeightAverage::Scope scope(average);
  CHECK(at::allclose(network->weight.to(at::kDouble), expected, 1e-5, 1e-6));
}

TEST_CASE("within a scope the network has the averages, after it the parameters bit for bit, and trains on") {
  torch::nn::Linear network(3, 2);
  at::Tensor handle = network->weight;  // as an optimizer holds it
  train::WeightAverage average(*network, 0.9);
  const at::Tensor first = network->weight.detach().clone();
  {
    const at::NoGradGuard no_grad;
    network->weight.add_(1);
  }
  const at::Tensor now = network->weight.detach().clone();
  {
    const train::WeightAverage::Scope scope(average);
    CHECK(at::equal(network->weight, first));
    CHECK(at::equal(handle, first));
    CHECK(at::allclose(network->forward(at::ones({1, 3})), at::linear(at::ones({1, 3}), first, network->bias)));
  }
  CHECK(at::equal(handle, now));
  network->forward(at::ones({1, 3})).sum().backward();
  REQUIRE(handle.grad().defined());
  {
    const at::NoGradGuard no_grad;
    handle.sub_(handle.grad());
  }
  CHECK(at::equal(network->weight, now - 1));
  average.update(1000);
  const train::WeightAverage::Scope scope(average);
  CHECK(at::allclose(network->weight, 0.9 * first + 0.1 * (now - 1)));
}

TEST_CASE("what is written within a scope goes to the averages") {
  torch::nn::Linear network(3, 2);
  train::WeightAverage average(*network, 0.9);
  const at::Tensor weight = network->weight.detach().clone();
  const at::NoGradGuard no_grad;
  {
    const train::WeightAverage::Scope scope(average);
    network->weight.fill_(7);
  }
  CHECK(at::equal(network->weight, weight));
  const train::WeightAverage::Scope scope(average);
  CHECK(at::equal(network->weight, at::full({2, 3}, 7.0f)));
}
