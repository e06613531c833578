#include "fovea/data/image_kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "fovea/data/image_kernel.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace fovea::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline uint8_t weigh_column(const uint8_t* rows, int64_t stride, const int32_t* weights, int64_t count) {
  int32_t sum = 1 << 21;
  for (int64_t i = 0; i < count; ++i) sum += weights[i] * rows[i * stride];
  const int32_t value = sum >> 22;
  return static_cast<uint8_t>(value < 0 ? 0 : value > 255 ? 255 : value);
}

void ResizeRow(const uint8_t* HWY_RESTRICT rows, int64_t stride, const int32_t* HWY_RESTRICT weights, int64_t count,
               uint8_t* HWY_RESTRICT out, int64_t columns) {
  int64_t x = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<int32_t> d;
  const hn::Rebind<uint8_t, decltype(d)> d8;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto half = hn::Set(d, 1 << 21);
  for (; x + lanes <= columns; x += lanes) {
    auto sum = half;
    for (int64_t i = 0; i < count; ++i) {
      const auto pixels = hn::PromoteTo(d, hn::LoadU(d8, rows + i * stride + x));
      sum = hn::Add(sum, hn::Mul(pixels, hn::Set(d, weights[i])));
    }
    hn::StoreU(hn::DemoteTo(d8, hn::ShiftRight<22>(sum)), d8, out + x);  // DemoteTo clips
  }
#endif
  for (; x < columns; ++x) out[x] = weigh_column(rows + x, stride, weights, count);
}

void NormaliseRow(const uint8_t* HWY_RESTRICT in, float* HWY_RESTRICT out, int64_t count, float mean, float stddev) {
  int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::Rebind<uint8_t, decltype(d)> d8;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto most = hn::Set(d, 255.0f), center = hn::Set(d, mean), spread = hn::Set(d, stddev);
  for (; i + lanes <= count; i += lanes) {
    const auto pixels = hn::ConvertTo(d, hn::PromoteTo(di, hn::LoadU(d8, in + i)));
    hn::StoreU(hn::Div(hn::Sub(hn::Div(pixels, most), center), spread), d, out + i);
  }
#endif
  for (; i < count; ++i) out[i] = (static_cast<float>(in[i]) / 255.0f - mean) / stddev;
}

void MixRow(const float* HWY_RESTRICT a, const float* HWY_RESTRICT b, float* HWY_RESTRICT out, int64_t count,
            float share) {
  const float rest = 1.0f - share;
  int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto of_a = hn::Set(d, share), of_b = hn::Set(d, rest);
  for (; i + lanes <= count; i += lanes) {
    hn::StoreU(hn::MulAdd(of_a, hn::LoadU(d, a + i), hn::Mul(of_b, hn::LoadU(d, b + i))), d, out + i);
  }
#endif
  for (; i < count; ++i) out[i] = share * a[i] + rest * b[i];
}

}  // namespace fovea::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea::data {

HWY_EXPORT(ResizeRow);
HWY_EXPORT(NormaliseRow);
HWY_EXPORT(MixRow);

void resize_row(const uint8_t* rows, int64_t stride, const int32_t* weights, int64_t count, uint8_t* out,
                int64_t columns) {
  HWY_DYNAMIC_DISPATCH(ResizeRow)(rows, stride, weights, count, out, columns);
}

void normalise_row(const uint8_t* in, float* out, int64_t count, float mean, float stddev) {
  HWY_DYNAMIC_DISPATCH(NormaliseRow)(in, out, count, mean, stddev);
}

void mix_row(const float* a, const float* b, float* out, int64_t count, float share) {
  HWY_DYNAMIC_DISPATCH(MixRow)(a, b, out, count, share);
}

}  // namespace fovea::data
#endif  // HWY_ONCE
