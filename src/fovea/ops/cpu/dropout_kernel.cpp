#include "fovea/ops/cpu/dropout_kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "fovea/ops/cpu/dropout_kernel.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "fovea/ops/cpu/philox-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::ops::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR

void DropoutRow(const float* in, float* out, int64_t columns, RowIndex index, const DropoutDraw& draw) {
  dropout_row<float>(in, out, columns, index, draw);
}

#else

void DropoutRow(const float* HWY_RESTRICT in, float* HWY_RESTRICT out, int64_t columns, RowIndex index,
                const DropoutDraw& draw) {
  const hn::ScalableTag<uint32_t> d;
  const hn::ScalableTag<float> df;
  using V = hn::Vec<decltype(d)>;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  // threshold - 1 fits 32 bits unless p = 0 (handled by the caller): keep when word > threshold - 1.
  const V limit = hn::Set(d, static_cast<uint32_t>(draw.threshold - 1));
  const float scale = static_cast<float>(draw.keep_scale);
  const auto factor = hn::Set(df, scale);
  HWY_ALIGN uint32_t words[4 * HWY_MAX_BYTES / sizeof(uint32_t)];
  for (int64_t j = 0; j < columns; j += 4 * lanes) {
    V c[4] = {hn::Iota(d, static_cast<uint32_t>(j / 4)), hn::Set(d, index.row), hn::Set(d, index.sequence),
              hn::Set(d, index.head)};
    philox_words(c, draw.key);
    hn::StoreInterleaved4(c[0], c[1], c[2], c[3], d, words);
    const int64_t count = columns - j < 4 * lanes ? columns - j : 4 * lanes;
    int64_t i = 0;
    for (; i + lanes <= count; i += lanes) {
      const auto keep = hn::RebindMask(df, hn::Gt(hn::Load(d, words + i), limit));
      hn::StoreU(hn::IfThenElseZero(keep, hn::Mul(hn::LoadU(df, in + j + i), factor)), df, out + j + i);
    }
    for (; i < count; ++i) out[j + i] = words[i] >= draw.threshold ? in[j + i] * scale : 0.0f;
  }
}

#endif  // HWY_TARGET

}  // namespace fovea::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea::ops {

HWY_EXPORT(DropoutRow);

void dropout_row(const float* in, float* out, int64_t columns, RowIndex index, const DropoutDraw& draw) {
  if (draw.threshold == 0) {  // p below 2^-32: nothing can be dropped
    for (int64_t j = 0; j < columns; ++j) out[j] = in[j];
    return;
  }
  HWY_DYNAMIC_DISPATCH(DropoutRow)(in, out, columns, index, draw);
}

}  // namespace fovea::ops
#endif  // HWY_ONCE
