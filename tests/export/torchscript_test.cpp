#include "fovea/export/torchscript.h"

#include <torch/script.h>

#include <nlohmann/json.hpp>

#include "fovea/config/dump.h"
#include "fovea/decode/seq2seq.h"
#include "fovea/nn/random.h"
#include "fovea/tasks/translation/assets.h"
#include "tests/export/tiny_image_model.h"
#include "tests/numeric.h"
#include "tests/tiny_experiment.h"

using namespace fovea;
using fovea_tests::max_difference;
using Fault = TinyImageNetImpl::Fault;

namespace {

void quiet(const std::string&) {}

struct LoadedScript {
  torch::jit::Module module;
  torch::jit::ExtraFilesMap files;
};

LoadedScript load(const std::filesystem::path& path, const std::vector<std::string>& names) {
  LoadedScript exported;
  for (const auto& name : names) exported.files[name] = "";
  exported.module = torch::jit::load(path.string(), at::kCPU, exported.files);
  return exported;
}

exports::Exportable tiny_image(TinyImageModel& model, const classification::ImageAssets& assets) {
  return {model, assets, "tiny", "seed: 1\n", "step-7"};
}

exports::ScriptRecipe recipe(const train::Module& model, const data::DataAssets& assets) {
  return models::registry().task_of(assets.spec()).script(model, assets);
}

std::vector<std::string> names_in(const std::filesystem::path& dir) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(dir)) names.push_back(entry.path().filename().string());
  return names;
}

}  // namespace

TEST_CASE("C37: an exported Transformer is the live one at any size, lengths of 0 too") {
  TinyExperiment experiment(60, {"model.num_blks=2"});
  const auto config = experiment.config();
  const auto data = config.make_data();
  const auto model = config.make_model(data->spec());
  TempDir dir;
  exports::export_torchscript({*model, *data->assets(), "transformer", config::dump(config), "step-1"},
                              recipe(*model, *data->assets()), dir / "m.pt", quiet);
  auto [module, files] = load(dir / "m.pt", {});
  model->network().eval();
  const at::NoGradGuard no_grad;
  const decode::Seq2Seq& live = *model->as<decode::Seq2Seq>();
  for (const int64_t batch : {1, 2, 5}) {
    for (const int64_t steps : {1, 9, 37}) {
      INFO(batch << " x " << steps);
      const at::Tensor source = at::randint(10, {batch, steps}, at::kLong);
      const at::Tensor target = at::randint(10, {batch, steps + 3}, at::kLong);
      std::vector<int64_t> lengths(static_cast<size_t>(batch), steps);
      lengths.back() = 0;
      const auto layout = nn::SequenceLayout::padded(lengths, steps);
      const auto target_layout = nn::SequenceLayout::full(target);
      const at::Tensor expected = live.forward(source, layout, target, target_layout);
      CHECK(max_difference(module.forward({source, target, layout.lengths()}).toTensor(), expected) < 1e-5);
      // Step by step gives what teacher forcing does.
      auto state = module.run_method("encode", source, layout.lengths(), steps + 3).toTensorVector();
      for (int64_t t = 0; t < steps + 3; ++t) {
        const auto step = module.run_method("decode_step", target.select(1, t), state, t).toTuple();
        CHECK(max_difference(step->elements()[0].toTensor(), expected.select(1, t)) < 1e-5);
        state = step->elements()[1].toTensorVector();
      }
    }
  }
}

TEST_CASE("what cannot be asked of an exported translator is said in words") {
  TinyExperiment experiment(60, {"model.max_len=12"});
  const auto config = experiment.config();
  const auto data = config.make_data();
  const auto model = config.make_model(data->spec());
  TempDir dir;
  exports::export_torchscript({*model, *data->assets(), "transformer", "", "step-1"}, recipe(*model, *data->assets()),
                              dir / "m.pt", quiet);
  auto [module, files] = load(dir / "m.pt", {});
  auto refused = [&, m = module](int64_t steps, const std::vector<int64_t>& lens, int64_t beam,
                                 const c10::IValue& max_len) mutable {
    return error_of([&] {
      m.run_method("generate", at::full({2, steps}, 5, at::kLong), at::tensor(lens, at::kLong), beam, 0.75, max_len);
    });
  };
  CHECK(refused(12, {12, 0}, 2, int64_t{12}) == "");
  CHECK_THAT(refused(13, {1, 1}, 1, {}), ContainsSubstring("sources of at most 12 steps, got 13"));
  CHECK_THAT(refused(4, {5, 1}, 1, {}), ContainsSubstring("valid_lens from 0 to 4"));
  CHECK_THAT(refused(4, {-1, 1}, 1, {}), ContainsSubstring("valid_lens from 0 to 4"));
  CHECK_THAT(refused(4, {1}, 1, {}), ContainsSubstring("expected 2 valid_lens"));
  CHECK_THAT(refused(4, {1, 1}, 0, {}), ContainsSubstring("1 <= n_best <= beam"));
  CHECK_THAT(refused(4, {1, 1}, 1, int64_t{13}), ContainsSubstring("max_len from 1 to 12, got 13"));
  CHECK_THAT(refused(4, {1, 1}, 1, int64_t{0}), ContainsSubstring("max_len from 1 to 12, got 0"));
}

TEST_CASE("the file says what it is and brings its vocabularies") {
  TinyExperiment experiment(60);
  const auto config = experiment.config();
  const auto data = config.make_data();
  const auto model = config.make_model(data->spec());
  const auto assets = std::dynamic_pointer_cast<const translation::TranslationAssets>(data->assets());
  TempDir dir;
  const std::string yaml = config::dump(config);
  exports::export_torchscript({*model, *assets, "transformer", yaml, "step-40"}, recipe(*model, *assets), dir / "m.pt",
                              quiet);
  const auto [module, files] =
      load(dir / "m.pt", {"config.yaml", "model.json", "source_tokens.txt", "target_tokens.txt"});
  CHECK(files.at("config.yaml") == yaml);
  const auto about = nlohmann::json::parse(files.at("model.json"));
  CHECK(about["kind"] == "translation");
  CHECK(about["checkpoint"] == "step-40");
  CHECK(about["target"]["eos"] == assets->target().eos());
  std::string tokens;
  for (int64_t i = 0; i < assets->source().size(); ++i) tokens += assets->source().token(i) + "\n";
  CHECK(files.at("source_tokens.txt") == tokens);
  CHECK(module.attr("num_steps").toInt() == 8);
  CHECK(module.attr("eos").toInt() == assets->target().eos());
  CHECK(module.attr("lowercase").toBool());
  CHECK(module.attr("source_reserved").toListRef().size() == 4);

  // The names of the parameters are the network's, the sinusoids come along, and nothing asks for gradients.
  std::map<std::string, at::Tensor> exported;
  for (const auto& item : module.named_parameters()) exported[item.name] = item.value;
  const auto own = train::named_parameters(model->network());
  REQUIRE(exported.size() == own.size());
  for (const auto& [name, tensor] : own) {
    INFO(name);
    CHECK(at::equal(exported.at(name), tensor));
    CHECK_FALSE(exported.at(name).requires_grad());
    CHECK(tensor.requires_grad());
  }
  bool has_sinusoids = false;
  for (const auto& item : module.named_buffers()) has_sinusoids |= item.name == "encoder.pos_encoding.P";
  CHECK(has_sinusoids);
}

TEST_CASE("C11, C36: exporting right after a training step changes nothing, and training goes on") {
  TinyExperiment experiment(60);
  const auto config = experiment.config();
  const auto data = config.make_data();
  const auto model = config.make_model(data->spec());
  const data::Batch batch = data->batch(data::Part::kTrain, 0, {0, 1, 2});
  // One part stays in evaluation mode, as when it is frozen.
  const auto frozen = model->network().children()[0];
  frozen->eval();
  const auto step = [&] {
    const nn::RandomScope scope(1, 1);
    model->network().zero_grad();
    const at::Tensor loss = model->training_step(batch, 0)[0].sum;
    loss.backward();
    return loss.item<double>();
  };
  const double before = step();
  TempDir dir;
  const exports::Exportable exportable{*model, *data->assets(), "transformer", "", "step-1"};
  exports::export_torchscript(exportable, recipe(*model, *data->assets()), dir / "a.pt", quiet);
  CHECK(model->network().is_training());
  CHECK_FALSE(frozen->is_training());
  CHECK(model->network().children()[1]->is_training());
  CHECK(step() == before);
  exports::export_torchscript(exportable, recipe(*model, *data->assets()), dir / "b.pt", quiet);

  auto a = load(dir / "a.pt", {}).module, b = load(dir / "b.pt", {}).module;
  const auto& source = batch.tensor("source");
  const auto lens = batch.layout("source").lengths();
  const auto out = a.forward({source, batch.tensor("target"), lens}).toTensor();
  CHECK(at::equal(out, b.forward({source, batch.tensor("target"), lens}).toTensor()));
  CHECK(at::equal(out, a.forward({source, batch.tensor("target"), lens}).toTensor()));
  CHECK(names_in(dir.path()).size() == 2);  // nothing else is left
}

TEST_CASE("an image classifier takes images of any size, as bytes and as floats") {
  TinyImageModel model;
  const classification::ImageAssets assets = tiny_image_assets();
  TempDir dir;
  exports::export_torchscript(tiny_image(model, assets), recipe(model, assets), dir / "m.pt", quiet);
  auto [module, files] = load(dir / "m.pt", {"class_names.txt", "model.json"});
  CHECK(files.at("class_names.txt") == "boot\nété\nsac à main\n");
  CHECK(nlohmann::json::parse(files.at("model.json"))["mean"] == std::vector<double>{0.25, 0.5});
  CHECK(module.attr("class_names").toListRef()[1].toStringRef() == "été");

  model.network().eval();
  const at::NoGradGuard no_grad;
  const at::Tensor bytes = at::randint(256, {4, 2, 9, 7}, at::kByte);
  const at::Tensor mean = at::tensor({0.25f, 0.5f}).view({2, 1, 1}), std = at::tensor({0.5f, 0.125f}).view({2, 1, 1});
  const at::Tensor expected = model.net->forward((bytes.to(at::kFloat) / 255 - mean) / std);
  CHECK(max_difference(module.forward({bytes}).toTensor(), expected) < 1e-5);
  CHECK(max_difference(module.forward({bytes.to(at::kFloat) / 255}).toTensor(), expected) < 1e-5);
  // A flat image stays flat, whatever its size.
  const at::Tensor flat = at::full({1, 2, 40, 3}, 100, at::kByte);
  const at::Tensor small = module.run_method("preprocess", flat).toTensor();
  CHECK(small.sizes() == at::IntArrayRef({1, 2, 9, 7}));
  CHECK(max_difference(small, ((100.0 / 255 - mean) / std).expand({1, 2, 9, 7})) < 1e-5);
  CHECK_THAT(error_of([&] {
               auto m = module;
               m.forward({at::zeros({1, 3, 9, 7})});
             }),
             ContainsSubstring("expected images of (batch, 2, height, width)"));
  CHECK_THAT(error_of([&] {
               auto m = module;
               m.forward({at::zeros({1, 2, 9, 7}, at::kLong)});
             }),
             ContainsSubstring("bytes from 0 to 255 or floats"));

  // Both names of a tied weight are there, and they are one.
  const auto dense = module.attr("dense").toModule().attr("weight").toTensor();
  CHECK(dense.data_ptr() == module.attr("tied").toModule().attr("weight2").toTensor().data_ptr());
}

TEST_CASE("what would be wrong elsewhere is refused, and no file is left") {
  const classification::ImageAssets assets = tiny_image_assets();
  const auto refused = [&](Fault fault) {
    TinyImageModel model(fault);
    TempDir dir;
    const std::string error = error_of(
        [&] { exports::export_torchscript(tiny_image(model, assets), recipe(model, assets), dir / "m.pt", quiet); });
    CHECK(names_in(dir.path()).size() == (error.empty() ? 1 : 0));
    CHECK(model.network().is_training());
    return error;
  };
  CHECK(refused(Fault::kNone) == "");
  CHECK_THAT(refused(Fault::kFrozenNumber),
             ContainsSubstring("batch 1, 9 x 7 bytes: the logits of the exported model differ"));
  CHECK_THAT(
      refused(Fault::kFrozenShape),
      ContainsSubstring("batch 1, 9 x 7 bytes: the exported model gives logits of [2, 3], the model itself of [1, 3]"));
  CHECK_THAT(refused(Fault::kOwnOp), ContainsSubstring("fovea::flash_attention"));
}
