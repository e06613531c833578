#include "fovea/plot/attention_figure.h"

#include <torch/torch.h>

#include "fovea/plot/gnuplot.h"
#include "fovea/tasks/attention.h"
#include "fovea/tasks/classification/attend.h"
#include "tests/test.h"

using namespace fovea;

namespace {

tasks::Report example() {
  const std::vector<std::string> source = {"say", "\"a\\b\"", "<eos>"};
  tasks::Report report;
  report.attentions.push_back(tasks::described("encoder.a", "encoder", at::full({2, 3, 3}, 1.0 / 3), source, source));
  report.attentions.push_back(tasks::described("decoder.a", "cross", at::full({2, 1, 3}, 1.0 / 3), {"<eos>"}, source));
  report.attentions.push_back(tasks::described("decoder.b", "cross", at::full({2, 1, 3}, 1.0 / 3), {"<eos>"}, source));
  return report;
}

size_t panels(const plot::Picture& figure) {
  size_t count = 0;
  for (size_t at = figure.script.find("plot $p"); at != std::string::npos; at = figure.script.find("plot $p", at + 1)) {
    ++count;
  }
  return count;
}

}  // namespace

TEST_CASE("a figure has a panel for each head, and names tokens and layers") {
  const plot::Picture figure = plot::attention_figure(example());
  CHECK(panels(figure) == 6);
  CHECK_THAT(figure.script, ContainsSubstring(R"('"a\b"' 1)"));
  CHECK_THAT(figure.script, ContainsSubstring("'cross 2: decoder.b'"));
  CHECK_THAT(figure.script, ContainsSubstring("'head 2'"));
}

TEST_CASE("a figure of one group, layer or head") {
  CHECK(panels(plot::attention_figure(example(), {.group = "cross"})) == 4);
  CHECK(panels(plot::attention_figure(example(), {.layer = 2})) == 2);
  CHECK(panels(plot::attention_figure(example(), {.group = "cross", .layer = 2, .head = 1})) == 1);
  CHECK_THROWS_WITH(plot::attention_figure(example(), {.group = "crss"}),
                    ContainsSubstring("there are cross (2 of them), encoder (1 of them)"));
  CHECK_THROWS_WITH(plot::attention_figure(example(), {.head = 3}), ContainsSubstring("there are 2 heads, got 3"));
}

TEST_CASE("colours of weights get darker and no two are alike") {
  const auto light = [](uint32_t c) { return (c >> 16) * 0.30 + (c >> 8 & 255) * 0.59 + (c & 255) * 0.11; };
  CHECK(plot::weight_colour(0) == 0xFFFFFF);
  for (int i = 1; i <= 20; ++i)
    CHECK(light(plot::weight_colour(i / 20.0)) < light(plot::weight_colour((i - 1) / 20.0)));
}

TEST_CASE("weights of another size than their labels are refused") {
  CHECK_THROWS_WITH(tasks::described("x", "encoder", at::ones({1, 2, 3}), {"a"}, {"a", "b", "c"}),
                    ContainsSubstring("expected (heads, 1, 3), got [1, 2, 3]"));
}

TEST_CASE("roll-out is what a network of these attentions and residuals passes on") {
  torch::manual_seed(1);
  std::vector<at::Tensor> layers;
  for (int i = 0; i < 3; ++i) layers.push_back(at::randn({2, 5, 5}, at::kDouble).softmax(-1));
  const at::Tensor flow = classification::roll_out(layers);
  CHECK(at::allclose(flow.sum(1), at::ones({5}, at::kDouble)));
  // The network itself: each layer gives half of what it had and half of what its heads read, on the average.
  at::Tensor x = at::randn({5, 4}, at::kDouble);
  const at::Tensor input = x;
  for (const auto& weights : layers) x = (x + weights.mean(0).matmul(x)) / 2;
  CHECK(at::allclose(flow.matmul(input), x));
}

TEST_CASE("relevance leaves out weights whose gradient is not above 0") {
  torch::manual_seed(2);
  const std::vector<at::Tensor> layers = {at::randn({2, 4, 4}, at::kDouble).softmax(-1),
                                          at::randn({2, 4, 4}, at::kDouble).softmax(-1)};
  const std::vector<at::Tensor> none = {-at::ones({2, 4, 4}, at::kDouble), at::zeros({2, 4, 4}, at::kDouble)};
  CHECK(at::equal(classification::relevance(layers, none), at::eye(4, at::kDouble)));
  // One head, gradients of 1: the weights themselves, along both layers.
  const std::vector<at::Tensor> one = {layers[0].narrow(0, 0, 1), layers[1].narrow(0, 0, 1)};
  const std::vector<at::Tensor> ones = {at::ones({1, 4, 4}, at::kDouble), at::ones({1, 4, 4}, at::kDouble)};
  const at::Tensor eye = at::eye(4, at::kDouble);
  CHECK(at::allclose(classification::relevance(one, ones), (eye + one[1][0]).matmul(eye + one[0][0])));
}
