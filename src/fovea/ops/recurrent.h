#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

namespace fovea::ops {

/// A layer of gated recurrent units (Cho et al. 2014; d2l 10.2) or of long short-term memory (Hochreiter and
/// Schmidhuber 1997; d2l 10.1) over sequences of different lengths, with torch's gates and names (nn.GRU, nn.LSTM).
///
/// `gates`: what the inputs add to the gates, W_ih x + b_ih, packed: (total, 3 hiddens) for r, z, n of a GRU, or
/// (total, 4 hiddens) for i, f, g, o of an LSTM. The number of gates says which of the two it is. `weight_hh`
/// (gates x hiddens, hiddens), `bias_hh` (gates x hiddens). `h0` and, for an LSTM, `c0`: (batch, hiddens). `lengths`:
/// int64 (batch) on the CPU, of each sequence in `gates`, one after the other; 0 is allowed. `reverse`: from each
/// sequence's last token to its first.
///
/// Returns the states (total, hiddens) in the order of `gates`, and the state after the last step of each sequence: h
/// and, for an LSTM, c, (batch, hiddens); an undefined c for a GRU. A sequence without tokens ends as it began.
///
/// One matrix product in a step, over the sequences that have that many tokens: padding costs nothing. The rest of a
/// step is one pass (Highway). Gradients of all arguments, once differentiable. CPU, float32 and float64. Throws
/// c10::Error for shapes, types and devices that do not fit.
std::tuple<at::Tensor, at::Tensor, at::Tensor> recurrent(const at::Tensor& gates, const at::Tensor& weight_hh,
                                                         const std::optional<at::Tensor>& bias_hh, const at::Tensor& h0,
                                                         const std::optional<at::Tensor>& c0, const at::Tensor& lengths,
                                                         bool reverse);

}  // namespace fovea::ops
