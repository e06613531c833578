#pragma once

#include <cstdint>

/// The elementwise part of recurrent cells, one sequence at one step: everything but the matrix products. Compiled for
/// each SIMD target. T is float or double; all arrays have `hiddens` numbers for each gate. Outputs alias no input.
namespace fovea::ops {

/// One step of a GRU with torch's gates r, z, n: h = (1 - z) n + z h_prev, n = tanh(gx_n + r gh_n).
/// gx (3 x hiddens) and gh (3 x hiddens): the products of input and state, biases included. `kept` (4 x hiddens) gets
/// r, z, n and gh_n, for the backward step.
template <typename T>
struct GruStep {
  int64_t hiddens;
  const T *gx, *gh, *h_prev;
  T *kept, *h;
};

/// grad_h: of h. grad_gx and grad_gh (3 x hiddens) get the gradients of gx and gh, grad_h_prev that part of h_prev's
/// that does not go through gh.
template <typename T>
struct GruStepBackward {
  int64_t hiddens;
  const T *kept, *h_prev, *grad_h;
  T *grad_gx, *grad_gh, *grad_h_prev;
};

/// One step of an LSTM with torch's gates i, f, g, o: c = f c_prev + i g, h = o tanh(c). gx and gh (4 x hiddens) are
/// added up. `kept` (4 x hiddens) gets the four gates.
template <typename T>
struct LstmStep {
  int64_t hiddens;
  const T *gx, *gh, *c_prev;
  T *kept, *h, *c;
};

/// grad_h and grad_c: of h and c. grad_gates (4 x hiddens) gets the gradient of gx, which is that of gh.
template <typename T>
struct LstmStepBackward {
  int64_t hiddens;
  const T *kept, *c_prev, *grad_h, *grad_c;
  T *grad_gates, *grad_c_prev;
};

void run(const GruStep<float>& step);
void run(const GruStep<double>& step);
void run(const GruStepBackward<float>& step);
void run(const GruStepBackward<double>& step);
void run(const LstmStep<float>& step);
void run(const LstmStep<double>& step);
void run(const LstmStepBackward<float>& step);
void run(const LstmStepBackward<double>& step);

}  // namespace fovea::ops
