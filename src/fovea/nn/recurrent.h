#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <string>
#include <vector>

#include "fovea/core/enum_names.h"
#include "fovea/nn/cache.h"
#include "fovea/nn/dropout.h"
#include "fovea/nn/sequence_layout.h"

/// Recurrent layers (d2l 10.1, 10.2, 10.3, 10.4) with the parameters of torch's nn.GRU and nn.LSTM.
namespace fovea::nn {

enum class Cell { kGru, kLstm };

constexpr auto enum_names(Cell) {
  return std::to_array<EnumName<Cell>>({{Cell::kGru, "gru"}, {Cell::kLstm, "lstm"}});
}

struct RecurrentOptions {
  int64_t input_size = 0;  // has to be given, as num_hiddens
  int64_t num_hiddens = 0;
  int64_t num_layers = 1;
  double dropout = 0.0;  // of what one layer gives the next
  Cell cell = Cell::kGru;
  /// Half of the hiddens run from first to last, half from last to first, so that outputs and states have num_hiddens
  /// either way. torch gives twice as many.
  bool bidirectional = false;
};

/// What a pass gives. `state`: after each sequence's last token, for each layer h and, of an LSTM, c: (batch,
/// num_hiddens) each; the two directions side by side.
struct RecurrentOutput {
  at::Tensor y;  // (batch, steps, num_hiddens) or (total, num_hiddens), as the layout says
  Cache state;
};

/// Several layers of recurrent cells. On the CPU by our own op (ops/recurrent.h), for which padding costs nothing;
/// elsewhere and while tracing by torch's. The result is the same.
class RecurrentImpl : public torch::nn::Module {
 public:
  /// Throws Error for sizes below 1, and for an odd num_hiddens in two directions.
  explicit RecurrentImpl(const RecurrentOptions& options);

  /// `initial`: a state as above; empty for zeros.
  RecurrentOutput forward(const at::Tensor& x, const SequenceLayout& layout, const Cache& initial = {});

  /// One more token of each sequence, in one direction: x (batch, input_size) -> (batch, num_hiddens). Takes the
  /// state's tensors from the cache and writes the new ones. Throws Error for a layer of two directions.
  at::Tensor step(const at::Tensor& x, CacheCursor& cache);
  /// The same where what the inputs add to the first layer's gates is known already: (batch, gates x num_hiddens), with
  /// bias.
  at::Tensor step_gates(const at::Tensor& gates, CacheCursor& cache);
  /// W_ih x + b_ih of the first layer for the columns [first, first + x.size(-1)) of its input; the bias only with the
  /// first column. Inputs that are known earlier are multiplied earlier.
  at::Tensor input_gates(const at::Tensor& x, int64_t first) const;

  /// A state of zeros for as many sequences as `like` (batch, ...) has.
  Cache make_state(const at::Tensor& like) const;
  int64_t tensors_per_layer() const { return options_.cell == Cell::kLstm ? 2 : 1; }
  const RecurrentOptions& options() const { return options_; }

 private:
  struct Direction {
    at::Tensor weight_ih, weight_hh, bias_ih, bias_hh;
  };
  using Layer = std::vector<Direction>;

  struct State {
    at::Tensor h, c;  // c is undefined for a GRU
  };
  RecurrentOutput run_layer(const Layer& layer, const at::Tensor& x, const SequenceLayout& layout,
                            const std::vector<State>& initial) const;
  RecurrentOutput run_fused(const Layer& layer, const at::Tensor& x, const SequenceLayout& layout,
                            const std::vector<State>& initial) const;
  RecurrentOutput run_plain(const Layer& layer, const at::Tensor& x, const SequenceLayout& layout,
                            const std::vector<State>& initial) const;
  std::vector<State> initial_of(const Cache& state, int64_t layer) const;
  Direction make_direction(int64_t inputs, const std::string& suffix);

  RecurrentOptions options_;
  int64_t width_;  // of one direction
  std::vector<Layer> layers_;
  Dropout dropout_;
};
TORCH_MODULE(Recurrent);

}  // namespace fovea::nn
