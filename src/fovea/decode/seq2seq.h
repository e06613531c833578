#pragma once

#include <ATen/core/Tensor.h>

#include <utility>
#include <vector>

#include "fovea/nn/attention.h"
#include "fovea/nn/cache.h"
#include "fovea/nn/sequence_layout.h"

namespace fovea::decode {

/// What a decoder knows after some steps: tensors with the batch first, whatever the model, and the position of the
/// next token. Reordering a beam and dropping finished sentences are the same for all models: `select`.
struct Seq2SeqState {
  nn::Cache tensors;    // of the layers (nn/cache.h), (batch, ...) each
  at::Tensor position;  // int64, 0-dim, on the CPU

  int64_t batch() const { return tensors.front().size(0); }
  int64_t next_position() const { return position.item<int64_t>(); }
  /// The rows `rows` (int64), in that order; a row may be taken more than once.
  Seq2SeqState select(const at::Tensor& rows) const {
    Seq2SeqState chosen{{}, position};
    chosen.tensors.reserve(tensors.size());
    for (const auto& tensor : tensors) chosen.tensors.push_back(tensor.index_select(0, rows));
    return chosen;
  }
};

/// The contract between sequence-to-sequence models and everything that decodes: greedy and beam search, evaluation,
/// export. Implementations are in evaluation mode and without gradients while they decode, and touch nothing but
/// their arguments, so that threads may share one. They are traced for export: what differs from call to call is a
/// tensor or an nn::Size, never an int that ATen gets (nn/size.h).
class Seq2Seq {
 public:
  virtual ~Seq2Seq() = default;

  /// source: int64 (batch, steps) with its padded layout. The state has room for `max_steps` tokens.
  /// Throws Error when the source or max_steps is longer than the model can take.
  virtual Seq2SeqState encode(const at::Tensor& source, const nn::SequenceLayout& layout,
                              const nn::Size& max_steps) const = 0;

  /// token: int64 (batch), the last one of each row (first `<bos>`). Returns the logits of the next tokens
  /// (batch, vocab_size) and the state after this step; the state passed in is consumed, its memory is used again.
  virtual std::pair<at::Tensor, Seq2SeqState> decode_step(const at::Tensor& token, Seq2SeqState state) const = 0;

  /// Teacher forcing: logits (batch, target steps, vocab_size) of the tokens that follow each one of `target`, int64
  /// (batch, target steps), which begins with `<bos>`. Both layouts are padded. Recorded weights are (batch, heads,
  /// target or source steps, target or source steps), each under the path of its attention.
  virtual at::Tensor forward(const at::Tensor& source, const nn::SequenceLayout& source_layout,
                             const at::Tensor& target, const nn::SequenceLayout& target_layout,
                             nn::AttentionRecorder* recorder = nullptr) const = 0;

  /// Whether forward() is a loop over decode_step, as in recurrent decoders: such a loop cannot be traced.
  virtual bool forward_is_steps() const { return false; }

  /// The longest source and the most steps the model can take.
  virtual int64_t max_len() const = 0;
};

}  // namespace fovea::decode
