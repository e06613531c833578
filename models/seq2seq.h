#pragma once

#include "fovea/config/fields.h"
#include "fovea/nn/conv_encoder.h"
#include "fovea/nn/seq2seq.h"
#include "models/translator_module.h"

namespace fovea::models {

/// How the decoder knows the source: by the encoder's last state alone (Sutskever et al. 2014), by its last output at
/// each step too (Cho et al. 2014; d2l 10.7), or by attention to all outputs (Bahdanau et al. 2014; d2l 11.4).
enum class SourceContext { kInitial, kEachStep, kAttention };

constexpr auto enum_names(SourceContext) {
  return std::to_array<EnumName<SourceContext>>({{SourceContext::kInitial, "initial"},
                                                 {SourceContext::kEachStep, "each_step"},
                                                 {SourceContext::kAttention, "attention"}});
}

/// What reads the source: recurrent layers (d2l 10.7), or convolutions (Gehring et al. 2016).
enum class EncoderKind { kRecurrent, kConvolutional };

constexpr auto enum_names(EncoderKind) {
  return std::to_array<EnumName<EncoderKind>>(
      {{EncoderKind::kRecurrent, "recurrent"}, {EncoderKind::kConvolutional, "convolutional"}});
}

/// `model: {name: seq2seq}`. The defaults are those of d2l 11.4.
struct Seq2SeqConfig : config::Section {
  nn::Seq2SeqOptions net;  // the vocabularies are the data's
  SourceContext context = SourceContext::kAttention;
  EncoderKind encoder = EncoderKind::kRecurrent;
  bool bidirectional = false;   // of a recurrent encoder
  nn::ConvEncoderOptions conv;  // of a convolutional one
  nn::LayoutKind layout = nn::LayoutKind::kPacked;
  double label_smoothing = 0.0;
  void fields(config::Fields& f) override;
  void check(const config::Checker& c) const override;
};

/// The encoder-decoder network: usable alone, knows nothing of losses or training.
class Seq2SeqNetworkImpl : public torch::nn::Module {
 public:
  Seq2SeqNetworkImpl(const Seq2SeqConfig& config, int64_t source_vocab_size, int64_t target_vocab_size);
  std::shared_ptr<nn::SequenceEncoder> encoder;
  std::shared_ptr<nn::RecurrentDecoder> decoder;
};
TORCH_MODULE(Seq2SeqNetwork);

/// The network with its loss and its decoding.
class Seq2Seq : public TranslatorModule {
 public:
  Seq2Seq(const Seq2SeqConfig& config, const translation::TranslationSpec& spec);

  torch::nn::Module& network() override { return *network_; }
  decode::Seq2SeqState encode(const at::Tensor& source, const nn::SequenceLayout& layout,
                              const nn::Size& max_steps) const override;
  std::pair<at::Tensor, decode::Seq2SeqState> decode_step(const at::Tensor& token,
                                                          decode::Seq2SeqState state) const override;
  at::Tensor forward(const at::Tensor& source, const nn::SequenceLayout& source_layout, const at::Tensor& target,
                     const nn::SequenceLayout& target_layout, nn::AttentionRecorder* recorder = nullptr) const override;
  bool forward_is_steps() const override { return true; }
  int64_t max_len() const override { return max_len_; }

 private:
  int64_t max_len_;
  Seq2SeqNetwork network_;
};

train::ModelEntry seq2seq_entry();

}  // namespace fovea::models
