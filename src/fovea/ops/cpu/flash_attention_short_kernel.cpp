#include "fovea/ops/cpu/flash_attention_plain.h"

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "fovea/ops/cpu/flash_attention_short_kernel.cpp"
#include <hwy/foreach_target.h>

#include "fovea/ops/cpu/flash_attention_short-inl.h"
// After it: needs the target's macros.
#include <hwy/cache_control.h>
#include <hwy/contrib/math/math-inl.h>

HWY_BEFORE_NAMESPACE();
namespace fovea::ops::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR

void ShortForward(const AttentionHead<float>& head) {
  float scratch[kAttentionShortScores];
  attention_forward_plain(head, 0, head.queries, scratch);
}

void ShortBackward(const AttentionHead<float>& head, float* grad_query, int64_t stride) {
  float sums[kAttentionShortQueries * 256] = {};
  attention_backward_plain(head, 0, head.keys, sums);
  attention_finish_query_plain(sums, 1, 0, head, grad_query, stride);
}

#else

// A head whole. Scores lie as [key][query]: the softmax of many queries is then a loop over the keys without sums of
// lanes, and the words of dropout of four keys come out as four vectors. Fetching the next head's rows meanwhile was
// tried and gains nothing; writing large results past the caches gains a fifth of the forward pass.
class ShortHead {
 public:
  explicit ShortHead(const AttentionHead<float>& head)
      : h_(head), groups_((head.queries + kLanes - 1) / kLanes), ld_(attention_short_row(head.queries)) {
    for (int64_t i = 0; i < groups_ * kLanes; ++i) {
      begins_[i] = i < head.queries ? static_cast<int32_t>(HWY_MIN(head.row_begin(i), head.keys)) : 0;
      ends_[i] = i < head.queries ? static_cast<int32_t>(head.row_end(i)) : 0;
    }
    whole_ = true;
    for (int64_t i = 0; i < head.queries; ++i) whole_ = whole_ && begins_[i] == 0 && ends_[i] == head.keys;
  }

  void forward() {
    dots_of(h_.query, h_.query_stride, h_.key, h_.key_stride, h_.head_dim, weights_);
    HWY_ALIGN float lse[kLanes];
    for (int64_t g = 0; g < groups_; ++g) {
      float* weights = weights_ + g * kLanes;
      V largest, sum;
      exponentials(g, weights, largest, sum);
      const V share = hn::Div(hn::Set(d, static_cast<float>(h_.dropout.keep_scale)), sum);
      const auto empty = hn::Eq(sum, hn::Zero(d));
      scale_weights(g, weights, hn::IfThenZeroElse(empty, share));
      hn::Store(hn::IfThenElse(empty, hn::Set(d, kMinusInfinity), hn::Add(largest, hn::Log(d, sum))), d, lse);
      for (int64_t i = 0; i < HWY_MIN(kLanes, h_.queries - g * kLanes); ++i) {
        h_.lse[(g * kLanes + i) * h_.lse_stride] = lse[i];
      }
    }
    query_sums(weights_, h_.value, h_.value_stride, h_.value_dim, h_.output, h_.output_stride);
  }

  void backward(float* grad_query, int64_t grad_query_stride) {
    dots_of(h_.query, h_.query_stride, h_.key, h_.key_stride, h_.head_dim, weights_);
    dots_of(h_.grad_output, h_.grad_output_stride, h_.value, h_.value_stride, h_.value_dim, grads_);
    for (int64_t g = 0; g < groups_; ++g) differentiate(g);
    query_sums(grads_, h_.key, h_.key_stride, h_.head_dim, grad_query, grad_query_stride);
    key_sums(grads_, h_.query, h_.query_stride, h_.head_dim, h_.grad_key, h_.grad_key_stride);
    key_sums(weights_, h_.grad_output, h_.grad_output_stride, h_.value_dim, h_.grad_value, h_.grad_value_stride);
  }

 private:
  // Those of the queries [row, row + rows) that see a key lie within [first, last).
  void keys_of(int64_t row, int64_t rows, int64_t& first, int64_t& last) const {
    first = whole_ ? 0 : h_.keys;
    last = whole_ ? h_.keys : 0;
    if (whole_) return;
    for (int64_t r = row; r < row + rows; ++r) {
      if (begins_[r] >= ends_[r]) continue;
      first = HWY_MIN(first, begins_[r]);
      last = HWY_MAX(last, ends_[r]);
    }
    first = HWY_MIN(first, last);
  }

  // out[key][query] = a_query . b_key where a query may see the key.
  void dots_of(const float* a, int64_t lda, const float* b, int64_t ldb, int64_t depth, float* out) const {
    for (int64_t row = 0; row < h_.queries; row += 4) {
      const int64_t rows = HWY_MIN(4, h_.queries - row);
      int64_t first, last;
      keys_of(row, rows, first, last);
      dots(rows, last - first, a + row * lda, lda, b + first * ldb, ldb, depth, out + first * ld_ + row, ld_);
    }
  }

  // Scores to exponentials of their distance to the largest; 0 where a query may not look.
  void exponentials(int64_t g, float* scores, V& largest, V& sum) const {
    const V scale = hn::Set(d, static_cast<float>(h_.scale));
    const auto begin = hn::Load(di, begins_ + g * kLanes), end = hn::Load(di, ends_ + g * kLanes);
    largest = hn::Set(d, kMinusInfinity);
    for (int64_t j = 0; j < h_.keys; ++j) {
      V score = hn::Mul(hn::LoadU(d, scores + j * ld_), scale);
      if (!whole_) {
        const auto at = hn::Set(di, static_cast<int32_t>(j));
        const auto seen = hn::AndNot(hn::Lt(at, begin), hn::Lt(at, end));
        score = hn::IfThenElse(hn::RebindMask(d, seen), score, hn::Set(d, kMinusInfinity));
      }
      largest = hn::Max(largest, score);
      hn::StoreU(score, d, scores + j * ld_);
    }
    sum = hn::Zero(d);
    // Where a query sees nothing, -inf less -inf would be NaN.
    const V shift = hn::IfThenZeroElse(hn::Eq(largest, hn::Set(d, kMinusInfinity)), largest);
    for (int64_t j = 0; j < h_.keys; ++j) {
      const V weight = exp(hn::Sub(hn::LoadU(d, scores + j * ld_), shift));
      sum = hn::Add(sum, weight);
      hn::StoreU(weight, d, scores + j * ld_);
    }
  }

  // Calls use(key, which of its queries stay).
  template <class Use>
  HWY_INLINE void draw(int64_t g, const Use& use) const {
    const auto limit = hn::Set(du, static_cast<uint32_t>(h_.dropout.threshold - 1));
    const auto rows = hn::Iota(du, static_cast<uint32_t>(g * kLanes));
    for (int64_t j = 0; j < h_.keys; j += 4) {
      hn::Vec<DU> words[4] = {hn::Set(du, static_cast<uint32_t>(j / 4)), rows, hn::Set(du, h_.dropout.sequence),
                              hn::Set(du, h_.dropout.head)};
      philox_words(words, h_.dropout.key);
      const int64_t count = HWY_MIN(4, h_.keys - j);
#pragma GCC unroll 4
      for (int64_t i = 0; i < 4; ++i) {
        if (i < count) use(j + i, hn::RebindMask(d, hn::Gt(words[i], limit)));
      }
    }
  }

  void scale_weights(int64_t g, float* weights, V factor) const {
    if (h_.dropout.threshold == 0) {
      for (int64_t j = 0; j < h_.keys; ++j) {
        hn::StoreU(hn::Mul(hn::LoadU(d, weights + j * ld_), factor), d, weights + j * ld_);
      }
      return;
    }
    draw(g, [&](int64_t j, hn::Mask<D> keep) HWY_ATTR {
      const V weight = hn::Mul(hn::LoadU(d, weights + j * ld_), factor);
      hn::StoreU(hn::IfThenElseZero(keep, weight), d, weights + j * ld_);
    });
  }

  // Scores and gradients of the dropped weights to dropped weights and gradients of the dot products.
  void differentiate(int64_t g) {
    float *p = weights_ + g * kLanes, *grads = grads_ + g * kLanes;
    V largest, sum, delta = hn::Zero(d);
    exponentials(g, p, largest, sum);
    const V share = hn::IfThenZeroElse(hn::Eq(sum, hn::Zero(d)), hn::Div(hn::Set(d, 1.0f), sum));
    const V scale = hn::Set(d, static_cast<float>(h_.scale));
    // Where a query may not look, anything may stand in grads: its weight is 0, and it must count as 0 too.
    const auto grad_at = [&](int64_t j, V weight) HWY_ATTR {
      const V grad = hn::LoadU(d, grads + j * ld_);
      return whole_ ? grad : hn::IfThenElseZero(hn::Gt(weight, hn::Zero(d)), grad);
    };
    if (h_.dropout.threshold == 0) {
      for (int64_t j = 0; j < h_.keys; ++j) {
        const V weight = hn::Mul(hn::LoadU(d, p + j * ld_), share);
        delta = hn::MulAdd(weight, grad_at(j, weight), delta);
        hn::StoreU(weight, d, p + j * ld_);
      }
      for (int64_t j = 0; j < h_.keys; ++j) {
        const V weight = hn::LoadU(d, p + j * ld_);
        const V grad = hn::Mul(hn::Mul(weight, scale), hn::Sub(grad_at(j, weight), delta));
        hn::StoreU(grad, d, grads + j * ld_);
      }
      return;
    }
    const V keep_scale = hn::Set(d, static_cast<float>(h_.dropout.keep_scale));
    draw(g, [&](int64_t j, hn::Mask<D> keep) HWY_ATTR {
      const V weight = hn::Mul(hn::LoadU(d, p + j * ld_), share);
      const V grad = hn::IfThenElseZero(keep, hn::Mul(grad_at(j, weight), keep_scale));
      delta = hn::MulAdd(weight, grad, delta);
      hn::Store(weight, d, undropped_ + j * kLanes);
      hn::StoreU(grad, d, grads + j * ld_);
      hn::StoreU(hn::IfThenElseZero(keep, hn::Mul(weight, keep_scale)), d, p + j * ld_);
    });
    for (int64_t j = 0; j < h_.keys; ++j) {
      const V weight = hn::Mul(hn::Load(d, undropped_ + j * kLanes), scale);
      hn::StoreU(hn::Mul(weight, hn::Sub(hn::LoadU(d, grads + j * ld_), delta)), d, grads + j * ld_);
    }
  }

  // out_query = sum over the keys it sees of w[key][query] x_key.
  void query_sums(const float* w, const float* x, int64_t ldx, int64_t columns, float* out, int64_t ldo) const {
    int64_t panels = (h_.queries + kSumRows - 1) / kSumRows;
    for (int64_t row = 0; panels > 0; --panels) {
      const int64_t rows = (h_.queries - row + panels - 1) / panels;
      int64_t first, last;
      keys_of(row, rows, first, last);
      sums<false>(rows, w + first * ld_ + row, ld_, x + first * ldx, ldx, last - first, out + row * ldo, ldo, columns,
                  h_.stream);
      row += rows;
    }
  }

  // out_key = sum over the queries that see it of w[key][query] x_query.
  void key_sums(const float* w, const float* x, int64_t ldx, int64_t columns, float* out, int64_t ldo) const {
    int64_t panels = (h_.keys + kSumRows - 1) / kSumRows;
    for (int64_t key = 0; panels > 0; --panels) {
      const int64_t keys = (h_.keys - key + panels - 1) / panels;
      int64_t first = whole_ ? 0 : h_.queries, last = whole_ ? h_.queries : 0;
      for (int64_t r = 0; r < h_.queries && !whole_; ++r) {
        if (begins_[r] >= key + keys || ends_[r] <= key || begins_[r] >= ends_[r]) continue;
        first = HWY_MIN(first, r);
        last = r + 1;
      }
      first = HWY_MIN(first, last);
      sums<true>(keys, w + key * ld_ + first, ld_, x + first * ldx, ldx, last - first, out + key * ldo, ldo, columns,
                 h_.stream);
      key += keys;
    }
  }

  const AttentionHead<float>& h_;
  int64_t groups_, ld_;
  bool whole_;  // all queries see all keys
  HWY_ALIGN int32_t begins_[kAttentionShortQueries], ends_[kAttentionShortQueries];
  HWY_ALIGN float weights_[kAttentionShortScores], grads_[kAttentionShortScores];  // [key][query]
  HWY_ALIGN float undropped_[kAttentionShortScores];                               // [key][query of one group]
};

void ShortForward(const AttentionHead<float>& head) {
  ShortHead(head).forward();
  if (head.stream) hwy::FlushStream();
}

void ShortBackward(const AttentionHead<float>& head, float* grad_query, int64_t stride) {
  ShortHead(head).backward(grad_query, stride);
  if (head.stream) hwy::FlushStream();
}

#endif  // HWY_TARGET

}  // namespace fovea::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea::ops {

HWY_EXPORT(ShortForward);
HWY_EXPORT(ShortBackward);

void attention_short_forward(const AttentionHead<float>& head) {
  HWY_DYNAMIC_DISPATCH(ShortForward)(head);
}

void attention_short_backward(const AttentionHead<float>& head, float* grad_query, int64_t stride) {
  HWY_DYNAMIC_DISPATCH(ShortBackward)(head, grad_query, stride);
}

}  // namespace fovea::ops
#endif  // HWY_ONCE
