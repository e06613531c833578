#pragma once

#include "fovea/data/data_spec.h"
#include "fovea/decode/seq2seq.h"
#include "fovea/export/script_module.h"

namespace fovea {

/// Adds to the network's module what a sequence-to-sequence model can do:
///   forward(source, target, valid_lens)         teacher forcing: logits (batch, target steps, vocabulary)
///   encode(source, valid_lens, max_len)         the state, a list of tensors with the batch first
///   decode_step(token, state, position)         logits (batch, vocabulary) and the next state; consumes `state`
///   generate(source, valid_lens, beam, length_penalty, max_len, n_best)
/// `example` is any batch of sources, (batch, steps), two at least of either, `valid_lens` (batch).
void add_seq2seq(ScriptModule& script, decode::Seq2Seq& model, const TranslationSpec& spec);

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

}  // namespace fovea
