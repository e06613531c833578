#include "models/transformer.h"

#include <torch/torch.h>

#include "fovea/core/error.h"
#include "models/attention_settings.h"
#include "models/cross_entropy.h"

namespace fovea::models {
namespace {

nn::TransformerOptions options(const TransformerConfig& c, int64_t vocab_size) {
  return {.vocab_size = vocab_size,
          .num_blks = c.num_blks,
          .block = {.num_hiddens = c.num_hiddens,
                    .ffn_num_hiddens = c.ffn_num_hiddens,
                    .num_heads = c.num_heads,
                    .dropout = c.dropout,
                    .use_bias = c.use_bias,
                    .attention = attention_path(c.attention)},
          .max_len = c.max_len,
          .learned_positions = c.positions == "learned"};
}

}  // namespace

void TransformerConfig::fields(config::Fields& f) {
  f("num_hiddens", num_hiddens, "width of embeddings and of every layer", config::range(1, 65536));
  f("ffn_num_hiddens", ffn_num_hiddens, "width inside the position-wise networks", config::range(1, 1048576));
  f("num_heads", num_heads, "attention heads; must divide num_hiddens", config::range(1, 1024));
  f("num_blks", num_blks, "blocks in the encoder and in the decoder", config::range(1, 1000));
  f("dropout", dropout, "share of activations and attention weights set to 0 in training", config::half_open(0, 1));
  f("use_bias", use_bias, "biases in the attention's projections");
  f("max_len", max_len, "positions there are; the longest sequence", config::range(1, 1048576));
  f("positions", positions, "how positions are encoded", config::choice({"sinusoidal", "learned"}));
  f("layout", layout, "packed computes on valid tokens only; padded on padding too, with the same result",
    config::choice({"packed", "padded"}));
  attention_field(f, attention);
  f("label_smoothing", label_smoothing, "share of the target spread over the whole vocabulary, in training",
    config::half_open(0, 1));
}

void TransformerConfig::check(const config::Checker& c) const {
  check_heads(c, num_hiddens, num_heads);
}

TransformerTranslatorImpl::TransformerTranslatorImpl(const TransformerConfig& config, int64_t source_vocab_size,
                                                     int64_t target_vocab_size) {
  encoder = register_module("encoder", nn::TransformerEncoder(options(config, source_vocab_size)));
  decoder = register_module("decoder", nn::TransformerDecoder(options(config, target_vocab_size)));
}

at::Tensor TransformerTranslatorImpl::forward(const at::Tensor& source, const nn::SequenceLayout& source_layout,
                                              const at::Tensor& target, const nn::SequenceLayout& target_layout,
                                              nn::AttentionRecorder* recorder) {
  const at::Tensor encoded = encoder->forward(source, source_layout, recorder);
  return decoder->forward(target, target_layout, encoded, source_layout, recorder);
}

Transformer::Transformer(const TransformerConfig& config, const translation::TranslationSpec& spec)
    : packed_(config.layout == "packed"),
      label_smoothing_(config.label_smoothing),
      network_(config, spec.source_vocab_size, spec.target_vocab_size) {
  if (spec.num_steps > config.max_len) {
    fail_usage("model.max_len: there are {} positions, but sequences have up to {} tokens (data.num_steps)",
               config.max_len, spec.num_steps);
  }
  nn::assign_sites(*network_);
}

std::vector<int64_t> Transformer::loss_counts(const data::Batch& batch, int64_t) const {
  const int64_t count = batch.layout("target").total();
  return label_smoothing_ > 0 ? std::vector<int64_t>{count, count} : std::vector<int64_t>{count};
}

std::pair<at::Tensor, at::Tensor> Transformer::valid_logits(const data::Batch& batch) {
  const translation::TranslationBatch b(batch);
  // What counts is decided by the lengths, not by a token's id: a padding token in a text would be no padding.
  at::Tensor labels = b.target_layout.pack(b.label);
  if (!packed_) {
    return {b.target_layout.pack(network_->forward(b.source, b.source_layout, b.target, b.target_layout)), labels};
  }
  return {network_->forward(b.source_layout.pack(b.source), b.source_layout.as_packed(), b.target_layout.pack(b.target),
                            b.target_layout.as_packed()),
          labels};
}

train::LossTerms Transformer::training_step(const data::Batch& batch, int64_t) {
  const auto [logits, labels] = valid_logits(batch);
  return cross_entropy_terms(logits, labels, label_smoothing_);
}

train::LossTerms Transformer::validation_step(const data::Batch& batch) {
  const auto [logits, labels] = valid_logits(batch);
  return cross_entropy_terms(logits, labels, 0.0);
}

std::vector<train::LabelledAxis> Transformer::labelled_axes() const {
  return {{"encoder.embedding.weight", 0, "source"},
          {"decoder.embedding.weight", 0, "target"},
          {"decoder.dense.weight", 0, "target"},
          {"decoder.dense.bias", 0, "target"}};
}

// The state: the source lengths, then for each block the cross-attention's keys and values and the self-attention's.
decode::Seq2SeqState Transformer::encode(const at::Tensor& source, const nn::SequenceLayout& layout,
                                         const nn::Size& max_steps) const {
  if (std::max(layout.steps(), max_steps.value()) > max_len()) {
    fail("transformer: asked for {} source and {} target tokens, there are {} positions (model.max_len)",
         layout.steps(), max_steps.value(), max_len());
  }
  const at::Tensor encoded = network_.ptr()->encoder->forward(source, layout);
  decode::Seq2SeqState state{{layout.lengths()}, at::zeros({}, at::kLong)};
  for (auto& cache : network_.ptr()->decoder->make_caches(encoded, layout, max_steps)) {
    for (auto& tensor : {cache.cross.keys, cache.cross.values, cache.self.keys, cache.self.values}) {
      state.tensors.push_back(tensor);
    }
  }
  return state;
}

std::pair<at::Tensor, decode::Seq2SeqState> Transformer::decode_step(const at::Tensor& token,
                                                                     decode::Seq2SeqState state) const {
  std::vector<nn::DecoderBlockCache> caches;
  for (size_t i = 1; i + 3 < state.tensors.size(); i += 4) {
    caches.push_back(
        {.cross = {state.tensors[i], state.tensors[i + 1]}, .self = {state.tensors[i + 2], state.tensors[i + 3]}});
  }
  const auto source_layout = nn::SequenceLayout::padded(state.tensors[0], nn::Size::of(caches.front().cross.keys, 2));
  at::Tensor logits = network_.ptr()->decoder->step(token, nn::Size::from(state.position), caches, source_layout);
  state.position = state.position + 1;
  return {std::move(logits), std::move(state)};
}

train::ModelEntry transformer_entry() {
  return train::model_entry<Transformer, TransformerConfig, translation::TranslationSpec>(
      "transformer", "11.7", "encoder-decoder Transformer for translation");
}

}  // namespace fovea::models
