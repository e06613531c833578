#include "models/vit.h"

#include "fovea/config/read.h"
#include "fovea/core/error.h"
#include "fovea/nn/random.h"
#include "fovea/train/optimizer.h"
#include "tests/models/golden_steps.h"
#include "tests/numeric.h"
#include "tests/test.h"

using namespace fovea;
using namespace fovea::nn;
using fovea_tests::finite_difference_error;
using fovea_tests::Golden;
using fovea_tests::GoldenCase;
using fovea_tests::max_difference;

namespace {

PatchEmbeddingOptions patch_options(const GoldenCase& c) {
  return {.channels = c.integer("num_channels"),
          .image_height = c.integer("img_height"),
          .image_width = c.integer("img_width"),
          .patch_height = c.integer("patch_height"),
          .patch_width = c.integer("patch_width"),
          .num_hiddens = c.integer("num_hiddens")};
}

at::Tensor logits_of(const models::ViT& model, const at::Tensor& image, AttentionRecorder* recorder = nullptr) {
  data::Batch batch;
  batch.tensors["image"] = image;
  return model.logits(batch, recorder);
}

// The golden ViT as a model that trains.
struct WholeViT {
  GoldenCase golden = Golden("vit").at("vit");
  models::ViTConfig config;
  data::Batch batch;

  WholeViT() {
    config.net.image.patch_height = golden.integer("patch_height");
    config.net.image.patch_width = golden.integer("patch_width");
    config.net.num_blks = golden.integer("num_blks");
    config.net.block = {.num_hiddens = golden.integer("num_hiddens"),
                        .mlp_num_hiddens = golden.integer("mlp_num_hiddens"),
                        .num_heads = golden.integer("num_heads"),
                        .dropout = 0,
                        .use_bias = golden.boolean("use_bias")};
    config.net.emb_dropout = 0;
    batch.tensors = {{"image", golden.input("image")}, {"label", golden.input("label")}};
    batch.examples = batch.items = golden.input("label").size(0);
  }

  classification::ImageSpec spec() const {
    return {golden.integer("num_channels"), golden.integer("img_height"), golden.integer("img_width"),
            golden.integer("num_classes")};
  }

  models::ViT make() const {
    models::ViT model(config, spec());
    golden.load_parameters(model.network());
    return model;
  }
};

models::ViTConfig tiny_config() {
  models::ViTConfig config;
  config.net.image.patch_height = 2;
  config.net.num_blks = 2;
  config.net.block = {.num_hiddens = 6, .mlp_num_hiddens = 8, .num_heads = 2};
  return config;
}

const classification::ImageSpec kTinySpec(1, 4, 6, 3);

}  // namespace

TEST_CASE("patches go row by row, pixels too: a case done by hand") {
  // Two patches of 2 x 2 side by side, and a kernel that reads 1, 10, 100, 1000 times their pixels.
  PatchEmbedding embedding(PatchEmbeddingOptions{
      .channels = 1, .image_height = 2, .image_width = 4, .patch_height = 2, .patch_width = 2, .num_hiddens = 1});
  const at::NoGradGuard no_grad;
  auto parameters = embedding->named_parameters();
  REQUIRE(parameters["conv.weight"].sizes() == at::IntArrayRef({1, 1, 2, 2}));
  parameters["conv.weight"].copy_(at::tensor({1.f, 10.f, 100.f, 1000.f}).view({1, 1, 2, 2}));
  parameters["conv.bias"].fill_(0.5);
  const at::Tensor image = at::tensor({1.f, 2.f, 3.f, 4.f,  //
                                       5.f, 6.f, 7.f, 8.f})
                               .view({1, 1, 2, 4});
  const at::Tensor expected = at::tensor({6521.5f, 8743.5f}).view({1, 2, 1});
  CHECK(at::equal(embedding->forward(image), expected));
}

TEST_CASE("patch embedding equals d2l's, oblong and with channels too") {
  const Golden golden("patch_embedding");
  REQUIRE(golden.cases().size() == 2);
  for (const auto& name : golden.cases()) {
    INFO(name);
    const auto c = golden.at(name);
    PatchEmbedding embedding(patch_options(c));
    c.load_parameters(*embedding);
    const at::Tensor x = c.input("X").requires_grad_();
    const at::Tensor y = embedding->forward(x);
    CHECK(y.size(1) == embedding->num_patches());
    CHECK(max_difference(y, c.output("output")) < 1e-5);
    (y * c.input("upstream")).sum().backward();
    CHECK(c.gradient_difference(*embedding) < 1e-4);
    CHECK(max_difference(x.grad(), c.get("grad_input.X")) < 1e-4);
  }
}

TEST_CASE("the block equals d2l's, with lengths and without, flash and plain, whole and the first token alone") {
  const Golden golden("vit_block");
  REQUIRE(golden.cases().size() == 4);
  for (const auto& name : golden.cases()) {
    const auto c = golden.at(name);
    const AttentionMask mask = AttentionMask::from_valid_lens(c.optional_input("valid_lens"), 3, 7, 7);
    for (const auto path : {AttentionPath::kFlash, AttentionPath::kPlain}) {
      INFO(name << (path == AttentionPath::kFlash ? " flash" : " plain"));
      ViTBlock block(ViTBlockOptions{.num_hiddens = c.integer("num_hiddens"),
                                     .mlp_num_hiddens = c.integer("mlp_num_hiddens"),
                                     .num_heads = c.integer("num_heads"),
                                     .dropout = 0,
                                     .use_bias = c.boolean("use_bias"),
                                     .attention = path});
      c.load_parameters(*block);
      const at::Tensor x = c.input("X").requires_grad_();
      const at::Tensor y = block->forward(x, mask);
      CHECK(max_difference(y, c.output("output")) < 1e-5);
      (y * c.input("upstream")).sum().backward();
      CHECK(c.gradient_difference(*block) < 1e-4);
      CHECK(max_difference(x.grad(), c.get("grad_input.X")) < 1e-4);

      AttentionRecorder recorder;
      block->forward(x, mask, &recorder);
      CHECK(max_difference(recorder.records().at(0).weights, c.output("attention_weights")) < 1e-5);
      const at::Tensor first = block->forward_first(x, mask, 1);
      CHECK(max_difference(first, c.output("output").narrow(1, 0, 1)) < 1e-5);
    }
  }
}

TEST_CASE("the first token alone has the gradients and the dropout of the whole block") {
  ViTBlock block(ViTBlockOptions{.num_hiddens = 12, .mlp_num_hiddens = 20, .num_heads = 3, .dropout = 0.3});
  assign_paths(*block);
  const at::Tensor x = at::randn({4, 5, 12});
  const AttentionMask mask = AttentionMask::from_valid_lens(at::tensor({5, 2, 1, 4}, at::kLong), 4, 5, 5);
  const at::Tensor upstream = at::randn({4, 1, 12});
  std::vector<at::Tensor> inputs = {x.clone().requires_grad_()};
  for (const auto& p : block->parameters()) inputs.push_back(p);
  const RandomScope scope(5, 6);
  const at::Tensor whole = block->forward(inputs[0], mask).narrow(1, 0, 1);
  const at::Tensor first = block->forward_first(inputs[0], mask, 1);
  CHECK(max_difference(whole, first) < 1e-6);
  const auto a = torch::autograd::grad({(whole * upstream).sum()}, inputs);
  const auto b = torch::autograd::grad({(first * upstream).sum()}, inputs);
  for (size_t i = 0; i < a.size(); ++i) CHECK(max_difference(a[i], b[i]) < 1e-5);
}

TEST_CASE("the whole ViT equals the twin: logits, attention, loss, gradients, ten Adam steps") {
  WholeViT whole;
  const auto& c = whole.golden;
  for (const auto path : {AttentionPath::kFlash, AttentionPath::kPlain}) {
    INFO(name_of(path));
    whole.config.net.block.attention = path;
    auto model = whole.make();
    CHECK(max_difference(logits_of(model, c.input("image")), c.output("output")) < 1e-5);

    AttentionRecorder recorder;
    CHECK(max_difference(logits_of(model, c.input("image"), &recorder), c.output("output")) < 1e-5);
    REQUIRE(recorder.records().size() == 3);
    for (size_t i = 0; i < 3; ++i) {
      CHECK(recorder.records()[i].name == "blks." + std::to_string(i) + ".attention");
      CHECK(max_difference(recorder.records()[i].weights, c.output("attention_weights." + std::to_string(i))) < 1e-5);
    }

    check_golden_steps(c, model, whole.batch, 6, 0.003);
  }
}

TEST_CASE("a mask of key lengths leaves out patches, whatever they hold") {
  WholeViT whole;
  const auto& c = whole.golden;
  const at::Tensor lens = c.input("valid_lens");
  for (const auto path : {AttentionPath::kFlash, AttentionPath::kPlain}) {
    INFO(name_of(path));
    whole.config.net.block.attention = path;
    auto model = whole.make();
    const at::NoGradGuard no_grad;
    at::Tensor image = c.input("image");
    const at::Tensor masked = model.vit()->forward(image, lens);
    CHECK(max_difference(masked, c.output("masked")) < 1e-5);
    CHECK(max_difference(masked, c.output("output")) > 1e-3);
    // The second image may be looked at in its first patch only, 4 x 3 pixels at the top left.
    const at::Tensor others = at::ones({8, 12}, at::kBool);
    others.narrow(0, 0, 4).narrow(1, 0, 3).fill_(false);
    for (const double content : {0.0, 1e10, std::nan("")}) {
      at::Tensor changed = image.clone();
      changed[1].masked_fill_(others, content);
      CHECK(at::equal(model.vit()->forward(changed, lens), masked));
    }
  }
}

TEST_CASE("the loss: smoothed in training only, and between two labels where images were mixed") {
  WholeViT whole;
  whole.config.classifier.label_smoothing = 0.1;
  auto model = whole.make();
  const auto& c = whole.golden;
  CHECK(loss_of(model.training_step(whole.batch, 0)) == Approx(c.output("smoothed_loss").item<double>()).margin(1e-5));
  const train::LossTerms validation = model.validation_step(whole.batch);
  CHECK(loss_of(validation) == Approx(c.output("loss").item<double>()).margin(1e-5));
  REQUIRE(validation.size() == model.measures().size());
  CHECK(validation[1].name == "accuracy");
  CHECK(validation[1].count == 6);
  CHECK(validation[1].sum.item<int64_t>() == c.output("output").argmax(1).eq(c.input("label")).sum().item<int64_t>());

  // By hand, of every example: share * loss(label) + (1 - share) * loss(other label).
  data::Batch mixed = whole.batch;
  mixed.tensors["mixed_label"] = at::tensor({1, 4, 0, 3, 3, 2}, at::kLong);
  mixed.tensors["share"] = at::tensor({0.0f, 1.0f, 0.5f, 0.25f, 0.9f, 0.7f});
  const auto smoothed = [&](int64_t row, int64_t label) {
    const at::Tensor log_p = c.output("output")[row].to(at::kDouble).log_softmax(0);
    return -0.9 * log_p[label].item<double>() - 0.1 * log_p.mean().item<double>();
  };
  double expected = 0;
  for (int64_t i = 0; i < 6; ++i) {
    const double share = mixed.tensors["share"][i].item<double>();
    expected += share * smoothed(i, mixed.tensors["label"][i].item<int64_t>()) +
                (1 - share) * smoothed(i, mixed.tensors["mixed_label"][i].item<int64_t>());
  }
  CHECK(model.training_step(mixed, 0)[0].sum.item<double>() == Approx(expected).margin(1e-4));
}

TEST_CASE("gradients of a tiny ViT equal finite differences, in double") {
  const RandomScope scope(1, 2);
  for (const auto path : {AttentionPath::kFlash, AttentionPath::kPlain}) {
    INFO(name_of(path));
    models::ViTConfig config = tiny_config();
    config.net.block.attention = path;
    config.net.block.dropout = 0.2;  // the same draws at each call
    models::ViT model(config, kTinySpec);
    auto& network = model.network();
    network.to(at::kDouble);
    const at::Tensor image = at::randn({2, 1, 4, 6}, at::kDouble), weights = at::randn({2, 3}, at::kDouble);
    CHECK(finite_difference_error([&](const std::vector<at::Tensor>& x) { return logits_of(model, x[0]); }, {image}) <
          1e-7);
    // Of the parameters, which the module owns, by hand.
    network.zero_grad();
    (logits_of(model, image) * weights).sum().backward();
    const at::NoGradGuard no_grad;
    constexpr double kStep = 1e-5;
    double worst = 0;
    for (auto& p : network.parameters()) {
      const at::Tensor flat = p.detach().view(-1), gradient = p.grad().reshape(-1);
      for (int64_t j = 0; j < flat.numel(); ++j) {
        const double value = flat[j].item<double>();
        flat[j].fill_(value + kStep);
        const double above = (logits_of(model, image) * weights).sum().item<double>();
        flat[j].fill_(value - kStep);
        const double below = (logits_of(model, image) * weights).sum().item<double>();
        flat[j].fill_(value);
        worst = std::max(worst, std::abs((above - below) / (2 * kStep) - gradient[j].item<double>()));
      }
    }
    CHECK(worst < 1e-7);
  }
}

TEST_CASE("the names and starting values of the parameters are d2l's") {
  auto config = tiny_config();
  config.net.num_blks = 1;
  models::ViT model(config, kTinySpec);
  std::vector<std::string> names;
  for (const auto& [name, tensor] : train::named_parameters(model.network())) names.push_back(name);
  std::sort(names.begin(), names.end());
  CHECK(names == std::vector<std::string>{"blks.0.attention.W_k.weight",
                                          "blks.0.attention.W_o.weight",
                                          "blks.0.attention.W_q.weight",
                                          "blks.0.attention.W_v.weight",
                                          "blks.0.ln1.bias",
                                          "blks.0.ln1.weight",
                                          "blks.0.ln2.bias",
                                          "blks.0.ln2.weight",
                                          "blks.0.mlp.dense1.bias",
                                          "blks.0.mlp.dense1.weight",
                                          "blks.0.mlp.dense2.bias",
                                          "blks.0.mlp.dense2.weight",
                                          "cls_token",
                                          "head.0.bias",
                                          "head.0.weight",
                                          "head.1.bias",
                                          "head.1.weight",
                                          "patch_embedding.conv.bias",
                                          "patch_embedding.conv.weight",
                                          "pos_embedding"});
  const auto parameters = model.network().named_parameters();
  CHECK(parameters["cls_token"].sizes() == at::IntArrayRef({1, 1, 6}));
  CHECK(parameters["cls_token"].abs().max().item<float>() == 0);
  CHECK(parameters["pos_embedding"].sizes() == at::IntArrayRef({1, 7, 6}));
  CHECK(parameters["pos_embedding"].std().item<float>() == Approx(1).margin(0.4));
  config.net.pos_embedding_std = 0.02;
  CHECK(models::ViT(config, kTinySpec).network().named_parameters()["pos_embedding"].std().item<float>() ==
        Approx(0.02).margin(0.01));
}

TEST_CASE("weight decay touches matrices only") {
  models::ViT model(tiny_config(), kTinySpec);
  const auto groups = model.parameter_groups();
  REQUIRE(groups.size() == 2);
  CHECK(groups[0].weight_decay);
  CHECK_FALSE(groups[1].weight_decay);
  for (const auto& name : groups[0].names) CHECK(name.ends_with(".weight"));
  const auto& rest = groups[1].names;
  for (const char* name : {"cls_token", "pos_embedding", "head.0.weight", "head.1.bias", "blks.1.ln2.weight"}) {
    CHECK(std::find(rest.begin(), rest.end(), name) != rest.end());
  }
  CHECK(groups[0].names.size() == 2 * 6 + 2);
}

TEST_CASE("C41: patches that do not cut the image are refused, naming both sizes") {
  const classification::ImageSpec spec(1, 28, 28, 10);
  for (const int64_t patch : {0, -4}) {
    models::ViTConfig config;
    const auto node = config::parse_yaml("patch_size: " + std::to_string(patch), "vit.yaml");
    CHECK_THROWS_WITH(config::read(config, node), ContainsSubstring("patch_size"));
    CHECK_THROWS_WITH(PatchEmbedding(PatchEmbeddingOptions{
                          .image_height = 28, .image_width = 28, .patch_height = patch, .patch_width = 4}),
                      ContainsSubstring("28") && ContainsSubstring(std::to_string(patch)));
  }
  for (const int64_t patch : {5, 29}) {
    INFO(patch);
    models::ViTConfig config;
    config::read(config, config::parse_yaml("patch_size: " + std::to_string(patch), "vit.yaml"));
    const std::string size = std::to_string(patch);
    CHECK_THROWS_WITH(models::ViT(config, spec), ContainsSubstring("model.patch_size") &&
                                                     ContainsSubstring(size + " x " + size) &&
                                                     ContainsSubstring("28 x 28"));
    try {
      models::ViT(config, spec);
    } catch (const Error& e) {
      CHECK(e.kind() == ErrorKind::kUsage);
    }
    CHECK_THROWS_WITH(PatchEmbedding(PatchEmbeddingOptions{
                          .image_height = 28, .image_width = 28, .patch_height = patch, .patch_width = 4}),
                      ContainsSubstring("28") && ContainsSubstring(size));
  }
  models::ViTConfig config;
  config.net.image.patch_height = 7;
  config.net.image.patch_width = 3;
  CHECK_THROWS_WITH(models::ViT(config, spec), ContainsSubstring("model.patch_width") && ContainsSubstring("7 x 3") &&
                                                   ContainsSubstring("28 x 28"));
}

TEST_CASE("C09: sizes that do not go together are refused, odd ones that do are taken") {
  const auto read = [](const std::string& yaml) {
    models::ViTConfig config;
    config::read(config, config::parse_yaml(yaml, "vit.yaml"));
    return config;
  };
  CHECK_THROWS_WITH(read("{num_hiddens: 30, num_heads: 4}"), ContainsSubstring("30") && ContainsSubstring("4"));
  CHECK_THROWS_WITH(read("{num_heads: 0}"), ContainsSubstring("num_heads"));
  CHECK_THROWS_WITH(read("{blk_dropout: 1.5}"), ContainsSubstring("blk_dropout") && ContainsSubstring("1.5"));
  models::ViTConfig odd = read("{patch_size: 2, num_hiddens: 33, mlp_num_hiddens: 7, num_heads: 11, num_blks: 1}");
  models::ViT model(odd, kTinySpec);
  for (const int64_t batch : {0, 1, 3}) {
    const at::Tensor y = logits_of(model, at::randn({batch, 1, 4, 6}));
    CHECK(y.sizes() == at::IntArrayRef({batch, 3}));
    CHECK(at::isfinite(y).all().item<bool>());
  }
  CHECK_THROWS_WITH(logits_of(model, at::randn({1, 1, 4, 5})), ContainsSubstring("(batch, 1, 4, 6)"));
  CHECK_THROWS_WITH(logits_of(model, at::randn({1, 3, 4, 6})), ContainsSubstring("[1, 3, 4, 6]"));
}

TEST_CASE("C11: no dropout in evaluation; in training by seed and step") {
  models::ViT model(tiny_config(), kTinySpec);
  const at::NoGradGuard no_grad;
  const at::Tensor image = at::randn({2, 1, 4, 6});
  const auto at_step = [&](uint64_t step) {
    const RandomScope scope(1, step);
    return logits_of(model, image);
  };
  model.network().eval();
  CHECK(at::equal(at_step(1), at_step(2)));
  model.network().train();
  CHECK(at::equal(at_step(1), at_step(1)));
  CHECK_FALSE(at::equal(at_step(1), at_step(2)));
}

TEST_CASE("a ViT wants images, a translator wants sentences") {
  CHECK_THROWS_WITH(models::vit_entry().make(*models::vit_entry().named.make(), translation::TranslationSpec{}),
                    ContainsSubstring("labelled images"));
}
