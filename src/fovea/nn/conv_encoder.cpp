#include "fovea/nn/conv_encoder.h"

#include <torch/torch.h>

#include <cmath>

#include "fovea/nn/children.h"

namespace fovea::nn {

ConvEncoderImpl::ConvEncoderImpl(const Seq2SeqOptions& o, const ConvEncoderOptions& conv)
    : cell_(o.cell), num_states_(o.num_layers) {
  embedding_ = register_module("embedding", torch::nn::Embedding(o.vocab_size, o.embed_size));
  pos_encoding_ = register_module("pos_encoding", PositionalEncoding(PositionalEncodingOptions{
                                                      .num_hiddens = o.embed_size,
                                                      .dropout = o.dropout,
                                                      .max_len = o.max_len,
                                                      .positions = Positions::kLearned,
                                                  }));
  input_ = register_module("input", Linear(o.embed_size, o.num_hiddens));
  const auto convs = register_module("convs", std::make_shared<Children>());
  const auto dropouts = register_module("dropouts", std::make_shared<Children>());
  for (int64_t i = 0; i < conv.num_layers; ++i) {
    auto options = torch::nn::Conv1dOptions(o.num_hiddens, 2 * o.num_hiddens, conv.kernel_size);
    const std::string name = std::to_string(i);
    convs_.push_back(convs->register_module(name, torch::nn::Conv1d(options.padding(conv.kernel_size / 2))));
    dropouts_.push_back(dropouts->register_module(name, Dropout(o.dropout)));
  }
  bridge_ = register_module("bridge", Linear(o.num_hiddens, o.num_layers * o.num_hiddens));
}

RecurrentOutput ConvEncoderImpl::forward(const at::Tensor& tokens, const SequenceLayout& layout) {
  const at::Tensor embedded = input_->forward(pos_encoding_->forward(embedding_->forward(tokens), layout));
  const SequenceLayout padded = layout.as_padded();
  // A convolution needs the neighbours in place, and zeros where a sentence ends.
  at::Tensor x = layout.is_packed() ? layout.pad(embedded) : padded.zero_padding(embedded);  // (batch, steps, hiddens)
  for (size_t i = 0; i < convs_.size(); ++i) {
    const at::Tensor inputs = dropouts_[i]->forward(x, padded).transpose(1, 2);
    const at::Tensor gated = at::glu(convs_[i]->forward(inputs), 1).transpose(1, 2);
    x = padded.zero_padding((x + gated) * std::sqrt(0.5));
  }
  const at::Tensor mean = x.sum(1) / padded.lengths().clamp_min(1).unsqueeze(1).to(x.scalar_type());
  Cache state;
  for (const at::Tensor& h : at::tanh(bridge_->forward(mean)).chunk(num_states_, -1)) {  // (batch, num_hiddens) each
    state.push_back(h.contiguous());
    if (cell_ == Cell::kLstm) state.push_back(at::zeros_like(state.back()));
  }
  return {layout.is_packed() ? layout.pack(x) : x, std::move(state)};
}

}  // namespace fovea::nn
