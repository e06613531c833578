#pragma once

#include <torch/nn/modules/embedding.h>

#include "fovea/nn/positional_encoding.h"
#include "fovea/nn/transformer_block.h"

/// Encoder and decoder of the Transformer (Vaswani et al. 2017; d2l 11.7). Token ids are int64, (batch, steps) padded
/// or (total) packed as the layout says; states are (batch, steps, num_hiddens) or (total, num_hiddens).
namespace fovea::nn {

struct TransformerOptions {
  int64_t vocab_size = 0;  // has to be given
  int64_t num_blks = 2;
  TransformerBlockOptions block;
  int64_t max_len = 1000;
  Positions positions = Positions::kSinusoidal;  // of self-attention; cross-attention knows none
};

class TransformerEncoderImpl : public torch::nn::Module {
 public:
  explicit TransformerEncoderImpl(const TransformerOptions& options);
  at::Tensor forward(const at::Tensor& tokens, const SequenceLayout& layout, AttentionRecorder* recorder = nullptr) {
    return forward(tokens, AttentionMask::self(layout), recorder);
  }
  /// The same under a mask of self-attention: causal, a window, edges, ...
  at::Tensor forward(const at::Tensor& tokens, const AttentionMask& mask, AttentionRecorder* recorder = nullptr);

 private:
  double scale_;  // sqrt(num_hiddens): embeddings and positions of like size
  torch::nn::Embedding embedding_{nullptr};
  PositionalEncoding pos_encoding_{nullptr};
  std::vector<TransformerEncoderBlock> blks_;
};
TORCH_MODULE(TransformerEncoder);

class TransformerDecoderImpl : public torch::nn::Module {
 public:
  explicit TransformerDecoderImpl(const TransformerOptions& options);

  /// Teacher forcing: logits (batch, steps, vocab_size) or (total, vocab_size). Token t sees the tokens 0..t.
  at::Tensor forward(const at::Tensor& tokens, const SequenceLayout& layout, const at::Tensor& encoded,
                     const SequenceLayout& encoded_layout, AttentionRecorder* recorder = nullptr);

  /// The cache of all blocks for up to `max_steps` tokens after these encoder outputs.
  Cache make_cache(const at::Tensor& encoded, const SequenceLayout& encoded_layout, const Size& max_steps);

  /// tokens (batch) at `position` -> logits (batch, vocab_size) for the next ones. Writes the cache.
  at::Tensor step(const at::Tensor& tokens, const Size& position, Cache& cache, AttentionRecorder* recorder = nullptr);

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
