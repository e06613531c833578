#include "fovea/tasks/classification/attend.h"

#include <torch/torch.h>

#include <algorithm>

#include "fovea/core/error.h"
#include "fovea/core/suggest.h"
#include "fovea/tasks/attention.h"
#include "fovea/tasks/classification/assets.h"

namespace fovea::classification {
namespace {

struct AttendOptions : config::Section {
  std::string class_name;
  void fields(config::Fields& f) override {
    f("class", class_name, "the class that relevance is shown for; empty: the one that the model finds most likely");
  }
};

int64_t class_named(const std::string& name, const ClassificationAssets& assets) {
  const auto& names = assets.class_names();
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) fail_usage("--class: there is no class '{}'{}", name, did_you_mean(name, names));
  return found - names.begin();
}

std::vector<std::string> numbered(int64_t count) {
  std::vector<std::string> labels;
  for (int64_t i = 1; i <= count; ++i) labels.push_back(std::to_string(i));
  return labels;
}

std::vector<std::string> labels_of(const TokenGrid& grid) {
  std::vector<std::string> labels = grid.own;
  for (int64_t r = 1; r <= grid.rows; ++r) {
    for (int64_t c = 1; c <= grid.columns; ++c) labels.push_back(fmt::format("{},{}", r, c));
  }
  return labels;
}

// What was recorded of one example, in two kinds: layers over all tokens, and the pooling of their outputs.
struct Recorded {
  std::vector<at::Tensor> in_graph;  // (1, heads, tokens, tokens), what a logit has gradients of
  std::vector<at::Tensor> layers;    // (heads, tokens, tokens)
  std::vector<std::string> names;
  at::Tensor pooling;  // (1, 1, tokens), or undefined
  std::string pooling_name;

  Recorded(const nn::AttentionRecorder& recorder, int64_t tokens) {
    for (const auto& [name, weights] : recorder.records()) {
      if (weights.size(2) == tokens) {
        in_graph.push_back(weights);
        layers.push_back(weights[0].detach());
        names.push_back(name);
      } else {
        pooling = weights[0];
        pooling_name = name;
      }
    }
  }
  // How much the head reads of each token's output, (1, tokens).
  at::Tensor readout(const TokenGrid& grid) const {
    const int64_t tokens = layers.front().size(1);
    if (pooling.defined()) return pooling[0];
    if (grid.own.empty()) return at::full({1, tokens}, 1.0 / static_cast<double>(tokens), layers.front().options());
    const at::Tensor first = at::zeros({1, tokens}, layers.front().options());
    first.select(1, 0).fill_(1);
    return first;
  }
};

// Attention over the patches of one image.
void add_layers(std::vector<tasks::Report::Attention>& attentions, const nn::AttentionRecorder& recorder,
                const TokenGrid& grid, const at::Tensor& logit) {
  const auto labels = labels_of(grid);
  const Recorded recorded(recorder, static_cast<int64_t>(labels.size()));
  const auto add = [&](const std::string& name, const std::string& group, const at::Tensor& weights,
                       const std::vector<std::string>& queries) {
    auto& added = attentions.emplace_back(tasks::described(name, group, weights, queries, labels));
    added.grid_rows = grid.rows;
    added.grid_columns = grid.columns;
  };
  for (size_t i = 0; i < recorded.layers.size(); ++i) add(recorded.names[i], "image", recorded.layers[i], labels);
  const std::vector<std::string> head = {"prediction"};
  if (recorded.pooling.defined()) add(recorded.pooling_name, "pooling", recorded.pooling, head);
  const auto gradients = torch::autograd::grad({logit}, recorded.in_graph, {}, /*retain_graph=*/false,
                                               /*create_graph=*/false, /*allow_unused=*/true);
  const at::NoGradGuard no_grad;
  const at::Tensor readout = recorded.readout(grid);
  add("roll-out", "roll-out", readout.matmul(roll_out(recorded.layers)).unsqueeze(0), head);
  std::vector<at::Tensor> defined;
  for (size_t i = 0; i < gradients.size(); ++i) {
    defined.push_back(gradients[i].defined() ? gradients[i][0] : at::zeros_like(recorded.layers[i]));
  }
  at::Tensor relevant = readout.matmul(relevance(recorded.layers, defined));                    // (1, tokens)
  if (!grid.own.empty()) relevant.narrow(1, 0, static_cast<int64_t>(grid.own.size())).zero_();  // what it looked with
  const at::Tensor total = relevant.sum();
  if (total.item<double>() > 0) relevant = relevant / total;
  add("relevance", "relevance", relevant.unsqueeze(0), head);
}

// What a model makes of one example.
struct Explained {
  at::Tensor probabilities;          // (classes)
  int64_t predicted = 0, shown = 0;  // the likeliest class, and that of the relevance
  std::vector<tasks::Report::Attention> attentions;
};

// `shown`: the class that relevance is for; the likeliest where it is not given.
Explained explain(const train::LoadedRun& run, const data::Batch& example, const std::optional<int64_t>& shown) {
  const auto& model = tasks::contract_of<Classifier>(*run.module, "classification");
  data::Batch batch = example.to(run.device);
  const auto grid = model.token_grid();
  const at::AutoGradMode with_graph(grid.has_value());  // of the weights, for relevance
  for (auto& [name, tensor] : batch.tensors) tensor.requires_grad_(grid.has_value() && tensor.is_floating_point());
  nn::AttentionRecorder recorder(grid ? nn::AttentionRecorder::Keep::kGraph : nn::AttentionRecorder::Keep::kWeights);
  const at::Tensor logits = model.logits(batch, &recorder)[0];
  Explained explained{.probabilities = logits.detach().softmax(0).to(at::kCPU), .attentions = {}};
  explained.predicted = explained.probabilities.argmax().item<int64_t>();
  explained.shown = shown ? *shown : explained.predicted;
  if (grid && !recorder.records().empty()) {
    add_layers(explained.attentions, recorder, *grid, logits[explained.shown]);
  } else {
    for (const auto& [path, weights] : recorder.records()) {
      explained.attentions.push_back(
          tasks::described(path, "windows", weights[0], numbered(weights.size(2)), numbered(weights.size(3))));
    }
  }
  return explained;
}

}  // namespace

at::Tensor roll_out(const std::vector<at::Tensor>& layers) {
  at::Tensor flow = at::eye(layers.front().size(1), layers.front().options());
  const at::Tensor residual = flow / 2;
  for (const auto& weights : layers) flow = (weights.mean(0) / 2 + residual).matmul(flow);
  return flow;
}

at::Tensor relevance(const std::vector<at::Tensor>& layers, const std::vector<at::Tensor>& gradients) {
  at::Tensor flow = at::eye(layers.front().size(1), layers.front().options());
  for (size_t i = 0; i < layers.size(); ++i) flow = flow + (layers[i] * gradients[i]).clamp_min(0).mean(0).matmul(flow);
  return flow;
}

std::shared_ptr<config::Section> attend_options() {
  return std::make_shared<AttendOptions>();
}

tasks::Report attend(const train::LoadedRun& run, const tasks::AttendRequest& request) {
  const auto& options = dynamic_cast<const AttendOptions&>(*request.options);
  const auto& assets = dynamic_cast<const ClassificationAssets&>(*run.assets);
  const at::Tensor example = assets.read_example(tasks::only_input(request.inputs, "example"));
  std::optional<int64_t> chosen;
  if (!options.class_name.empty()) chosen = class_named(options.class_name, assets);
  Explained explained = explain(run, assets.make_batch({example}), chosen);
  tasks::check_recorded(explained.attentions, run.config.model.name);
  tasks::Report report;
  const auto name = [&](int64_t c) { return assets.class_names()[static_cast<size_t>(c)]; };
  const auto probability = [&](int64_t c) { return explained.probabilities[c].item<double>(); };
  report.facts = {{.key = "image", .value = request.inputs.front()},
                  {.key = "class", .value = name(explained.predicted)},
                  {.key = "probability", .value = probability(explained.predicted)}};
  if (explained.shown != explained.predicted) {
    report.facts.insert(
        report.facts.end(),
        {{.key = "shown_class", .value = name(explained.shown), .label = "relevance for"},
         {.key = "shown_probability", .value = probability(explained.shown), .label = "its probability"}});
  }
  report.attentions = std::move(explained.attentions);
  report.picture = assets.picture(example);
  return report;
}

namespace {

// The batch without what only training knows, one example of it.
data::Batch one_of(const data::Batch& batch, int64_t row) {
  data::Batch one;
  for (const auto& [name, tensor] : batch.tensors) one.tensors[name] = tensor.narrow(0, row, 1).clone();
  one.examples = one.items = 1;
  return one;
}

}  // namespace

tasks::Examples examples(const train::LoadedRun& run, const tasks::ExamplesRequest& request) {
  const auto& model = tasks::contract_of<Classifier>(*run.module, "classification");
  const auto& assets = dynamic_cast<const ClassificationAssets&>(*run.assets);
  const auto evaluated = tasks::load_part(run, {.part = request.part});
  const auto places = tasks::spread_over(evaluated.data->size(evaluated.part), request.examples);
  tasks::Examples found{.score_name = "probability of the label"};
  std::vector<data::Batch> batches;  // one for each example
  constexpr size_t kAtOnce = 128;
  for (size_t begin = 0; begin < places.size(); begin += kAtOnce) {
    const std::vector<int64_t> some(
        places.begin() + static_cast<std::ptrdiff_t>(begin),
        places.begin() + static_cast<std::ptrdiff_t>(std::min(places.size(), begin + kAtOnce)));
    const data::Batch batch = evaluated.data->batch(evaluated.part, 0, some);
    const at::NoGradGuard no_grad;
    const at::Tensor probabilities = model.logits(batch.to(run.device)).softmax(1).to(at::kCPU);
    const at::Tensor label = batch.tensor("label");
    for (size_t i = 0; i < some.size(); ++i) {
      const auto row = static_cast<int64_t>(i);
      const auto expected = label[row].item<int64_t>(), predicted = probabilities[row].argmax().item<int64_t>();
      const auto name = [&](int64_t c) { return assets.class_names()[static_cast<size_t>(c)]; };
      auto& example =
          found.examples.emplace_back(tasks::Report::Example{.input = fmt::format("{} {}", evaluated.name, some[i] + 1),
                                                             .expected = name(expected),
                                                             .predicted = name(predicted),
                                                             .score = probabilities[row][expected].item<double>()});
      batches.push_back(one_of(batch, row));
      const auto image = batch.tensors.find("image");
      if (image != batch.tensors.end()) example.picture = assets.picture(image->second[row]);
    }
  }
  for (const size_t i : tasks::worth_explaining(found.examples, request.explained)) {
    found.examples[i].attentions = explain(run, batches[i], std::nullopt).attentions;
  }
  return found;
}

}  // namespace fovea::classification
