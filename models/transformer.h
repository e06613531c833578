#pragma once

#include <torch/nn/module.h>

#include "fovea/config/fields.h"
#include "fovea/nn/transformer.h"
#include "fovea/train/module.h"

namespace fovea::models {

/// `model: {name: transformer}`. The defaults are those of d2l 11.7.
struct TransformerConfig : config::Section {
  int64_t num_hiddens = 256;
  int64_t ffn_num_hiddens = 64;
  int64_t num_heads = 4;
  int64_t num_blks = 2;
  double dropout = 0.2;
  bool use_bias = false;
  int64_t max_len = 1000;
  std::string positions = "sinusoidal";
  std::string layout = "packed";
  std::string attention = "flash";
  double label_smoothing = 0.0;
  void fields(config::Fields& f) override;
  void check(const config::Checker& c) const override;
};

/// The encoder-decoder network (d2l 11.7.6): usable alone, knows nothing of losses or training.
class TransformerTranslatorImpl : public torch::nn::Module {
 public:
  TransformerTranslatorImpl(const TransformerConfig& config, int64_t source_vocab_size, int64_t target_vocab_size);

  /// Teacher-forced logits, (batch, target steps, target_vocab_size) or (total, target_vocab_size).
  at::Tensor forward(const at::Tensor& source, const nn::SequenceLayout& source_layout, const at::Tensor& target,
                     const nn::SequenceLayout& target_layout, nn::AttentionRecorder* recorder = nullptr);

  nn::TransformerEncoder encoder{nullptr};
  nn::TransformerDecoder decoder{nullptr};
};
TORCH_MODULE(TransformerTranslator);

/// The network with its loss (cross-entropy over valid target tokens, label smoothing) and its decoding.
class Transformer : public fovea::train::Module, public decode::Seq2Seq {
 public:
  Transformer(const TransformerConfig& config, const translation::TranslationSpec& spec);

  torch::nn::Module& network() override { return *network_; }
  train::LossTerms training_step(const data::Batch& batch) override { return {loss(batch, label_smoothing_)}; }
  train::LossTerms validation_step(const data::Batch& batch) override { return {loss(batch, 0.0)}; }
  std::vector<int64_t> loss_counts(const data::Batch& batch) const override;
  decode::Seq2Seq* seq2seq() override { return this; }

  decode::Seq2SeqState encode(const at::Tensor& source, const nn::SequenceLayout& layout,
                              const nn::Size& max_steps) override;
  std::pair<at::Tensor, decode::Seq2SeqState> decode_step(const at::Tensor& token, decode::Seq2SeqState state) override;
  at::Tensor forward(const at::Tensor& source, const nn::SequenceLayout& source_layout, const at::Tensor& target,
                     const nn::SequenceLayout& target_layout) override {
    return network_->forward(source, source_layout, target, target_layout);
  }
  int64_t max_len() const override { return network_->decoder->max_len(); }

  TransformerTranslator translator() { return network_; }

 private:
  train::LossTerm loss(const data::Batch& batch, double label_smoothing);

  bool packed_;
  double label_smoothing_;
  TransformerTranslator network_;
};

const train::ModelEntry& transformer_entry();

}  // namespace fovea::models
