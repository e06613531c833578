#include "fovea/nn/seq2seq.h"

#include <torch/torch.h>

#include "fovea/nn/size.h"

namespace fovea::nn {
namespace {

RecurrentOptions recurrent_options(const Seq2SeqOptions& o, int64_t input_size, bool bidirectional = false) {
  return {.input_size = input_size,
          .num_hiddens = o.num_hiddens,
          .num_layers = o.num_layers,
          .dropout = o.dropout,
          .cell = o.cell,
          .bidirectional = bidirectional};
}

// h of the last layer.
const at::Tensor& last_h(const Cache& state, const Recurrent& rnn) {
  return state.at(static_cast<size_t>((rnn->options().num_layers - 1) * rnn->tensors_per_layer()));
}

}  // namespace

Seq2SeqEncoderImpl::Seq2SeqEncoderImpl(const Seq2SeqOptions& o, bool bidirectional) {
  embedding_ = register_module("embedding", torch::nn::Embedding(o.vocab_size, o.embed_size));
  rnn_ = register_module("rnn", RNN(recurrent_options(o, o.embed_size, bidirectional)));
}

RecurrentOutput Seq2SeqEncoderImpl::forward(const at::Tensor& tokens, const SequenceLayout& layout) {
  return rnn_->rnn->forward(embedding_->forward(tokens), layout);
}

Seq2SeqDecoderImpl::Seq2SeqDecoderImpl(const Seq2SeqOptions& o, bool context_at_each_step)
    : context_at_each_step_(context_at_each_step) {
  embedding_ = register_module("embedding", torch::nn::Embedding(o.vocab_size, o.embed_size));
  rnn_ = register_module("rnn", RNN(recurrent_options(o, o.embed_size + (context_at_each_step ? o.num_hiddens : 0))));
  dense_ = register_module("dense", Linear(o.num_hiddens, o.vocab_size));
}

at::Tensor Seq2SeqDecoderImpl::forward(const at::Tensor& tokens, const SequenceLayout& layout,
                                       const RecurrentOutput& encoded, const SequenceLayout&, AttentionRecorder*) {
  at::Tensor x = embedding_->forward(tokens);
  if (context_at_each_step_) {
    const at::Tensor context = last_h(encoded.state, rnn_->rnn).unsqueeze(1);  // (batch, 1, num_hiddens)
    // Without asking for the steps, which a traced graph must not take for a constant.
    const at::Tensor at_each = layout.is_packed() ? layout.pack(context.expand({-1, layout.steps(), -1}))
                                                  : context + at::zeros_like(x.narrow(-1, 0, 1));
    x = at::cat({x, at_each}, -1);
  }
  return dense_->forward(rnn_->rnn->forward(x, layout, encoded.state).y);
}

Cache Seq2SeqDecoderImpl::make_cache(const RecurrentOutput& encoded, const SequenceLayout&) {
  Cache cache = encoded.state;
  if (context_at_each_step_) cache.push_back(last_h(encoded.state, rnn_->rnn));
  return cache;
}

at::Tensor Seq2SeqDecoderImpl::step(const at::Tensor& tokens, Cache& cache, AttentionRecorder*) {
  at::Tensor x = embedding_->forward(tokens);  // (batch, embed_size)
  if (context_at_each_step_) x = at::cat({x, cache.back()}, -1);
  CacheCursor cursor(cache);
  const at::Tensor h = rnn_->rnn->step(x, cursor);
  if (context_at_each_step_) cursor.next();
  cursor.check_end();
  return dense_->forward(h);
}

Seq2SeqAttentionDecoderImpl::Seq2SeqAttentionDecoderImpl(const Seq2SeqOptions& o) {
  attention_ = register_module("attention", ScoredAttention(ScoredAttentionOptions{.query_size = o.num_hiddens,
                                                                                   .key_size = o.num_hiddens,
                                                                                   .num_hiddens = o.num_hiddens,
                                                                                   .score = o.score,
                                                                                   .weights = o.score_weights,
                                                                                   .local_width = o.local_width,
                                                                                   .max_keys = o.max_len,
                                                                                   .dropout = o.dropout}));
  embedding_ = register_module("embedding", torch::nn::Embedding(o.vocab_size, o.embed_size));
  rnn_ = register_module("rnn", Recurrent(recurrent_options(o, o.num_hiddens + o.embed_size)));
  dense_ = register_module("dense", Linear(o.num_hiddens, o.vocab_size));
}

at::Tensor Seq2SeqAttentionDecoderImpl::attend_and_step(const at::Tensor& token_gates, Cache& cache,
                                                        const Source& source, const AttentionMask& mask,
                                                        AttentionRecorder* recorder) {
  const at::Tensor query = last_h(cache, rnn_).unsqueeze(1);  // (batch, 1, num_hiddens)
  const at::Tensor context = attention_->attend(query, source.keys, source.values, mask, recorder).squeeze(1);
  CacheCursor cursor(cache);
  return rnn_->step_gates(rnn_->input_gates(context, 0) + token_gates, cursor);
}

at::Tensor Seq2SeqAttentionDecoderImpl::forward(const at::Tensor& tokens, const SequenceLayout& layout,
                                                const RecurrentOutput& encoded, const SequenceLayout& source_layout,
                                                AttentionRecorder* recorder) {
  Cache cache = make_cache(encoded, source_layout);
  const Source source(cache);
  // What the tokens add to the gates needs no earlier step: one product for all of them.
  const at::Tensor gates = rnn_->input_gates(embedding_->forward(tokens), rnn_->options().num_hiddens);
  const at::Tensor by_step = layout.is_packed() ? layout.pad(gates) : gates;  // (batch, steps, gates)
  const AttentionMask mask = AttentionMask::cross(SequenceLayout::full(source.keys.narrow(1, 0, 1)),
                                                  source_layout.as_padded());  // one query
  std::vector<at::Tensor> outputs;
  AttentionRecorder steps;
  for (const at::Tensor& step : by_step.unbind(1)) {
    outputs.push_back(attend_and_step(step, cache, source, mask, recorder != nullptr ? &steps : nullptr));
  }
  if (recorder != nullptr && !steps.records().empty()) {
    std::vector<at::Tensor> weights;
    for (const auto& record : steps.records()) weights.push_back(record.weights);
    recorder->add(steps.records().front().name, at::cat(weights, 2));  // (batch, 1, steps, keys)
  }
  const at::Tensor y = at::stack(outputs, 1);  // (batch, steps, num_hiddens)
  return dense_->forward(layout.is_packed() ? layout.pack(y) : y);
}

Cache Seq2SeqAttentionDecoderImpl::make_cache(const RecurrentOutput& encoded, const SequenceLayout& source_layout) {
  const SequenceLayout source = source_layout.as_padded();
  const at::Tensor values = source_layout.is_packed() ? source_layout.pad(encoded.y) : source.zero_padding(encoded.y);
  Cache cache = encoded.state;
  append(cache, {attention_->project_keys(values, source), values, source.lengths()});
  return cache;
}

at::Tensor Seq2SeqAttentionDecoderImpl::step(const at::Tensor& tokens, Cache& cache, AttentionRecorder* recorder) {
  const Source source(cache);
  const at::Tensor gates = rnn_->input_gates(embedding_->forward(tokens), rnn_->options().num_hiddens);
  const auto mask = AttentionMask::cross(SequenceLayout::full(tokens.unsqueeze(1)),
                                         SequenceLayout::padded(source.lengths, Size::of(source.keys, 1)));
  return dense_->forward(attend_and_step(gates, cache, source, mask, recorder));
}

}  // namespace fovea::nn
