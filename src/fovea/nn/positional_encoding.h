#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <string>
#include <vector>

#include "fovea/nn/dropout.h"
#include "fovea/nn/sequence_layout.h"

namespace fovea::nn {

/// For modules with buffers that are computed, not learned: checkpoints leave those out (LibTorch has no
/// non-persistent buffers), exports keep them.
struct DerivedBuffers {
  virtual ~DerivedBuffers() = default;
  virtual std::vector<std::string> derived_buffers() const = 0;
};

struct PositionalEncodingOptions {
  int64_t num_hiddens = 256;
  double dropout = 0.0;
  int64_t max_len = 1000;
  bool learned = false;
};

/// Adds to each token an encoding of its position, then dropout (Vaswani et al. 2017; d2l 11.6). Sinusoidal:
/// P[i, 2j] = sin(i / 10000^(2j/d)), P[i, 2j+1] = cos of the same; or learned: P is a parameter, N(0, 0.02).
/// P: (1, max_len, num_hiddens).
class PositionalEncodingImpl : public torch::nn::Module, public DerivedBuffers {
 public:
  explicit PositionalEncodingImpl(const PositionalEncodingOptions& options);

  /// `x`: (batch, steps, num_hiddens) or (total, num_hiddens). Throws Error when a sequence is longer than max_len.
  at::Tensor forward(const at::Tensor& x, const SequenceLayout& layout);
  /// One further token per sequence, all at `position`: x (batch, 1, num_hiddens). No dropout: this is decoding.
  at::Tensor step(const at::Tensor& x, const Size& position) const;

  int64_t max_len() const { return P_.size(1); }
  std::vector<std::string> derived_buffers() const override;

 private:
  void check_length(int64_t steps) const;

  bool learned_;
  Dropout dropout_;
  at::Tensor P_;
};
TORCH_MODULE(PositionalEncoding);

}  // namespace fovea::nn
