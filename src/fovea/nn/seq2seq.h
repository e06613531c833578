#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/pimpl.h>

#include "fovea/nn/attention.h"
#include "fovea/nn/recurrent.h"
#include "fovea/nn/scored_attention.h"

/// Recurrent encoders and decoders (Sutskever et al. 2014, Cho et al. 2014, Bahdanau et al. 2014; d2l 10.7 and 11.4).
/// Token ids are int64, (batch, steps) padded or (total) packed as the layout says; outputs are in the same layout.
namespace fovea::nn {

struct Seq2SeqOptions {
  int64_t vocab_size = 0;  // has to be given
  int64_t embed_size = 256;
  int64_t num_hiddens = 256;
  int64_t num_layers = 2;
  double dropout = 0.2;
  Cell cell = Cell::kGru;
  // Of the decoder with attention.
  Score score = Score::kAdditive;
  ScoreWeights score_weights = ScoreWeights::kSoftmax;
  int64_t local_width = 0;
  int64_t max_len = 1000;
};

/// d2l's GRU and LSTM, around the layers: the extra name in the paths of their parameters is the book's.
class RNNImpl : public torch::nn::Module {
 public:
  explicit RNNImpl(const RecurrentOptions& options) : rnn(register_module("rnn", Recurrent(options))) {}
  Recurrent rnn;
};
TORCH_MODULE(RNN);

/// What an encoder of this kind does.
class SequenceEncoder : public torch::nn::Module {
 public:
  /// What it says of each token, (batch, steps, num_hiddens) or (total, num_hiddens), and what the decoder's recurrent
  /// layers begin with.
  virtual RecurrentOutput forward(const at::Tensor& tokens, const SequenceLayout& layout) = 0;
};

/// d2l's Seq2SeqEncoder. Unlike the book's it stops at the end of each sentence and does not read its padding.
class Seq2SeqEncoderImpl : public SequenceEncoder {
 public:
  Seq2SeqEncoderImpl(const Seq2SeqOptions& options, bool bidirectional);
  /// The outputs of the last layer and the last state.
  RecurrentOutput forward(const at::Tensor& tokens, const SequenceLayout& layout) override;

 private:
  torch::nn::Embedding embedding_{nullptr};
  RNN rnn_{nullptr};
};
TORCH_MODULE(Seq2SeqEncoder);

/// What a decoder of this kind does. Its cache begins with the state of its recurrent layers.
class RecurrentDecoder : public torch::nn::Module {
 public:
  /// Logits of the next token at each place: (batch, steps, vocab_size) or (total, vocab_size). `encoded`: what the
  /// encoder gave, in `source_layout`.
  virtual at::Tensor forward(const at::Tensor& tokens, const SequenceLayout& layout, const RecurrentOutput& encoded,
                             const SequenceLayout& source_layout, AttentionRecorder* recorder) = 0;
  /// What is kept from step to step after an encoder's outputs.
  virtual Cache make_cache(const RecurrentOutput& encoded, const SequenceLayout& source_layout) = 0;
  /// tokens (batch) -> logits (batch, vocab_size) of the next ones. Writes the cache.
  virtual at::Tensor step(const at::Tensor& tokens, Cache& cache, AttentionRecorder* recorder) = 0;
};

/// d2l's Seq2SeqDecoder: it begins with the encoder's last state, and sees its last output at each step beside the
/// token if `context_at_each_step` (as d2l 10.7 has it).
class Seq2SeqDecoderImpl : public RecurrentDecoder {
 public:
  Seq2SeqDecoderImpl(const Seq2SeqOptions& options, bool context_at_each_step);
  at::Tensor forward(const at::Tensor& tokens, const SequenceLayout& layout, const RecurrentOutput& encoded,
                     const SequenceLayout& source_layout, AttentionRecorder* recorder) override;
  Cache make_cache(const RecurrentOutput& encoded, const SequenceLayout& source_layout) override;
  at::Tensor step(const at::Tensor& tokens, Cache& cache, AttentionRecorder* recorder) override;

 private:
  bool context_at_each_step_;
  torch::nn::Embedding embedding_{nullptr};
  RNN rnn_{nullptr};
  Linear dense_{nullptr};
};
TORCH_MODULE(Seq2SeqDecoder);

/// d2l's Seq2SeqAttentionDecoder (Bahdanau et al. 2014; d2l 11.4): at each step the last layer's state asks the
/// encoder's outputs (by additive attention in the book), and what it finds goes in beside the token. Keys are
/// projected once.
class Seq2SeqAttentionDecoderImpl : public RecurrentDecoder {
 public:
  explicit Seq2SeqAttentionDecoderImpl(const Seq2SeqOptions& options);
  at::Tensor forward(const at::Tensor& tokens, const SequenceLayout& layout, const RecurrentOutput& encoded,
                     const SequenceLayout& source_layout, AttentionRecorder* recorder) override;
  Cache make_cache(const RecurrentOutput& encoded, const SequenceLayout& source_layout) override;
  at::Tensor step(const at::Tensor& tokens, Cache& cache, AttentionRecorder* recorder) override;

 private:
  // The end of the cache, after the state of the recurrent layers: what attention looks at.
  struct Source {
    at::Tensor keys, values, lengths;
    explicit Source(const Cache& cache)
        : keys(cache.at(cache.size() - 3)), values(cache.at(cache.size() - 2)), lengths(cache.back()) {}
  };
  // One step of attention and of the recurrent layers: token_gates (batch, gates) -> (batch, num_hiddens). Writes the
  // state in the cache.
  at::Tensor attend_and_step(const at::Tensor& token_gates, Cache& cache, const Source& source,
                             const AttentionMask& mask, AttentionRecorder* recorder);

  ScoredAttention attention_{nullptr};
  torch::nn::Embedding embedding_{nullptr};
  Recurrent rnn_{nullptr};
  Linear dense_{nullptr};
};
TORCH_MODULE(Seq2SeqAttentionDecoder);

}  // namespace fovea::nn
