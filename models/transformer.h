#pragma once

#include <torch/nn/module.h>

#include "fovea/config/fields.h"
#include "fovea/nn/transformer.h"
#include "models/translator_module.h"

namespace fovea::models {

/// `model: {name: transformer}`. The defaults are those of d2l 11.7.
struct TransformerConfig : config::Section {
  nn::TransformerOptions net;  // the vocabularies are the data's
  nn::LayoutKind layout = nn::LayoutKind::kPacked;
  double label_smoothing = 0.0;
  void fields(config::Fields& f) override;
  void check(const config::Checker& c) const override;
};

/// The encoder-decoder network (d2l 11.7.6): usable alone, knows nothing of losses or training.
class TransformerTranslatorImpl : public torch::nn::Module {
 public:
  /// `options` with the vocabulary sizes of each side.
  TransformerTranslatorImpl(nn::TransformerOptions options, int64_t source_vocab_size, int64_t target_vocab_size);

  /// Teacher-forced logits, (batch, target steps, target_vocab_size) or (total, target_vocab_size).
  at::Tensor forward(const at::Tensor& source, const nn::SequenceLayout& source_layout, const at::Tensor& target,
                     const nn::SequenceLayout& target_layout, nn::AttentionRecorder* recorder = nullptr);

  nn::TransformerEncoder encoder{nullptr};
  nn::TransformerDecoder decoder{nullptr};
};
TORCH_MODULE(TransformerTranslator);

/// The network with its loss and its decoding.
class Transformer : public TranslatorModule {
 public:
  Transformer(const TransformerConfig& config, const translation::TranslationSpec& spec);

  torch::nn::Module& network() override { return *network_; }
  decode::Seq2SeqState encode(const at::Tensor& source, const nn::SequenceLayout& layout,
                              const nn::Size& max_steps) const override;
  std::pair<at::Tensor, decode::Seq2SeqState> decode_step(const at::Tensor& token,
                                                          decode::Seq2SeqState state) const override;
  at::Tensor forward(const at::Tensor& source, const nn::SequenceLayout& source_layout, const at::Tensor& target,
                     const nn::SequenceLayout& target_layout,
                     nn::AttentionRecorder* recorder = nullptr) const override {
    return network_.ptr()->forward(source, source_layout, target, target_layout, recorder);
  }
  int64_t max_len() const override { return network_.ptr()->decoder->max_len(); }

  TransformerTranslator translator() { return network_; }

 private:
  TransformerTranslator network_;
};

train::ModelEntry transformer_entry();

}  // namespace fovea::models
