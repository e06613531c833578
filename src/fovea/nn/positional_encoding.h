#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <string>
#include <vector>

#include "fovea/nn/attention_mask.h"
#include "fovea/nn/dropout.h"
#include "fovea/nn/positions.h"
#include "fovea/nn/sequence_layout.h"

namespace fovea::nn {

/// A module with buffers that are computed, not learned. Checkpoints leave those out (LibTorch has no non-persistent
/// buffers), exports keep them.
struct DerivedBuffers {
  virtual ~DerivedBuffers() = default;
  virtual std::vector<std::string> derived_buffers() const = 0;
};

struct PositionalEncodingOptions {
  int64_t num_hiddens = 0;  // has to be given, as max_len
  int64_t num_heads = 1;    // of the attention that gets for_attention()
  double dropout = 0.0;
  int64_t max_len = 0;
  Positions positions = Positions::kSinusoidal;
  bool looks_ahead = true;  // attention is not causal
};

/// All that a model does about positions: `forward` or `step` on the embeddings, `for_attention` on the mask of
/// self-attention. A model calls both whatever the scheme.
///
/// Sinusoidal and learned positions are added to the embeddings (Vaswani et al. 2017; d2l 11.6):
/// P[i, 2j] = sin(i / 10000^(2j/d)), P[i, 2j+1] = cos of the same; learned: P is a parameter, N(0, 0.02).
/// P: (1, max_len, num_hiddens). Rotary and ALiBi positions and T5's biases, `relative_attention_bias` (32, num_heads),
/// are handed to attention. In every scheme dropout follows.
class PositionalEncodingImpl : public torch::nn::Module, public DerivedBuffers {
 public:
  /// Throws Error for rotary positions and heads of odd width.
  explicit PositionalEncodingImpl(const PositionalEncodingOptions& options);

  /// `x`: (batch, steps, num_hiddens) or (total, num_hiddens). Throws Error when a sequence is longer than max_len and
  /// positions are added.
  at::Tensor forward(const at::Tensor& x, const SequenceLayout& layout);
  /// One further token per sequence, all at `position`: x (batch, 1, num_hiddens). No dropout: this is decoding.
  at::Tensor step(const at::Tensor& x, const Size& position) const;
  /// The mask of self-attention with what it is to know of positions.
  AttentionMask for_attention(const AttentionMask& mask) const;

  int64_t max_len() const { return options_.max_len; }
  std::vector<std::string> derived_buffers() const override;

 private:
  bool is_added() const { return P_.defined(); }
  void check_length(int64_t steps) const;

  PositionalEncodingOptions options_;
  Dropout dropout_;
  at::Tensor P_;     // undefined where nothing is added
  at::Tensor bias_;  // T5's; else undefined
};
TORCH_MODULE(PositionalEncoding);

struct TokenPositionsOptions {
  int64_t num_hiddens = 0, num_heads = 1, num_tokens = 0;
  Positions positions = Positions::kLearned;
  double std = 1.0;  // of the starting values of learned ones
};

/// Positions where every sequence has the same number of tokens, as the patches of images, which are counted row by
/// row. Learned ones are a parameter of the model, `pos_embedding` (1, num_tokens, num_hiddens); the others are its
/// child `pos_encoding`. Dropout is the model's.
class TokenPositions {
 public:
  TokenPositions(torch::nn::Module& model, const TokenPositionsOptions& options);

  /// x: (batch, num_tokens, num_hiddens). Throws Error for another number of tokens.
  at::Tensor add(const at::Tensor& x) const;
  /// The mask of self-attention with what it is to know of positions.
  AttentionMask for_attention(const AttentionMask& mask) const;
  /// Whether AttentionMask::first_queries can be asked for of the mask.
  bool allow_first_queries() const { return positions_ != Positions::kRotary; }

 private:
  Positions positions_;
  int64_t num_tokens_;
  at::Tensor learned_;
  PositionalEncoding encoding_{nullptr};
};

}  // namespace fovea::nn
