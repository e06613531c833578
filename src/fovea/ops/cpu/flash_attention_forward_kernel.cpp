#include <cmath>

#include "fovea/ops/cpu/flash_attention_plain.h"

// Three tiers are enough; each costs seconds to compile.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "fovea/ops/cpu/flash_attention_forward_kernel.cpp"
#include <hwy/foreach_target.h>

#include "fovea/ops/cpu/flash_attention-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::ops::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR

void Forward(const AttentionHead<float>& head, int64_t begin, int64_t end, float* scratch) {
  attention_forward_plain(head, begin, end, scratch);
}

#else

// One block of queries on its way over the keys.
class ForwardBlock {
 public:
  ForwardBlock(const AttentionHead<float>& head, float* scratch)
      : h_(head),
        tile_(attention_forward_tile(head.head_dim, head.value_dim, head.keys)),
        key_row_(round_up(tile_) + kLanes),
        value_row_(round_up(head.value_dim)),
        rows_max_(HWY_MIN(head.queries, kAttentionQueryBlock)),
        pack_value_(head.value_dim % kLanes != 0 || (head.value_stride != head.value_dim && head.queries > kPanel)) {
    query_ = scratch;
    key_ = query_ + rows_max_ * kRow;
    value_ = key_ + head.head_dim * key_row_;
    scores_ = value_ + tile_ * value_row_;
    sums_ = scores_ + kPanel * kRow;
    output_ = sums_ + rows_max_ * kLanes;
    words_ = reinterpret_cast<uint32_t*>(output_ + rows_max_ * value_row_);
  }

  void run(int64_t first_row, int64_t rows) {
    first_row_ = first_row;
    int64_t from = h_.keys, to = 0;
    for (int64_t r = 0; r < rows; ++r) {
      begins_[r] = h_.row_begin(first_row + r);
      ends_[r] = h_.row_end(first_row + r);
      largest_[r] = kMinusInfinity;
      from = HWY_MIN(from, begins_[r]);
      to = HWY_MAX(to, ends_[r]);
    }
    // Panels of about equal height.
    panels_ = (rows + kPanel - 1) / kPanel;
    for (int64_t p = 0; p < panels_; ++p) {
      starts_[p] = rows * p / panels_;
      started_[p] = false;
    }
    starts_[panels_] = rows;
    pack_rows(h_.query + first_row * h_.query_stride, h_.query_stride, rows, h_.head_dim, query_, kRow);
    for (int64_t tile = from / tile_ * tile_; tile < to; tile += tile_) visit(tile, HWY_MIN(tile_, to - tile));
    for (int64_t p = 0; p < panels_; ++p) finish(p);
  }

 private:
  void visit(int64_t tile, int64_t width) {
    pack_transposed(h_.key + tile * h_.key_stride, h_.key_stride, width, h_.head_dim, static_cast<float>(h_.scale),
                    key_, key_row_);
    const float* value = h_.value + tile * h_.value_stride;
    int64_t value_row = h_.value_stride;
    if (pack_value_) {
      pack_rows(value, h_.value_stride, width, h_.value_dim, value_, value_row_);
      value = value_;
      value_row = value_row_;
    }
    for (int64_t p = 0; p < panels_; ++p) {
      const int64_t row = starts_[p], rows = starts_[p + 1] - row;
      Window w;
      make_window(begins_ + row, ends_ + row, rows, tile, width, w);
      const int64_t vectors = w.last_vector - w.first_vector, column = w.first_vector * kLanes;
      if (vectors <= 0) continue;
      multiply<false, false>(query_ + row * kRow, key_ + column, key_row_, scores_ + column, kRow, rows, vectors,
                             h_.head_dim);
      soften(p, tile, w);
      const int64_t depth = HWY_MIN(width, w.last_vector * kLanes) - column;
      float* out = output_ + row * value_row_;
      const auto add = started_[p] ? multiply<false, true> : multiply<false, false>;
      add(scores_ + column, value + column * value_row, value_row, out, value_row_, rows, value_row_ / kLanes, depth);
      started_[p] = true;
    }
  }

  // Scores to weights relative to the largest score so far; sums and outputs follow when that one grows.
  void soften(int64_t p, int64_t tile, const Window& w) {
    const int64_t row = starts_[p], rows = starts_[p + 1] - row;
    const int64_t from = w.first_vector * kLanes, to = w.last_vector * kLanes;
    const bool drops = h_.dropout.threshold != 0;
    const int64_t blocks = (to - from) / 4;
    if (drops) draw_words(h_.dropout, first_row_ + row, rows, (tile + from) / 4, blocks, words_);
    const auto limit = hn::Set(du, static_cast<uint32_t>(h_.dropout.threshold - 1));
    for (int64_t r = 0; r < rows; ++r) {
      float* scores = scores_ + r * kRow;
      const float* bias = h_.bias;
      if (bias != nullptr) bias += (first_row_ + row + r) * h_.bias_row_stride + tile * h_.bias_column_stride;
      restrict_scores(scores, w, r, bias, h_.bias_column_stride);
      V largest = hn::LoadU(d, scores + from);
      for (int64_t c = from + kLanes; c < to; c += kLanes) largest = hn::Max(largest, hn::LoadU(d, scores + c));
      const float before = largest_[row + r];
      largest = hn::Max(hn::MaxOfLanes(d, largest), hn::Set(d, before));
      float* sum = sums_ + (row + r) * kLanes;
      if (sees_nothing(scores, from, to, largest)) {
        fill(scores, from, to, 0.0f);
        hn::Store(hn::Zero(d), d, sum);
        continue;
      }
      const float now = hn::GetLane(largest);
      V total = hn::Zero(d);
      if (!drops) {
        for (int64_t c = from; c < to; c += kLanes) {
          const V weight = exp(hn::Sub(hn::LoadU(d, scores + c), largest));
          total = hn::Add(total, weight);
          hn::StoreU(weight, d, scores + c);
        }
      } else {
        const uint32_t* words = words_ + r * 4 * blocks - from;
        for (int64_t c = from; c < to; c += kLanes) {
          const V weight = exp(hn::Sub(hn::LoadU(d, scores + c), largest));
          total = hn::Add(total, weight);
          const auto keep = hn::RebindMask(d, hn::Gt(hn::LoadU(du, words + c), limit));
          hn::StoreU(hn::IfThenElseZero(keep, weight), d, scores + c);
        }
      }
      if (before == kMinusInfinity) {
        hn::Store(total, d, sum);
      } else {
        const V shrink = exp(hn::Sub(hn::Set(d, before), largest));
        hn::Store(hn::MulAdd(hn::Load(d, sum), shrink, total), d, sum);
        if (now > before) {
          float* out = output_ + (row + r) * value_row_;
          for (int64_t c = 0; c < value_row_; c += kLanes)
            hn::StoreU(hn::Mul(hn::LoadU(d, out + c), shrink), d, out + c);
        }
      }
      largest_[row + r] = now;
    }
  }

  void finish(int64_t p) {
    for (int64_t r = starts_[p]; r < starts_[p + 1]; ++r) {
      const int64_t row = first_row_ + r;
      float *out = h_.output + row * h_.output_stride, *lse = h_.lse + row * h_.lse_stride;
      if (!started_[p] || largest_[r] == kMinusInfinity) {
        for (int64_t c = 0; c < h_.value_dim; ++c) out[c] = 0.0f;
        *lse = kMinusInfinity;
        continue;
      }
      const float sum = hn::GetLane(hn::SumOfLanes(d, hn::Load(d, sums_ + r * kLanes)));
      const V factor = hn::Set(d, static_cast<float>(h_.dropout.keep_scale) / sum);
      store_row(output_ + r * value_row_, factor, h_.value_dim, out);
      *lse = largest_[r] + std::log(sum);
    }
  }

  const AttentionHead<float>& h_;
  int64_t tile_, key_row_, value_row_, rows_max_;
  bool pack_value_;
  float *query_, *key_, *value_, *scores_, *sums_, *output_;
  uint32_t* words_;
  int64_t first_row_ = 0, panels_ = 0;
  static constexpr int64_t kMaxPanels = kAttentionQueryBlock / kPanel;
  int64_t starts_[kMaxPanels + 1];
  bool started_[kMaxPanels];
  int64_t begins_[kAttentionQueryBlock], ends_[kAttentionQueryBlock];
  float largest_[kAttentionQueryBlock];
};

void Forward(const AttentionHead<float>& head, int64_t begin, int64_t end, float* scratch) {
  ForwardBlock block(head, scratch);
  for (int64_t row = begin; row < end; row += kAttentionQueryBlock) {
    block.run(row, HWY_MIN(end - row, kAttentionQueryBlock));
  }
}

#endif  // HWY_TARGET

}  // namespace fovea::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea::ops {

HWY_EXPORT(Forward);

int64_t attention_forward_scratch(const AttentionHead<float>& h) {
  const int64_t tile = attention_forward_tile(h.head_dim, h.value_dim, h.keys);
  const int64_t rows = std::min(h.queries, kAttentionQueryBlock), value_row = attention_padded_dim(h.value_dim);
  constexpr int64_t kRow = 272, kLanes = 16, kPanel = 12;  // the widest target's
  return rows * (kRow + kLanes + value_row) + h.head_dim * (tile + 2 * kLanes) + tile * value_row + kPanel * kRow +
         kPanel * (tile + kLanes) + 8 * kLanes;
}

void attention_forward(const AttentionHead<float>& head, int64_t begin, int64_t end, float* scratch) {
  HWY_DYNAMIC_DISPATCH(Forward)(head, begin, end, scratch);
}

void attention_forward(const AttentionHead<double>& head, int64_t begin, int64_t end, double* scratch) {
  attention_forward_plain(head, begin, end, scratch);
}

}  // namespace fovea::ops
#endif  // HWY_ONCE
