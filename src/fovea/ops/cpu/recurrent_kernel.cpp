#include "fovea/ops/cpu/recurrent_kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "fovea/ops/cpu/recurrent_kernel.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <hwy/contrib/math/math-inl.h>

HWY_BEFORE_NAMESPACE();
namespace fovea::ops::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class D, class V = hn::Vec<D>>
HWY_INLINE V Sigmoid(D d, V x) {
  const V one = hn::Set(d, hn::TFromD<D>(1));
  return hn::Div(one, hn::Add(one, hn::Exp(d, hn::Neg(x))));
}

// d s(x) / dx of s = sigmoid(x).
template <class D, class V = hn::Vec<D>>
HWY_INLINE V SigmoidSlope(D d, V s) {
  return hn::Mul(s, hn::Sub(hn::Set(d, hn::TFromD<D>(1)), s));
}

// d tanh(x) / dx of t = tanh(x).
template <class D, class V = hn::Vec<D>>
HWY_INLINE V TanhSlope(D d, V t) {
  return hn::NegMulAdd(t, t, hn::Set(d, hn::TFromD<D>(1)));
}

template <class D, typename T = hn::TFromD<D>>
HWY_INLINE void Block(D d, const GruStep<T>& s, int64_t j) {
  const int64_t n = s.hiddens;
  const auto sum = [&](int64_t gate) {
    return hn::Add(hn::LoadU(d, s.gx + gate * n + j), hn::LoadU(d, s.gh + gate * n + j));
  };
  const auto r = Sigmoid(d, sum(0)), z = Sigmoid(d, sum(1));
  const auto gh_n = hn::LoadU(d, s.gh + 2 * n + j);
  const auto candidate = hn::Tanh(d, hn::MulAdd(r, gh_n, hn::LoadU(d, s.gx + 2 * n + j)));
  hn::StoreU(r, d, s.kept + j);
  hn::StoreU(z, d, s.kept + n + j);
  hn::StoreU(candidate, d, s.kept + 2 * n + j);
  hn::StoreU(gh_n, d, s.kept + 3 * n + j);
  // candidate + z (h_prev - candidate)
  hn::StoreU(hn::MulAdd(z, hn::Sub(hn::LoadU(d, s.h_prev + j), candidate), candidate), d, s.h + j);
}

template <class D, typename T = hn::TFromD<D>>
HWY_INLINE void Block(D d, const GruStepBackward<T>& s, int64_t j) {
  const int64_t n = s.hiddens;
  const auto r = hn::LoadU(d, s.kept + j), z = hn::LoadU(d, s.kept + n + j);
  const auto candidate = hn::LoadU(d, s.kept + 2 * n + j), gh_n = hn::LoadU(d, s.kept + 3 * n + j);
  const auto grad = hn::LoadU(d, s.grad_h + j);
  const auto grad_z = hn::Mul(hn::Mul(grad, hn::Sub(hn::LoadU(d, s.h_prev + j), candidate)), SigmoidSlope(d, z));
  const auto grad_n = hn::Mul(hn::NegMulAdd(grad, z, grad), TanhSlope(d, candidate));
  const auto grad_r = hn::Mul(hn::Mul(grad_n, gh_n), SigmoidSlope(d, r));
  for (T* out : {s.grad_gx, s.grad_gh}) {
    hn::StoreU(grad_r, d, out + j);
    hn::StoreU(grad_z, d, out + n + j);
  }
  hn::StoreU(grad_n, d, s.grad_gx + 2 * n + j);
  hn::StoreU(hn::Mul(grad_n, r), d, s.grad_gh + 2 * n + j);
  hn::StoreU(hn::Mul(grad, z), d, s.grad_h_prev + j);
}

template <class D, typename T = hn::TFromD<D>>
HWY_INLINE void Block(D d, const LstmStep<T>& s, int64_t j) {
  const int64_t n = s.hiddens;
  const auto sum = [&](int64_t gate) {
    return hn::Add(hn::LoadU(d, s.gx + gate * n + j), hn::LoadU(d, s.gh + gate * n + j));
  };
  const auto i = Sigmoid(d, sum(0)), f = Sigmoid(d, sum(1));
  const auto g = hn::Tanh(d, sum(2));
  const auto o = Sigmoid(d, sum(3));
  hn::StoreU(i, d, s.kept + j);
  hn::StoreU(f, d, s.kept + n + j);
  hn::StoreU(g, d, s.kept + 2 * n + j);
  hn::StoreU(o, d, s.kept + 3 * n + j);
  const auto c = hn::MulAdd(i, g, hn::Mul(f, hn::LoadU(d, s.c_prev + j)));
  hn::StoreU(c, d, s.c + j);
  hn::StoreU(hn::Mul(o, hn::Tanh(d, c)), d, s.h + j);
}

template <class D, typename T = hn::TFromD<D>>
HWY_INLINE void Block(D d, const LstmStepBackward<T>& s, int64_t j) {
  const int64_t n = s.hiddens;
  const auto i = hn::LoadU(d, s.kept + j), f = hn::LoadU(d, s.kept + n + j);
  const auto g = hn::LoadU(d, s.kept + 2 * n + j), o = hn::LoadU(d, s.kept + 3 * n + j);
  const auto c_prev = hn::LoadU(d, s.c_prev + j);
  const auto t = hn::Tanh(d, hn::MulAdd(i, g, hn::Mul(f, c_prev)));  // of c: quicker made again than kept
  const auto grad_h = hn::LoadU(d, s.grad_h + j);
  const auto grad_c = hn::MulAdd(hn::Mul(grad_h, o), TanhSlope(d, t), hn::LoadU(d, s.grad_c + j));
  hn::StoreU(hn::Mul(hn::Mul(grad_c, g), SigmoidSlope(d, i)), d, s.grad_gates + j);
  hn::StoreU(hn::Mul(hn::Mul(grad_c, c_prev), SigmoidSlope(d, f)), d, s.grad_gates + n + j);
  hn::StoreU(hn::Mul(hn::Mul(grad_c, i), TanhSlope(d, g)), d, s.grad_gates + 2 * n + j);
  hn::StoreU(hn::Mul(hn::Mul(grad_h, t), SigmoidSlope(d, o)), d, s.grad_gates + 3 * n + j);
  hn::StoreU(hn::Mul(grad_c, f), d, s.grad_c_prev + j);
}

template <typename T, class Step>
HWY_INLINE void Blocks(const Step& step) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t j = 0;
  for (; j + lanes <= step.hiddens; j += lanes) Block(d, step, j);
  const hn::CappedTag<T, 1> one;
  for (; j < step.hiddens; ++j) Block(one, step, j);
}

// Dispatch is by name, so each step and type has its own.
void GruFloat(const GruStep<float>& step) {
  Blocks<float>(step);
}
void GruBackwardFloat(const GruStepBackward<float>& step) {
  Blocks<float>(step);
}
void LstmFloat(const LstmStep<float>& step) {
  Blocks<float>(step);
}
void LstmBackwardFloat(const LstmStepBackward<float>& step) {
  Blocks<float>(step);
}

void GruDouble(const GruStep<double>& step) {
  Blocks<double>(step);
}
void GruBackwardDouble(const GruStepBackward<double>& step) {
  Blocks<double>(step);
}
void LstmDouble(const LstmStep<double>& step) {
  Blocks<double>(step);
}
void LstmBackwardDouble(const LstmStepBackward<double>& step) {
  Blocks<double>(step);
}
}  // namespace fovea::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea::ops {

HWY_EXPORT(GruFloat);
HWY_EXPORT(GruDouble);
HWY_EXPORT(GruBackwardFloat);
HWY_EXPORT(GruBackwardDouble);
HWY_EXPORT(LstmFloat);
HWY_EXPORT(LstmDouble);
HWY_EXPORT(LstmBackwardFloat);
HWY_EXPORT(LstmBackwardDouble);

void run(const GruStep<float>& step) {
  HWY_DYNAMIC_DISPATCH(GruFloat)(step);
}
void run(const GruStep<double>& step) {
  HWY_DYNAMIC_DISPATCH(GruDouble)(step);
}
void run(const GruStepBackward<float>& step) {
  HWY_DYNAMIC_DISPATCH(GruBackwardFloat)(step);
}
void run(const GruStepBackward<double>& step) {
  HWY_DYNAMIC_DISPATCH(GruBackwardDouble)(step);
}
void run(const LstmStep<float>& step) {
  HWY_DYNAMIC_DISPATCH(LstmFloat)(step);
}
void run(const LstmStep<double>& step) {
  HWY_DYNAMIC_DISPATCH(LstmDouble)(step);
}
void run(const LstmStepBackward<float>& step) {
  HWY_DYNAMIC_DISPATCH(LstmBackwardFloat)(step);
}
void run(const LstmStepBackward<double>& step) {
  HWY_DYNAMIC_DISPATCH(LstmBackwardDouble)(step);
}

}  // namespace fovea::ops
#endif  // HWY_ONCE
