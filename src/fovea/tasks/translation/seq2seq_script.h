#pragma once

#include "fovea/data/data_spec.h"
#include "fovea/decode/seq2seq.h"
#include "fovea/export/script_module.h"

namespace fovea::translation {

/// Adds to the network's module what a sequence-to-sequence model can do:
///   forward(source, target, valid_lens)         teacher forcing: logits (batch, target steps, vocabulary)
///   encode(source, valid_lens, max_len)         the state, a list of tensors with the batch first
///   decode_step(token, state, position)         logits (batch, vocabulary) and the next state; consumes `state`
///   generate(source, valid_lens, beam=1, length_penalty=0.75, max_len=None, n_best=1)
///     decode::search: tokens (batch, n_best, longest) without <bos> and <eos>, filled up with <pad>; their lengths
///     (batch, n_best), -1 where there are fewer hypotheses; scores (batch, n_best), float64. max_len is num_steps.
/// Tokens and lengths are int64: source (batch, steps), target (batch, target steps), valid_lens (batch) from 0 to
/// steps.
void add_seq2seq(exports::ScriptModule& script, decode::Seq2Seq& model, const TranslationSpec& spec);

/// The exported methods as the contract that decode::search works with.
class ScriptedSeq2Seq : public decode::Seq2Seq {
 public:
  ScriptedSeq2Seq(torch::jit::Module module, int64_t max_len) : module_(std::move(module)), max_len_(max_len) {}
  decode::Seq2SeqState encode(const at::Tensor& source, const nn::SequenceLayout& layout,
                              const nn::Size& max_steps) override;
  std::pair<at::Tensor, decode::Seq2SeqState> decode_step(const at::Tensor& token, decode::Seq2SeqState state) override;
  at::Tensor forward(const at::Tensor& source, const nn::SequenceLayout& source_layout, const at::Tensor& target,
                     const nn::SequenceLayout& target_layout) override;
  int64_t max_len() const override { return max_len_; }

 private:
  torch::jit::Module module_;
  int64_t max_len_;
};

}  // namespace fovea::translation
