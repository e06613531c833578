#include "models/transformer.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <array>

#include "fovea/core/counted.h"
#include "fovea/core/error.h"
#include "models/shared_fields.h"

namespace fovea::models {

void TransformerConfig::fields(config::Fields& f) {
  auto& block = net.block;
  width_fields(f, block.num_hiddens, "ffn_num_hiddens", block.ffn_num_hiddens,
               "width inside the position-wise networks", block.num_heads);
  num_blks_field(f, net.num_blks, "blocks in the encoder and in the decoder");
  f("dropout", block.dropout, "share of activations and attention weights set to 0 in training",
    config::half_open(0, 1));
  use_bias_field(f, block.use_bias);
  f("max_len", net.max_len, "positions there are; the longest sequence", config::range(1, 1048576));
  f("positions", net.positions,
    "how positions are known: sinusoidal and learned ones are added to the embeddings, rotary ones turn queries and "
    "keys of self-attention, alibi lets its scores fall with the distance, t5 learns a bias for each distance");
  f("layout", layout, "packed computes on valid tokens only; padded on padding too, with the same result");
  attention_field(f, block.attention);
  label_smoothing_field(f, label_smoothing, "the whole vocabulary");
}

void TransformerConfig::check(const config::Checker& c) const {
  const auto& block = net.block;
  check_heads(c, block.num_hiddens, block.num_heads);
  if (net.positions == nn::Positions::kRotary && block.num_hiddens / block.num_heads % 2 != 0) {
    c.fail({"positions", "num_heads", "num_hiddens"},
           "rotary turns pairs: num_hiddens / num_heads must be even, got {}", block.num_hiddens / block.num_heads);
  }
}

TransformerTranslatorImpl::TransformerTranslatorImpl(nn::TransformerOptions options, int64_t source_vocab_size,
                                                     int64_t target_vocab_size) {
  options.vocab_size = source_vocab_size;
  encoder = register_module("encoder", nn::TransformerEncoder(options));
  options.vocab_size = target_vocab_size;
  decoder = register_module("decoder", nn::TransformerDecoder(options));
}

at::Tensor TransformerTranslatorImpl::forward(const at::Tensor& source, const nn::SequenceLayout& source_layout,
                                              const at::Tensor& target, const nn::SequenceLayout& target_layout,
                                              nn::AttentionRecorder* recorder) {
  const at::Tensor encoded = encoder->forward(source, source_layout, recorder);
  return decoder->forward(target, target_layout, encoded, source_layout, recorder);
}

Transformer::Transformer(const TransformerConfig& config, const translation::TranslationSpec& spec)
    : TranslatorModule(config.layout, config.label_smoothing),
      network_(config.net, spec.source_vocab_size, spec.target_vocab_size) {
  if (spec.num_steps > config.net.max_len) {
    fail_usage("model.max_len: the model has {}, but sequences have up to {} tokens (data.num_steps)",
               counted(config.net.max_len, "position"), spec.num_steps);
  }
  nn::assign_paths(*network_);
}

decode::Seq2SeqState Transformer::encode(const at::Tensor& source, const nn::SequenceLayout& layout,
                                         const nn::Size& max_steps) const {
  if (std::max(layout.steps(), max_steps.value()) > max_len()) {
    fail_usage("transformer: asked for {} and {}, the model has {} (model.max_len)",
               counted(layout.steps(), "source token"), counted(max_steps.value(), "target token"),
               counted(max_len(), "position"));
  }
  const at::Tensor encoded = network_.ptr()->encoder->forward(source, layout);
  return {network_.ptr()->decoder->make_cache(encoded, layout, max_steps), at::zeros({}, at::kLong)};
}

std::pair<at::Tensor, decode::Seq2SeqState> Transformer::decode_step(const at::Tensor& token,
                                                                     decode::Seq2SeqState state) const {
  at::Tensor logits = network_.ptr()->decoder->step(token, nn::Size::from(state.position), state.tensors);
  state.position = state.position + 1;
  return {std::move(logits), std::move(state)};
}

namespace {

// Sizes that did well on corpora of so many target tokens on CPUs: the first is configs/transformer_tiny.yaml, the
// second configs/transformer_fra_eng_full.yaml, those beyond are smaller than the base model of Vaswani et al. (2017).
struct TransformerSize {
  int64_t most_tokens, num_hiddens, ffn_num_hiddens, num_heads, num_blks;
  double dropout, learning_rate;
  int64_t steps;
};
constexpr std::array kTransformerSizes = {TransformerSize{200'000, 192, 384, 4, 2, 0.2, 0.002, 1500},
                                          TransformerSize{2'000'000, 256, 512, 4, 2, 0.1, 0.001, 8000},
                                          TransformerSize{20'000'000, 384, 1536, 6, 4, 0.1, 0.0008, 30'000},
                                          TransformerSize{INT64_MAX, 512, 2048, 8, 6, 0.1, 0.0007, 100'000}};

std::vector<train::ProposedSetting> propose_transformer(const data::DataSpec&, const train::DataAmount& amount) {
  const TransformerSize& size = *std::find_if(kTransformerSizes.begin(), kTransformerSizes.end(),
                                              [&](const TransformerSize& s) { return amount.items <= s.most_tokens; });
  const int64_t epochs = train::epochs_for(amount, size.steps, 3, 60);
  const int64_t steps = epochs * amount.steps_per_epoch;
  const auto text = [](auto number) { return fmt::format("{}", number); };
  return {{"model.name", "transformer"},
          {"model.num_hiddens", text(size.num_hiddens),
           fmt::format("width, for {} target tokens to train on", amount.items)},
          {"model.ffn_num_hiddens", text(size.ffn_num_hiddens)},
          {"model.num_heads", text(size.num_heads)},
          {"model.num_blks", text(size.num_blks), "depth of the encoder and of the decoder"},
          {"model.dropout", text(size.dropout), "more for less data"},
          {"model.label_smoothing", "0.1"},
          {"optimizer.name", "adam"},
          {"optimizer.learning_rate", text(size.learning_rate)},
          {"optimizer.betas", "[0.9, 0.98]"},
          {"schedule.name", "inverse_sqrt"},
          {"schedule.warmup_steps", text(std::clamp<int64_t>(steps / 5, 1, 4000)), "of " + counted(steps, "step")},
          {"train.max_epochs", text(epochs), "more if the validation loss still falls at the end"}};
}

}  // namespace

train::ModelEntry transformer_entry() {
  auto entry = train::model_entry<Transformer, TransformerConfig, translation::TranslationSpec>(
      "transformer", "11.7", "encoder-decoder Transformer for translation");
  entry.propose = propose_transformer;
  return entry;
}

}  // namespace fovea::models
