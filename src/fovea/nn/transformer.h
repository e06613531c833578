#pragma once

#include <torch/nn/modules/embedding.h>

#include "fovea/nn/positional_encoding.h"
#include "fovea/nn/transformer_block.h"

/// Encoder and decoder of the Transformer (Vaswani et al. 2017; d2l 11.7). Token ids are int64, (batch, steps) padded
/// or (total) packed as the layout says; states are (batch, steps, num_hiddens) or (total, num_hiddens).
namespace fovea::nn {

struct TransformerOptions {
  int64_t vocab_size = 0;
  int64_t num_blks = 2;
  TransformerBlockOptions block;
  int64_t max_len = 1000;
  bool learned_positions = false;
};

class TransformerEncoderImpl : public torch::nn::Module {
 public:
  explicit TransformerEncoderImpl(const TransformerOptions& options);
  at::Tensor forward(const at::Tensor& tokens, const SequenceLayout& layout, AttentionRecorder* recorder = nullptr);

 private:
  double scale_;  // sqrt(num_hiddens): embeddings and positions of like size
  torch::nn::Embedding embedding_{nullptr};
  PositionalEncoding pos_encoding_{nullptr};
  std::vector<TransformerEncoderBlock> blks_;
};
TORCH_MODULE(TransformerEncoder);

/// What one decoder block keeps between steps: (batch, heads, steps, head_dim) each.
struct DecoderBlockCache {
  KeyValue cross;  // the projected encoder outputs
  KeyValue self;   // room for all steps, filled up to the position
};

class TransformerDecoderImpl : public torch::nn::Module {
 public:
  explicit TransformerDecoderImpl(const TransformerOptions& options);

  /// Teacher forcing: logits (batch, steps, vocab_size) or (total, vocab_size). Token t sees the tokens 0..t.
  at::Tensor forward(const at::Tensor& tokens, const SequenceLayout& layout, const at::Tensor& encoded,
                     const SequenceLayout& encoded_layout, AttentionRecorder* recorder = nullptr);

  /// Caches for up to `max_steps` tokens after these encoder outputs.
  std::vector<DecoderBlockCache> make_caches(const at::Tensor& encoded, const SequenceLayout& encoded_layout,
                                             const Size& max_steps);

  /// tokens (batch) at `position` -> logits (batch, vocab_size) for the next ones. Writes the caches in place.
  at::Tensor step(const at::Tensor& tokens, const Size& position, const std::vector<DecoderBlockCache>& caches,
                  const SequenceLayout& encoded_layout, AttentionRecorder* recorder = nullptr);

  int64_t num_blks() const { return static_cast<int64_t>(blks_.size()); }
  int64_t max_len() const { return pos_encoding_->max_len(); }

 private:
  double scale_;
  torch::nn::Embedding embedding_{nullptr};
  PositionalEncoding pos_encoding_{nullptr};
  std::vector<TransformerDecoderBlock> blks_;
  Linear dense_{nullptr};
};
TORCH_MODULE(TransformerDecoder);

}  // namespace fovea::nn
