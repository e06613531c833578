#include "fovea/nn/transformer.h"

#include "fovea/config/dump.h"
#include "fovea/config/read.h"
#include "fovea/core/error.h"
#include "fovea/export/torchscript.h"
#include "fovea/nn/random.h"
#include "fovea/train/optimizer.h"
#include "models/transformer.h"
#include "tests/models/golden_steps.h"
#include "tests/numeric.h"
#include "tests/test.h"
#include "tests/tiny_experiment.h"

using namespace fovea;
using namespace fovea::nn;
using fovea_tests::Golden;
using fovea_tests::GoldenCase;
using fovea_tests::max_difference;

namespace {

TransformerBlockOptions block_options(const GoldenCase& c) {
  return {.num_hiddens = c.integer("num_hiddens"),
          .ffn_num_hiddens = c.integer("ffn_num_hiddens"),
          .num_heads = c.integer("num_heads"),
          .dropout = 0,
          .use_bias = c.boolean("use_bias")};
}

SequenceLayout layout_of(const at::Tensor& lens, int64_t steps) {
  return SequenceLayout::padded(
      std::vector<int64_t>(lens.const_data_ptr<int64_t>(), lens.const_data_ptr<int64_t>() + lens.numel()), steps);
}

// Runs an encoder-like layer on padded and on packed input and holds both against the golden values.
template <typename Layer, typename Forward>
void check_layouts(const GoldenCase& c, Layer& layer, const SequenceLayout& layout, Forward forward) {
  for (const bool packed : {false, true}) {
    INFO("packed " << packed);
    layer->zero_grad();
    at::Tensor y =
        packed ? layout.pad(forward(layout.pack(c.input("X")), layout.as_packed())) : forward(c.input("X"), layout);
    CHECK(max_difference(layout.zero_padding(y), layout.zero_padding(c.output("output"))) < 1e-5);
    (y * c.input("upstream")).sum().backward();
    CHECK(c.gradient_difference(*layer) < 1e-4);
  }
}

struct WholeTransformer {
  GoldenCase golden = Golden("transformer").at("translator");
  models::TransformerConfig config;
  data::Batch batch;

  WholeTransformer() {
    config.net = {
        .num_blks = golden.integer("num_blks"), .block = block_options(golden), .max_len = golden.integer("max_len")};
    const at::Tensor label = golden.input("label");
    const at::Tensor label_lens = label.ne(golden.integer("pad")).sum(1);
    batch.tensors = {{"source", golden.input("src")}, {"target", golden.input("tgt")}, {"label", label}};
    batch.layouts.emplace("source", layout_of(golden.input("src_valid_len"), 7));
    batch.layouts.emplace("target", layout_of(label_lens, 5));
  }

  translation::TranslationSpec spec() const {
    translation::TranslationSpec spec;
    spec.source_vocab_size = golden.integer("src_vocab_size");
    spec.target_vocab_size = golden.integer("tgt_vocab_size");
    spec.num_steps = 7;
    spec.target = {.pad = golden.integer("pad"), .bos = golden.integer("bos"), .eos = golden.integer("eos")};
    return spec;
  }

  models::Transformer make(LayoutKind layout) {
    config.layout = layout;
    models::Transformer model(config, spec());
    golden.load_parameters(model.network());
    return model;
  }
};

}  // namespace

TEST_CASE("position-wise network and residual norm equal d2l's") {
  const auto f = Golden("position_wise_ffn").at("ffn");
  PositionWiseFFN ffn(f.integer("num_hiddens"), f.integer("ffn_num_hiddens"), f.integer("num_hiddens"));
  f.load_parameters(*ffn);
  const at::Tensor y = ffn->forward(f.input("X"));
  CHECK(max_difference(y, f.output("output")) < 1e-5);
  (y * f.input("upstream")).sum().backward();
  CHECK(f.gradient_difference(*ffn) < 1e-4);

  const auto a = Golden("add_norm").at("add_norm");
  AddNorm norm(a.integer("num_hiddens"), 0.0);
  a.load_parameters(*norm);
  const at::Tensor z = norm->forward(a.input("X"), a.input("Y"), SequenceLayout::full(3, 7));
  CHECK(max_difference(z, a.output("output")) < 1e-5);
  (z * a.input("upstream")).sum().backward();
  CHECK(a.gradient_difference(*norm) < 1e-4);
}

TEST_CASE("the encoder block equals d2l's, padded and packed") {
  const Golden golden("transformer_encoder_block");
  for (const auto& name : golden.cases()) {
    INFO(name);
    const auto c = golden.at(name);
    TransformerEncoderBlock block(block_options(c));
    c.load_parameters(*block);
    check_layouts(c, block, layout_of(c.input("valid_lens"), 7), [&](const at::Tensor& x, const SequenceLayout& l) {
      return block->forward(x, AttentionMask::self(l));
    });
  }
}

TEST_CASE("the encoder equals d2l's, padded and packed") {
  const auto c = Golden("transformer_encoder").at("encoder");
  TransformerEncoder encoder(TransformerOptions{.vocab_size = c.integer("vocab_size"),
                                                .num_blks = c.integer("num_blks"),
                                                .block = block_options(c),
                                                .max_len = c.integer("max_len")});
  c.load_parameters(*encoder);
  const auto layout = layout_of(c.input("valid_lens"), 7);
  check_layouts(c, encoder, layout,
                [&](const at::Tensor& x, const SequenceLayout& l) { return encoder->forward(x, l); });

  assign_paths(*encoder);
  AttentionRecorder recorder;
  encoder->forward(c.input("X"), layout, &recorder);
  REQUIRE(recorder.records().size() == 2);
  for (size_t i = 0; i < 2; ++i) {
    CHECK(recorder.records()[i].name == "blks.block" + std::to_string(i) + ".attention");
    // Rows of padding hold what nothing depends on.
    const at::Tensor rows = layout.valid().unsqueeze(1).unsqueeze(-1);
    CHECK(max_difference(recorder.records()[i].weights * rows,
                         c.output("attention_weights." + std::to_string(i)) * rows) < 1e-5);
  }
}

TEST_CASE("the decoder block equals the twin's") {
  const auto c = Golden("transformer_decoder_block").at("decoder_block");
  TransformerDecoderBlock block(block_options(c));
  c.load_parameters(*block);
  const auto encoded = layout_of(c.input("enc_valid_lens"), 7);
  const auto layout = SequenceLayout::full(3, 5);
  AttentionRecorder recorder;
  const at::Tensor y = block->forward(c.input("X"), AttentionMask::self(layout, true), c.input("enc_outputs"),
                                      AttentionMask::cross(layout, encoded), &recorder);
  CHECK(max_difference(y, c.output("output")) < 1e-5);
  CHECK(max_difference(recorder.records()[0].weights, c.output("attention_weights.self")) < 1e-5);
  CHECK(max_difference(recorder.records()[1].weights, c.output("attention_weights.cross")) < 1e-5);
  (y * c.input("upstream")).sum().backward();
  CHECK(c.gradient_difference(*block) < 1e-4);
}

TEST_CASE("the whole model equals the twin: logits, loss, gradients, ten Adam steps") {
  WholeTransformer whole;
  const auto& c = whole.golden;
  for (const LayoutKind layout : {LayoutKind::kPadded, LayoutKind::kPacked}) {
    INFO(name_of(layout));
    auto model = whole.make(layout);
    const auto& source_layout = whole.batch.layout("source");
    const auto& target_layout = whole.batch.layout("target");
    const at::Tensor logits = model.translator()->forward(whole.batch.tensor("source"), source_layout,
                                                          whole.batch.tensor("target"), target_layout);
    CHECK(max_difference(target_layout.pack(logits), target_layout.pack(c.output("output"))) < 1e-5);

    check_golden_steps(c, model, whole.batch, 10, 0.001);
  }
}

TEST_CASE("C10: the divisor is the number of valid targets, however much padding there is") {
  WholeTransformer whole;
  for (const LayoutKind layout : {LayoutKind::kPadded, LayoutKind::kPacked}) {
    whole.config.label_smoothing = 0.1;
    auto model = whole.make(layout);
    const double loss = loss_of(model.training_step(whole.batch, 0));
    data::Batch wide = whole.batch;
    for (auto& [name, tensor] : wide.tensors) tensor = at::constant_pad_nd(tensor, {0, 20}, 3);
    wide.layouts.clear();
    for (const char* side : {"source", "target"}) {
      wide.layouts.emplace(
          side, SequenceLayout::padded(whole.batch.layout(side).host_lengths(), whole.batch.layout(side).steps() + 20));
    }
    CHECK(loss_of(model.training_step(wide, 0)) == Approx(loss).epsilon(1e-6));

    data::Batch empty = whole.batch;
    empty.layouts.at("target") = SequenceLayout::padded({0, 0, 0}, 5);
    const train::LossTerms none = model.training_step(empty, 0);
    CHECK(none[0].count == 0);
    CHECK(none[0].sum.item<double>() == 0.0);
    none[0].sum.backward();
    for (const auto& [name, p] : train::named_parameters(model.network())) {
      if (p.grad().defined()) CHECK(at::isfinite(p.grad()).all().item<bool>());
    }
  }
}

TEST_CASE("padded and packed training agree with dropout on") {
  WholeTransformer whole;
  whole.config.net.block.dropout = 0.3;
  const RandomScope scope(3, 4);
  auto padded = whole.make(LayoutKind::kPadded), packed = whole.make(LayoutKind::kPacked);
  const auto a = padded.training_step(whole.batch, 0), b = packed.training_step(whole.batch, 0);
  CHECK(a[0].sum.item<double>() == Approx(b[0].sum.item<double>()).epsilon(1e-5));
  a[0].sum.backward();
  b[0].sum.backward();
  const auto pa = train::named_parameters(padded.network()), pb = train::named_parameters(packed.network());
  for (size_t i = 0; i < pa.size(); ++i) CHECK(max_difference(pa[i].second.grad(), pb[i].second.grad()) < 1e-4);
}

TEST_CASE("the decoder never looks ahead, in evaluation either") {
  WholeTransformer whole;
  auto model = whole.make(LayoutKind::kPadded);
  for (const bool training : {true, false}) {
    model.network().train(training);
    const auto run = [&](const at::Tensor& target) {
      return model.translator()->forward(whole.batch.tensor("source"), whole.batch.layout("source"), target,
                                         SequenceLayout::full(3, 5));
    };
    at::Tensor target = whole.batch.tensor("target").clone();
    const at::Tensor before = run(target);
    target.select(1, 3).fill_(5);
    const at::Tensor after = run(target);
    CHECK(at::equal(before.narrow(1, 0, 3), after.narrow(1, 0, 3)));
    CHECK_FALSE(at::equal(before[0][3], after[0][3]));
  }
}

TEST_CASE("C23: cached decoding equals one teacher-forced pass, after a reorder too") {
  WholeTransformer whole;
  auto model = whole.make(LayoutKind::kPacked);
  model.network().eval();
  const at::NoGradGuard no_grad;
  const auto& layout = whole.batch.layout("source");
  const at::Tensor tokens = at::randint(19, {3, 6}, at::kLong);
  const at::Tensor order = at::tensor({2, 0, 0}, at::kLong);
  at::Tensor seen = tokens;
  at::Tensor source = whole.batch.tensor("source");
  auto source_layout = layout;
  auto state = model.encode(source, layout, 6);
  for (int64_t t = 0; t < 6; ++t) {
    if (t == 3) {
      state = state.select(order);
      seen = seen.index_select(0, order);
      source = source.index_select(0, order);
      source_layout = layout_of(layout.lengths().index_select(0, order), 7);
    }
    auto [logits, next] = model.decode_step(seen.select(1, t), std::move(state));
    state = std::move(next);
    const at::Tensor forced =
        model.translator()->forward(source, source_layout, seen.narrow(1, 0, t + 1), SequenceLayout::full(3, t + 1));
    CHECK(max_difference(logits, forced.select(1, t)) < 1e-5);
  }
  CHECK(state.next_position() == 6);
}

TEST_CASE("every scheme of positions: padded is packed, and cached decoding is teacher forcing") {
  for (const Positions positions : {Positions::kSinusoidal, Positions::kLearned, Positions::kNone, Positions::kRotary,
                                    Positions::kAlibi, Positions::kT5}) {
    WholeTransformer whole;
    INFO(name_of(positions));
    whole.config.net.positions = positions;
    whole.config.net.block.dropout = 0.3;
    std::vector<models::Transformer> two;
    for (const LayoutKind layout : {LayoutKind::kPadded, LayoutKind::kPacked}) {
      torch::manual_seed(1);
      whole.config.layout = layout;
      two.emplace_back(whole.config, whole.spec());
    }
    std::vector<double> losses;
    for (auto& model : two) {
      const RandomScope scope(3, 4);
      const auto terms = model.training_step(whole.batch, 0);
      terms[0].sum.backward();
      losses.push_back(terms[0].sum.item<double>());
    }
    CHECK(losses[0] == Approx(losses[1]).epsilon(1e-5));
    const auto pa = train::named_parameters(two[0].network()), pb = train::named_parameters(two[1].network());
    for (size_t i = 0; i < pa.size(); ++i) CHECK(max_difference(pa[i].second.grad(), pb[i].second.grad()) < 1e-4);

    auto& model = two[1];
    model.network().eval();
    const at::NoGradGuard no_grad;
    const at::Tensor& source = whole.batch.tensor("source");
    const auto& layout = whole.batch.layout("source");
    const at::Tensor tokens = at::randint(19, {3, 6}, at::kLong);
    const at::Tensor forced = model.forward(source, layout, tokens, SequenceLayout::full(tokens));
    auto state = model.encode(source, layout, 6);
    for (int64_t t = 0; t < 6; ++t) {
      auto [logits, next] = model.decode_step(tokens.select(1, t), std::move(state));
      state = std::move(next);
      CHECK(max_difference(logits, forced.select(1, t)) < 1e-5);
    }
    // With positions the order of the source matters, without it does not: attention sees a set.
    const at::Tensor reversed = source.flip(1);
    const auto whole_rows = SequenceLayout::full(source);
    const double moved = max_difference(model.forward(source, whole_rows, tokens, SequenceLayout::full(tokens)),
                                        model.forward(reversed, whole_rows, tokens, SequenceLayout::full(tokens)));
    if (positions == Positions::kNone) CHECK(moved < 1e-5);
    // ALiBi looks both ways alike, and so sees an order and its mirror image alike in the encoder.
    if (positions != Positions::kNone && positions != Positions::kAlibi) CHECK(moved > 1e-4);
  }
}

TEST_CASE("every scheme of positions is exported, and compared with the live model") {
  for (const char* positions : {"learned", "none", "rotary", "alibi", "t5"}) {
    INFO(positions);
    TinyExperiment experiment(60, {"model.positions=" + std::string(positions), "model.num_heads=2"});
    const auto config = experiment.config();
    const auto data = config.make_data();
    const auto model = config.make_model(data->spec());
    TempDir dir;
    const auto assets = data->assets();
    const tasks::Registry registry = models::registry();
    CHECK_NOTHROW(exports::export_torchscript({*model, *assets, "transformer", config::dump(config), "step-1"},
                                              registry.task_of(data->spec()).script(*model, *assets), dir / "m.pt",
                                              [](const std::string&) {}));
  }
}

TEST_CASE("settings of version 0.1 read as they did, and rotary positions need pairs") {
  models::TransformerConfig config;
  config::read(config, config::parse_yaml("num_hiddens: 24\nffn_num_hiddens: 20\nnum_heads: 3\nnum_blks: 1\n"
                                          "dropout: 0.1\nuse_bias: true\nmax_len: 30\npositions: learned\n"
                                          "layout: padded\nattention: plain\nlabel_smoothing: 0.2\n",
                                          "old"));
  CHECK(config.net.block.num_hiddens == 24);
  CHECK(config.net.block.attention == AttentionPath::kPlain);
  CHECK(config.net.positions == Positions::kLearned);
  CHECK(config.layout == LayoutKind::kPadded);
  CHECK(config::dump(models::TransformerConfig()) ==
        "num_hiddens: 256\nffn_num_hiddens: 64\nnum_heads: 4\nnum_blks: 2\ndropout: 0.2\nuse_bias: false\n"
        "max_len: 1000\npositions: sinusoidal\nlayout: packed\nattention: flash\nlabel_smoothing: 0\n");
  CHECK_THROWS_WITH(config::read(config, config::parse_yaml("positions: rotary\nnum_heads: 8", "new")),
                    ContainsSubstring("new:1: positions: rotary turns pairs") && ContainsSubstring("got 3"));
}

TEST_CASE("recorded weights of the whole network are named by their paths") {
  WholeTransformer whole;
  auto model = whole.make(LayoutKind::kPadded);
  AttentionRecorder recorder;
  model.translator()->forward(whole.batch.tensor("source"), whole.batch.layout("source"), whole.batch.tensor("target"),
                              whole.batch.layout("target"), &recorder);
  std::vector<std::string> names;
  for (const auto& record : recorder.records()) names.push_back(record.name);
  CHECK(names == std::vector<std::string>{"encoder.blks.block0.attention", "encoder.blks.block1.attention",
                                          "decoder.blks.block0.attention1", "decoder.blks.block0.attention2",
                                          "decoder.blks.block1.attention1", "decoder.blks.block1.attention2"});
}

TEST_CASE("the trained twin's greedy tokens come out step by step") {
  WholeTransformer whole;
  auto model = whole.make(LayoutKind::kPadded);
  whole.golden.load_parameters(model.network(), "trained");
  model.network().eval();
  const at::NoGradGuard no_grad;
  auto state = model.encode(whole.batch.tensor("source"), whole.batch.layout("source"), 6);
  at::Tensor token = at::full({3}, whole.golden.integer("bos"), at::kLong);
  const at::Tensor expected = whole.golden.get("greedy.tokens");
  for (int64_t t = 0; t < 6; ++t) {
    auto [logits, next] = model.decode_step(token, std::move(state));
    state = std::move(next);
    token = logits.argmax(1);
    CHECK(at::equal(token, expected.select(1, t)));
  }
}

TEST_CASE("C24: a position table too short for the data is refused, naming both") {
  WholeTransformer whole;
  whole.config.net.max_len = 6;
  CHECK_THROWS_WITH(models::Transformer(whole.config, whole.spec()),
                    ContainsSubstring("6 positions") && ContainsSubstring("up to 7 tokens"));
}
