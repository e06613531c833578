#include "models/seq2seq.h"

#include "fovea/decode/search.h"
#include "fovea/export/torchscript.h"
#include "tests/models/golden_steps.h"
#include "tests/numeric.h"
#include "tests/tiny_experiment.h"

using namespace fovea;
using fovea_tests::Golden;
using fovea_tests::GoldenCase;
using fovea_tests::max_difference;

namespace {

nn::SequenceLayout lengths_of_rows(const at::Tensor& lens, int64_t steps) {
  return nn::SequenceLayout::padded(
      std::vector<int64_t>(lens.const_data_ptr<int64_t>(), lens.const_data_ptr<int64_t>() + lens.numel()), steps);
}

struct WholeSeq2Seq {
  GoldenCase golden;
  models::Seq2SeqConfig config;
  translation::TranslationSpec spec;
  data::Batch batch;

  explicit WholeSeq2Seq(const std::string& name) : golden(Golden("seq2seq").at(name)) {
    config.net = {.embed_size = golden.integer("embed_size"),
                  .num_hiddens = golden.integer("num_hiddens"),
                  .num_layers = golden.integer("num_layers"),
                  .dropout = 0};
    config.context = enum_from_name<models::SourceContext>(name);
    spec.source_vocab_size = golden.integer("src_vocab_size");
    spec.target_vocab_size = golden.integer("tgt_vocab_size");
    spec.num_steps = 7;
    spec.target = {.pad = golden.integer("pad"), .bos = golden.integer("bos"), .eos = golden.integer("eos")};
    const at::Tensor label = golden.input("label");
    batch.tensors = {{"source", golden.input("src")}, {"target", golden.input("tgt")}, {"label", label}};
    batch.layouts.emplace("source", lengths_of_rows(golden.input("src_valid_len"), 7));
    batch.layouts.emplace("target", lengths_of_rows(label.ne(spec.target.pad).sum(1), 5));
  }

  models::Seq2Seq make(nn::LayoutKind layout, const std::string& group = "param") {
    config.layout = layout;
    models::Seq2Seq model(config, spec);
    golden.load_parameters(model.network(), group);
    return model;
  }
};

}  // namespace

TEST_CASE("the recurrent encoder equals d2l's Seq2SeqEncoder") {
  const auto c = Golden("seq2seq_encoder").at("encoder");
  nn::Seq2SeqEncoder encoder(nn::Seq2SeqOptions{.vocab_size = c.integer("vocab_size"),
                                                .embed_size = c.integer("embed_size"),
                                                .num_hiddens = c.integer("num_hiddens"),
                                                .num_layers = c.integer("num_layers"),
                                                .dropout = 0},
                             /*bidirectional=*/false);
  c.load_parameters(*encoder);
  const at::Tensor tokens = c.input("X");
  const auto out = encoder->forward(tokens, nn::SequenceLayout::full(tokens));
  CHECK(max_difference(out.y, c.output("output")) < 1e-5);
  for (size_t layer = 0; layer < 2; ++layer) {
    CHECK(max_difference(out.state[layer], c.output("state." + std::to_string(layer))) < 1e-5);
  }
  (out.y * c.input("upstream")).sum().backward();
  CHECK(c.gradient_difference(*encoder) < 1e-4);
}

TEST_CASE("whole recurrent translators equal their twins: logits, gradients, ten steps") {
  for (const char* name : {"each_step", "attention"}) {
    for (const auto layout : {nn::LayoutKind::kPacked, nn::LayoutKind::kPadded}) {
      INFO(name << " " << name_of(layout));
      WholeSeq2Seq whole(name);
      models::Seq2Seq model = whole.make(layout);
      const translation::TranslationBatch b(whole.batch);
      const at::Tensor logits = model.forward(b.source, b.source_layout, b.target, b.target_layout);
      CHECK(max_difference(b.target_layout.zero_padding(logits),
                           b.target_layout.zero_padding(whole.golden.output("output"))) < 1e-5);
      check_golden_steps(whole.golden, model, whole.batch, b.target_layout.total(), 0.001);
    }
  }
}

TEST_CASE("alignments equal the twin's, and rows sum to 1 over the words of the source") {
  WholeSeq2Seq whole("attention");
  models::Seq2Seq model = whole.make(nn::LayoutKind::kPadded);
  const translation::TranslationBatch b(whole.batch);
  const at::NoGradGuard no_grad;
  nn::AttentionRecorder recorder;
  model.forward(b.source, b.source_layout, b.target, b.target_layout, &recorder);
  REQUIRE(recorder.records().size() == 1);
  CHECK(recorder.records()[0].name == "decoder.attention");
  const at::Tensor weights = recorder.records()[0].weights, expected = whole.golden.output("attention_weights");
  const auto of_valid = [&](const at::Tensor& w) { return b.target_layout.zero_padding(w.squeeze(1)); };
  CHECK(max_difference(of_valid(weights), of_valid(expected)) < 1e-5);
  CHECK(max_difference(weights.sum(-1), at::ones({3, 1, 5})) < 1e-6);
}

TEST_CASE("greedy decoding says what the twin says, and beam search what stepping says") {
  for (const char* name : {"each_step", "attention"}) {
    INFO(name);
    WholeSeq2Seq whole(name);
    models::Seq2Seq model = whole.make(nn::LayoutKind::kPadded, "trained");
    model.network().eval();
    const at::NoGradGuard no_grad;
    const translation::TranslationBatch b(whole.batch);
    auto state = model.encode(b.source, b.source_layout, 6);
    at::Tensor token = at::full({3}, whole.spec.target.bos, at::kLong);
    const at::Tensor expected = whole.golden.get("greedy.tokens");
    for (int64_t t = 0; t < 6; ++t) {
      auto [logits, next] = model.decode_step(token, std::move(state));
      token = logits.argmax(1);
      CHECK(at::equal(token, expected.select(1, t)));
      state = std::move(next);
    }
  }
}

TEST_CASE("every kind of recurrent translator learns, resumes bit for bit, and is exported as it is") {
  for (const std::vector<std::string>& settings :
       std::vector<std::vector<std::string>>{{"model.context=attention", "model.bidirectional=true"},
                                             {"model.context=each_step", "model.cell=lstm"},
                                             {"model.context=initial", "model.num_layers=1"},
                                             {"model.context=attention", "model.cell=lstm"},
                                             {"model.encoder=convolutional", "model.conv_layers=2"},
                                             {"model.encoder=convolutional", "model.context=each_step"}}) {
    INFO(settings[0] << " " << settings[1]);
    std::vector<std::string> all = {"model.name=seq2seq", "model.embed_size=16", "model.num_hiddens=16",
                                    "model.dropout=0.1"};
    all.insert(all.end(), settings.begin(), settings.end());
    TinyExperiment experiment(tiny_translation(), 120, all);
    std::string yaml = read_bytes(experiment.dir / "tiny.yaml");
    yaml.erase(yaml.find("model:"), yaml.find("data:") - yaml.find("model:"));
    write_bytes(experiment.dir / "tiny.yaml", yaml);
    experiment.train("whole", {"train.max_epochs=2"});
    experiment.train("half", {"train.max_epochs=1"});
    experiment.train("half", {"train.max_epochs=2"}, /*resume=*/true);
    CHECK(experiment.final_weights("whole") == experiment.final_weights("half"));

    const train::LoadedRun run = train::load_run(models::registry(), experiment.dir / "whole");
    const tasks::Registry registry = models::registry();
    const auto recipe = registry.task_of(run.assets->spec()).script(*run.module, *run.assets);
    const exports::Exportable exportable{*run.module, *run.assets, "seq2seq", "", "last"};
    CHECK_NOTHROW(
        exports::export_torchscript(exportable, recipe, experiment.dir / "model.pt", [](const std::string&) {}));
  }
}
