#pragma once

#include <torch/csrc/jit/api/module.h>

#include "fovea/decode/seq2seq.h"
#include "fovea/export/script_recipe.h"
#include "fovea/tasks/translation/assets.h"

namespace fovea::translation {

/// How a sequence-to-sequence model becomes TorchScript. The module's methods:
///   forward(source, target, valid_lens)         teacher forcing: logits (batch, target steps, vocabulary)
///   encode(source, valid_lens, max_len)         the state, a list of tensors with the batch first
///   decode_step(token, state, position)         logits (batch, vocabulary) and the next state; consumes `state`
///   generate(source, valid_lens, beam=1, length_penalty=0.75, max_len=None, n_best=1)
///     decode::search: tokens (batch, n_best, longest) without <bos> and <eos>, filled up with <pad>; their lengths
///     (batch, n_best), -1 where there are fewer hypotheses; scores (batch, n_best), float64. max_len is num_steps.
/// .double() of the module works; after .half() or .bfloat16() the methods fail and say why.
/// Tokens and lengths are int64: source (batch, steps), target (batch, target steps), valid_lens (batch) from 0 to
/// steps.
/// Attributes: tokenizer, lowercase, unify_characters, source_pad, source_eos, source_unk, source_reserved, num_steps,
/// max_positions, pad, bos, eos, unk. Further files: source_tokens.txt and target_tokens.txt, one a line, in the order
/// of the ids.
///
/// Compared are batches of 1 and 3, 1, 9, 37, data.num_steps and max_len tokens (as far as the model takes them), full
/// and partial valid_lens and valid_lens of 0: teacher-forced logits, the state, steps across a reorder of the beam,
/// and generate(), greedy and with beams, against decode::search, where everything must be equal.
exports::ScriptRecipe script_recipe(const decode::Seq2Seq& model, const TranslationAssets& assets);

/// The exported methods as the contract that decode::search works with.
class ScriptedSeq2Seq : public decode::Seq2Seq {
 public:
  ScriptedSeq2Seq(torch::jit::Module module, int64_t max_len) : module_(std::move(module)), max_len_(max_len) {}
  decode::Seq2SeqState encode(const at::Tensor& source, const nn::SequenceLayout& layout,
                              const nn::Size& max_steps) const override;
  std::pair<at::Tensor, decode::Seq2SeqState> decode_step(const at::Tensor& token,
                                                          decode::Seq2SeqState state) const override;
  at::Tensor forward(const at::Tensor& source, const nn::SequenceLayout& source_layout, const at::Tensor& target,
                     const nn::SequenceLayout& target_layout, nn::AttentionRecorder* recorder = nullptr) const override;
  int64_t max_len() const override { return max_len_; }

 private:
  torch::jit::Module module_;
  int64_t max_len_;
};

}  // namespace fovea::translation
