#pragma once

#include "fovea/nn/attention.h"

/// Attention whose score can be chosen (d2l 11.3): one query after the other asks the same keys, as in a recurrent
/// decoder.
namespace fovea::nn {

/// How well a key fits a query.
///   additive     w_v^T tanh(W_q q + W_k k)   Bahdanau et al. 2014; sizes may differ
///   dot          q^T k
///   scaled_dot   q^T k / sqrt(d)             Vaswani et al. 2017
///   general      q^T W_k k                   Luong et al. 2015; sizes may differ
///   cosine       scale q^T k / (|q| |k|)     with a learnt scale
///   location     (W_l q)_j                   Luong et al. 2015; knows only where a key is
enum class Score { kAdditive, kDot, kScaledDot, kGeneral, kCosine, kLocation };

constexpr auto enum_names(Score) {
  return std::to_array<EnumName<Score>>({{Score::kAdditive, "additive"},
                                         {Score::kDot, "dot"},
                                         {Score::kScaledDot, "scaled_dot"},
                                         {Score::kGeneral, "general"},
                                         {Score::kCosine, "cosine"},
                                         {Score::kLocation, "location"}});
}

/// How scores become weights: exp(s) / sum, max(s, 0) / number of keys (Wortsman et al. 2023), or the best key alone,
/// whose gradient is that of softmax (straight through).
enum class ScoreWeights { kSoftmax, kRelu, kHard };

constexpr auto enum_names(ScoreWeights) {
  return std::to_array<EnumName<ScoreWeights>>(
      {{ScoreWeights::kSoftmax, "softmax"}, {ScoreWeights::kRelu, "relu"}, {ScoreWeights::kHard, "hard"}});
}

struct ScoredAttentionOptions {
  int64_t query_size = 0, key_size = 0;  // have to be given
  int64_t num_hiddens = 0;               // of additive scores
  Score score = Score::kAdditive;
  ScoreWeights weights = ScoreWeights::kSoftmax;
  /// Half the width D of a window around a place that each query predicts, S sigmoid(v_p^T tanh(W_p q)), with a
  /// Gaussian of D / 2 in it (local-p of Luong et al. 2015). 0: global, without one.
  int64_t local_width = 0;
  int64_t max_keys = 1000;  // of location scores
  double dropout = 0.0;
};

/// Queries (batch, queries, query_size), keys (batch, keys, key_size), values (batch, keys, d_v), as padded rows.
class ScoredAttentionImpl : public AttentionModule {
 public:
  /// Throws Error for sizes that the score cannot compare.
  explicit ScoredAttentionImpl(const ScoredAttentionOptions& options);

  at::Tensor forward(const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values,
                     const AttentionMask& mask, AttentionRecorder* recorder = nullptr);

  /// What there is to compute of the keys alone, once for all queries: (batch, keys, ...).
  at::Tensor project_keys(const at::Tensor& keys, const SequenceLayout& layout);
  /// Attention with keys that are projected; `values` have zeros in the padding. Returns (batch, queries, d_v).
  at::Tensor attend(const at::Tensor& queries, const at::Tensor& projected_keys, const at::Tensor& values,
                    const AttentionMask& mask, AttentionRecorder* recorder = nullptr);

 private:
  at::Tensor scores(const at::Tensor& queries, const at::Tensor& projected_keys);  // (batch, queries, keys)
  at::Tensor weights(const at::Tensor& scores, const AttentionMask& mask) const;
  at::Tensor window(const at::Tensor& queries, const AttentionMask& mask);  // (batch, 1, queries, keys)

  ScoredAttentionOptions options_;
  Linear W_q_{nullptr}, W_k_{nullptr}, w_v_{nullptr}, W_l_{nullptr}, W_p_{nullptr}, v_p_{nullptr};
  at::Tensor scale_;
};
TORCH_MODULE(ScoredAttention);

}  // namespace fovea::nn
