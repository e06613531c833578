#include "models/seq2seq.h"

#include <torch/torch.h>

#include "fovea/core/error.h"
#include "models/shared_fields.h"

namespace fovea::models {
namespace {

std::shared_ptr<nn::RecurrentDecoder> make_decoder(const Seq2SeqConfig& config, const nn::Seq2SeqOptions& options) {
  if (config.context == SourceContext::kAttention) {
    return std::make_shared<nn::Seq2SeqAttentionDecoderImpl>(options);
  }
  return std::make_shared<nn::Seq2SeqDecoderImpl>(options, config.context == SourceContext::kEachStep);
}

std::shared_ptr<nn::SequenceEncoder> make_encoder(const Seq2SeqConfig& config, const nn::Seq2SeqOptions& options) {
  if (config.encoder == EncoderKind::kConvolutional) return std::make_shared<nn::ConvEncoderImpl>(options, config.conv);
  return std::make_shared<nn::Seq2SeqEncoderImpl>(options, config.bidirectional);
}

// d2l's init_seq2seq: Xavier for the weights of dense and recurrent layers.
void init_seq2seq(torch::nn::Module& network) {
  const at::NoGradGuard no_grad;
  for (const auto& item : network.named_parameters()) {
    const std::string& name = item.key();
    if (name.find("weight") == std::string::npos || name.find("embedding") != std::string::npos) continue;
    torch::nn::init::xavier_uniform_(item.value());
  }
}

}  // namespace

void Seq2SeqConfig::fields(config::Fields& f) {
  f("cell", net.cell, "gated recurrent units, or long short-term memory");
  f("context", context,
    "how the decoder knows the source: by the encoder's last state, by its last output at each step too, or by "
    "attention to all its outputs");
  f("score", net.score, "how well a word of the source fits, with context attention");
  f("score_weights", net.score_weights, "how scores become weights; hard takes the best word alone");
  f("local_width", net.local_width,
    "with context attention, look only so far around a place that is predicted; 0: everywhere",
    config::range(0, 1048576));
  f("encoder", encoder, "what reads the source: recurrent layers word by word, or convolutions all words at once");
  f("bidirectional", bidirectional, "a recurrent encoder reads both ways, half of its width each");
  f("conv_layers", conv.num_layers, "layers of a convolutional encoder", config::range(1, 100));
  f("kernel_size", conv.kernel_size, "how many words a layer of a convolutional encoder looks at; odd",
    config::range(1, 1023));
  f("embed_size", net.embed_size, "width of the embeddings", config::range(1, 65536));
  f("num_hiddens", net.num_hiddens, "width of the recurrent layers and of the attention", config::range(1, 65536));
  f("num_layers", net.num_layers, "recurrent layers in the decoder, and in a recurrent encoder", config::range(1, 100));
  f("dropout", net.dropout, "share of what one layer gives the next, and of attention weights, set to 0 in training",
    config::half_open(0, 1));
  f("max_len", net.max_len, "the longest sequence", config::range(1, 1048576));
  f("layout", layout, "packed computes on valid tokens only; padded on padding too, with the same result");
  label_smoothing_field(f, label_smoothing, "the whole vocabulary");
}

void Seq2SeqConfig::check(const config::Checker& c) const {
  if (encoder == EncoderKind::kConvolutional && bidirectional) {
    c.fail({"encoder", "bidirectional"},
           "a convolutional encoder sees both sides as it is; expected bidirectional: false");
  }
  if (conv.kernel_size % 2 == 0) c.fail("kernel_size", "expected an odd number, got {}", conv.kernel_size);
  if (bidirectional && net.num_hiddens % 2 != 0) {
    c.fail({"bidirectional", "num_hiddens"}, "two directions need an even num_hiddens, got {}", net.num_hiddens);
  }
}

Seq2SeqNetworkImpl::Seq2SeqNetworkImpl(const Seq2SeqConfig& config, int64_t source_vocab_size,
                                       int64_t target_vocab_size) {
  nn::Seq2SeqOptions options = config.net;
  options.vocab_size = source_vocab_size;
  encoder = register_module("encoder", make_encoder(config, options));
  options.vocab_size = target_vocab_size;
  decoder = register_module("decoder", make_decoder(config, options));
  init_seq2seq(*this);
}

Seq2Seq::Seq2Seq(const Seq2SeqConfig& config, const translation::TranslationSpec& spec)
    : TranslatorModule(config.layout, config.label_smoothing),
      max_len_(config.net.max_len),
      network_(config, spec.source_vocab_size, spec.target_vocab_size) {
  if (spec.num_steps > max_len_) {
    fail_usage("model.max_len: sequences have up to {} tokens (data.num_steps), the longest may have {}",
               spec.num_steps, max_len_);
  }
  nn::assign_paths(*network_);
}

at::Tensor Seq2Seq::forward(const at::Tensor& source, const nn::SequenceLayout& source_layout, const at::Tensor& target,
                            const nn::SequenceLayout& target_layout, nn::AttentionRecorder* recorder) const {
  const auto encoded = network_.ptr()->encoder->forward(source, source_layout);
  return network_.ptr()->decoder->forward(target, target_layout, encoded, source_layout, recorder);
}

decode::Seq2SeqState Seq2Seq::encode(const at::Tensor& source, const nn::SequenceLayout& layout,
                                     const nn::Size& max_steps) const {
  if (std::max(layout.steps(), max_steps.value()) > max_len()) {
    fail_usage("seq2seq: asked for {} source and {} target tokens, the longest may have {} (model.max_len)",
               layout.steps(), max_steps.value(), max_len());
  }
  const auto encoded = network_.ptr()->encoder->forward(source, layout);
  return {network_.ptr()->decoder->make_cache(encoded, layout), at::zeros({}, at::kLong)};
}

std::pair<at::Tensor, decode::Seq2SeqState> Seq2Seq::decode_step(const at::Tensor& token,
                                                                 decode::Seq2SeqState state) const {
  at::Tensor logits = network_.ptr()->decoder->step(token, state.tensors, nullptr);
  state.position = state.position + 1;
  return {std::move(logits), std::move(state)};
}

train::ModelEntry seq2seq_entry() {
  return train::model_entry<Seq2Seq, Seq2SeqConfig, translation::TranslationSpec>(
      "seq2seq", "11.4", "recurrent encoder and decoder for translation, with or without attention");
}

}  // namespace fovea::models
