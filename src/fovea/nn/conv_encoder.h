#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/pimpl.h>

#include <vector>

#include "fovea/nn/positional_encoding.h"
#include "fovea/nn/seq2seq.h"

namespace fovea::nn {

struct ConvEncoderOptions {
  int64_t num_layers = 4;
  int64_t kernel_size = 3;  // odd
};

/// A sequence encoder of convolutions (Gehring et al., "A Convolutional Encoder Model for Neural Machine Translation",
/// 2016): learned positions are added to the embeddings; each layer is a convolution over the neighbours with a gated
/// linear unit and a residual connection. All tokens are computed at once, and a layer sees kernel_size / 2 tokens
/// further to either side. The decoder begins with tanh of a linear layer of the mean of the outputs. Parameters:
/// embedding, pos_encoding.P, input, convs.0, ..., bridge.
class ConvEncoderImpl : public SequenceEncoder {
 public:
  ConvEncoderImpl(const Seq2SeqOptions& options, const ConvEncoderOptions& conv);
  RecurrentOutput forward(const at::Tensor& tokens, const SequenceLayout& layout) override;

 private:
  Cell cell_;
  int64_t num_states_;  // layers of the decoder
  torch::nn::Embedding embedding_{nullptr};
  PositionalEncoding pos_encoding_{nullptr};
  Linear input_{nullptr}, bridge_{nullptr};
  std::vector<torch::nn::Conv1d> convs_;
  std::vector<Dropout> dropouts_;
};
TORCH_MODULE(ConvEncoder);

}  // namespace fovea::nn
