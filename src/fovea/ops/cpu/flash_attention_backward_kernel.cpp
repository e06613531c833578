#include <cmath>

#include "fovea/ops/cpu/flash_attention_plain.h"

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "fovea/ops/cpu/flash_attention_backward_kernel.cpp"
#include <hwy/foreach_target.h>

#include "fovea/ops/cpu/flash_attention-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea::ops::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR

void Backward(const AttentionHead<float>& head, int64_t begin, int64_t end, float* grad_query_sum, float*) {
  attention_backward_plain(head, begin, end, grad_query_sum);
}

void FinishQuery(const float* sums, int64_t parts, int64_t part_stride, const AttentionHead<float>& head, float* out,
                 int64_t out_stride) {
  attention_finish_query_plain(sums, parts, part_stride, head, out, out_stride);
}

#else

// Key tiles on the outside, query tiles on the inside: a tile's grad_key and grad_value are sums of this task alone.
class BackwardTask {
 public:
  BackwardTask(const AttentionHead<float>& head, float* grad_query_sum, float* scratch)
      : h_(head),
        tile_(attention_backward_tile(head.head_dim, head.value_dim, head.keys)),
        rows_max_(attention_backward_rows(head.queries)),
        column_row_(round_up(tile_) + kLanes),
        key_dim_(round_up(head.head_dim)),
        value_dim_(round_up(head.value_dim)),
        query_sum_(grad_query_sum),
        query_sum_row_(attention_padded_dim(head.head_dim)) {
    key_columns_ = scratch;
    value_columns_ = key_columns_ + head.head_dim * column_row_;
    key_ = value_columns_ + head.value_dim * column_row_;
    grad_key_ = key_ + tile_ * key_dim_;
    grad_value_ = grad_key_ + tile_ * key_dim_;
    query_ = grad_value_ + tile_ * value_dim_;
    grad_output_ = query_ + rows_max_ * kRow;
    weights_ = grad_output_ + rows_max_ * kRow;
    grad_scores_ = weights_ + rows_max_ * kRow;
    shift_ = grad_scores_ + rows_max_ * kRow;
    share_ = shift_ + head.queries;
    delta_ = share_ + head.queries;
    words_ = reinterpret_cast<uint32_t*>(delta_ + head.queries);
  }

  void run(int64_t begin, int64_t end) {
    // A tile that holds all keys holds whole rows of weights: their softmax is done again from the scores, which is
    // a little more exact than through the rounded lse and output.
    whole_rows_ = h_.keys <= tile_;
    if (!whole_rows_) summarise_rows();
    for (int64_t tile = begin; tile < end; tile += tile_) visit(tile, HWY_MIN(tile_, end - tile));
  }

 private:
  static float dot(const float* a, const float* b, int64_t n) {
    V sum = hn::Zero(d);
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) sum = hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), sum);
    float total = hn::GetLane(hn::SumOfLanes(d, sum));
    for (; i < n; ++i) total += a[i] * b[i];
    return total;
  }

  // The weight of a score s is exp(s - shift) * share. As a rule shift is the lse and share 1.
  void summarise_rows() {
    // Beyond this the lse is rounded too coarsely to be taken off a score: its last place is an error of the weights.
    constexpr float kCoarse = 64.0f;
    bool coarse = false;
    for (int64_t i = 0; i < h_.queries; ++i) {
      const float lse = h_.lse[i * h_.lse_stride];
      shift_[i] = lse == kMinusInfinity ? -kMinusInfinity : lse;  // of an empty row: exp(-inf - inf) = 0
      share_[i] = 1.0f;
      delta_[i] = dot(h_.output + i * h_.output_stride, h_.grad_output + i * h_.grad_output_stride, h_.value_dim);
      coarse = coarse || (lse != kMinusInfinity && !(std::abs(lse) <= kCoarse));
    }
    if (coarse) normalise_rows();
  }

  // The largest score and the sum of exponentials, from the scores once more.
  void normalise_rows() {
    fill(shift_, 0, h_.queries, kMinusInfinity);
    fill(share_, 0, h_.queries, 0.0f);
    for (int64_t tile = 0; tile < h_.keys; tile += tile_) {
      take_keys(tile, HWY_MIN(tile_, h_.keys - tile));
      for (int64_t row = 0; row < h_.queries; row += rows_max_) {
        const int64_t rows = HWY_MIN(rows_max_, h_.queries - row);
        take_bounds(row, rows);
        pack_rows(h_.query + row * h_.query_stride, h_.query_stride, rows, h_.head_dim, query_, kRow);
        for (int64_t r = 0; r < rows; r += kPanel) {
          const int64_t height = HWY_MIN(kPanel, rows - r);
          Window w;
          make_window(begins_ + r, ends_ + r, height, tile, width_, w);
          if (w.last_vector > w.first_vector) add_to_sums(row, r, height, w);
        }
      }
    }
    for (int64_t i = 0; i < h_.queries; ++i) {
      if (shift_[i] == kMinusInfinity) shift_[i] = -kMinusInfinity;
      share_[i] = share_[i] == 0.0f ? 0.0f : 1.0f / share_[i];
    }
  }

  void add_to_sums(int64_t first_row, int64_t r, int64_t rows, const Window& w) {
    const int64_t from = w.first_vector * kLanes, to = w.last_vector * kLanes;
    score_panel(first_row, r, rows, w);
    for (int64_t i = 0; i < rows; ++i) {
      const float* p = weights_ + (r + i) * kRow;
      float &shift = shift_[first_row + r + i], &sum = share_[first_row + r + i];
      V largest = hn::Set(d, shift);
      for (int64_t c = from; c < to; c += kLanes) largest = hn::Max(largest, hn::LoadU(d, p + c));
      largest = hn::MaxOfLanes(d, largest);
      if (sees_nothing(p, from, to, largest)) continue;
      V total = hn::Zero(d);
      for (int64_t c = from; c < to; c += kLanes) total = hn::Add(total, exp(hn::Sub(hn::LoadU(d, p + c), largest)));
      sum = sum * hn::GetLane(exp(hn::Sub(hn::Set(d, shift), largest))) + hn::GetLane(hn::SumOfLanes(d, total));
      shift = hn::GetLane(largest);
    }
  }

  void take_keys(int64_t tile, int64_t width) {
    tile_begin_ = tile;
    width_ = width;
    pack_transposed(h_.key + tile * h_.key_stride, h_.key_stride, width, h_.head_dim, static_cast<float>(h_.scale),
                    key_columns_, column_row_);
  }

  void take_bounds(int64_t row, int64_t rows) {
    for (int64_t r = 0; r < rows; ++r) {
      begins_[r] = h_.row_begin(row + r);
      ends_[r] = h_.row_end(row + r);
    }
  }

  // The scores of a few queries, -inf where a query may not look.
  void score_panel(int64_t first_row, int64_t r, int64_t rows, const Window& w) {
    const int64_t from = w.first_vector * kLanes, vectors = w.last_vector - w.first_vector;
    multiply<false, false>(query_ + r * kRow, key_columns_ + from, column_row_, weights_ + r * kRow + from, kRow, rows,
                           vectors, h_.head_dim);
    for (int64_t i = 0; i < rows; ++i) {
      const float* bias = h_.bias;
      if (bias != nullptr) bias += (first_row + r + i) * h_.bias_row_stride + tile_begin_ * h_.bias_column_stride;
      restrict_scores(weights_ + (r + i) * kRow, w, i, bias, h_.bias_column_stride);
    }
  }

  void visit(int64_t tile, int64_t width) {
    take_keys(tile, width);
    const float* key = h_.key + tile * h_.key_stride;
    pack_transposed(h_.value + tile * h_.value_stride, h_.value_stride, width, h_.value_dim, 1.0f, value_columns_,
                    column_row_);
    key_rows_ = key;
    key_row_ = h_.key_stride;
    if (h_.head_dim % kLanes != 0 || h_.key_stride != h_.head_dim) {
      pack_rows(key, h_.key_stride, width, h_.head_dim, key_, key_dim_);
      key_rows_ = key_;
      key_row_ = key_dim_;
    }
    bool started = false;
    for (int64_t row = 0; row < h_.queries; row += rows_max_) {
      const int64_t rows = HWY_MIN(rows_max_, h_.queries - row);
      int64_t seeing = 0, whole = 0;
      take_bounds(row, rows);
      for (int64_t r = 0; r < rows; ++r) {
        seeing += begins_[r] < tile + width && ends_[r] > tile ? 1 : 0;
        whole += begins_[r] <= tile && ends_[r] >= tile + width ? 1 : 0;
      }
      if (seeing == 0) continue;
      pack_rows(h_.query + row * h_.query_stride, h_.query_stride, rows, h_.head_dim, query_, kRow);
      pack_rows(h_.grad_output + row * h_.grad_output_stride, h_.grad_output_stride, rows, h_.value_dim, grad_output_,
                kRow);
      const int64_t panels = (rows + kPanel - 1) / kPanel;
      for (int64_t p = 0; p < panels; ++p) {
        const int64_t r = rows * p / panels;
        query_panel(row, r, rows * (p + 1) / panels - r);
      }
      if (!started) {
        started = true;
        fill(grad_key_, 0, width * key_dim_, 0.0f);
        fill(grad_value_, 0, width * value_dim_, 0.0f);
      }
      if (whole == rows) {
        key_panel(0, width, 0, rows);
      } else {
        for (int64_t c = 0; c < width; c += kPanel) {
          const int64_t columns = HWY_MIN(kPanel, width - c);
          int64_t first = rows, last = 0;  // the rows that see one of these columns
          for (int64_t r = 0; r < rows; ++r) {
            if (begins_[r] >= tile + c + columns || ends_[r] <= tile + c) continue;
            first = HWY_MIN(first, r);
            last = r + 1;
          }
          if (first < last) key_panel(c, columns, first, last - first);
        }
      }
    }
    const V key_factor = hn::Set(d, started ? static_cast<float>(h_.scale) : 0.0f);
    const V value_factor = hn::Set(d, started ? static_cast<float>(h_.dropout.keep_scale) : 0.0f);
    if (!started) {
      fill(grad_key_, 0, width * key_dim_, 0.0f);
      fill(grad_value_, 0, width * value_dim_, 0.0f);
    }
    for (int64_t c = 0; c < width; ++c) {
      store_row(grad_key_ + c * key_dim_, key_factor, h_.head_dim, h_.grad_key + (tile + c) * h_.grad_key_stride);
      store_row(grad_value_ + c * value_dim_, value_factor, h_.value_dim,
                h_.grad_value + (tile + c) * h_.grad_value_stride);
    }
  }

  // Weights and gradients of the scores of a few queries, and what these mean for the queries.
  void query_panel(int64_t first_row, int64_t r, int64_t rows) {
    Window w;
    make_window(begins_ + r, ends_ + r, rows, tile_begin_, width_, w);
    const int64_t padded = round_up(width_);
    float *weights = weights_ + r * kRow, *grad_scores = grad_scores_ + r * kRow;
    const int64_t vectors = w.last_vector - w.first_vector, from = w.first_vector * kLanes, to = w.last_vector * kLanes;
    if (vectors <= 0) {
      for (int64_t i = 0; i < rows; ++i) {
        fill(weights + i * kRow, 0, padded, 0.0f);
        fill(grad_scores + i * kRow, 0, padded, 0.0f);
      }
      return;
    }
    score_panel(first_row, r, rows, w);
    multiply<false, false>(grad_output_ + r * kRow, value_columns_ + from, column_row_, grad_scores + from, kRow, rows,
                           vectors, h_.value_dim);
    const bool drops = h_.dropout.threshold != 0;
    const int64_t blocks = (to - from) / 4;
    if (drops) draw_words(h_.dropout, first_row + r, rows, (tile_begin_ + from) / 4, blocks, words_);
    for (int64_t i = 0; i < rows; ++i) {
      const int64_t row = first_row + r + i;
      float *p = weights + i * kRow, *g = grad_scores + i * kRow;
      const uint32_t* words = drops ? words_ + i * 4 * blocks - from : nullptr;
      if (whole_rows_) {
        differentiate_whole_row(p, g, words, from, to);
      } else {
        differentiate_row(p, g, words, from, to, row);
      }
      if (from > 0) {
        fill(p, 0, from, 0.0f);
        fill(g, 0, from, 0.0f);
      }
      if (to < padded) {
        fill(p, to, padded, 0.0f);
        fill(g, to, padded, 0.0f);
      }
      if (h_.grad_bias != nullptr) {
        float* out = h_.grad_bias + row * h_.grad_bias_stride + tile_begin_;
        for (int64_t c = 0; c < width_; ++c) out[c] += g[c];
      }
    }
    const int64_t depth = HWY_MIN(width_, to) - from;
    multiply<false, true>(grad_scores + from, key_rows_ + from * key_row_, key_row_,
                          query_sum_ + (first_row + r) * query_sum_row_, query_sum_row_, rows, key_dim_ / kLanes,
                          depth);
  }

  // Scores p and gradients g of the dropped weights to dropped weights and gradients of the scores, columns
  // [from, to) of a row whose shift, share and delta = sum of weights times g are known.
  void differentiate_row(float* p, float* g, const uint32_t* words, int64_t from, int64_t to, int64_t row) const {
    const V shift = hn::Set(d, shift_[row]), share = hn::Set(d, share_[row]), delta = hn::Set(d, delta_[row]);
    for (int64_t c = from; c < to; c += kLanes) {
      const V weight = hn::Mul(exp(hn::Sub(hn::LoadU(d, p + c), shift)), share);
      const V grad = dropped(hn::LoadU(d, g + c), words, c);
      hn::StoreU(words == nullptr ? weight : hn::IfThenElseZero(keeps(words, c), weight), d, p + c);
      hn::StoreU(hn::Mul(weight, hn::Sub(grad, delta)), d, g + c);
    }
  }

  // The same for a row that is here as a whole.
  void differentiate_whole_row(float* p, float* g, const uint32_t* words, int64_t from, int64_t to) const {
    V largest = hn::LoadU(d, p + from);
    for (int64_t c = from + kLanes; c < to; c += kLanes) largest = hn::Max(largest, hn::LoadU(d, p + c));
    largest = hn::MaxOfLanes(d, largest);
    if (sees_nothing(p, from, to, largest)) {
      fill(p, from, to, 0.0f);
      fill(g, from, to, 0.0f);
      return;
    }
    V sum = hn::Zero(d);
    for (int64_t c = from; c < to; c += kLanes) {
      const V weight = exp(hn::Sub(hn::LoadU(d, p + c), largest));
      sum = hn::Add(sum, weight);
      hn::StoreU(weight, d, p + c);
    }
    const V share = hn::Div(hn::Set(d, 1.0f), hn::SumOfLanes(d, sum));
    V delta = hn::Zero(d);
    for (int64_t c = from; c < to; c += kLanes) {
      const V weight = hn::Mul(hn::LoadU(d, p + c), share), grad = dropped(hn::LoadU(d, g + c), words, c);
      delta = hn::MulAdd(weight, grad, delta);
      hn::StoreU(weight, d, p + c);
      hn::StoreU(grad, d, g + c);
    }
    delta = hn::SumOfLanes(d, delta);
    for (int64_t c = from; c < to; c += kLanes) {
      const V weight = hn::LoadU(d, p + c);
      hn::StoreU(hn::Mul(weight, hn::Sub(hn::LoadU(d, g + c), delta)), d, g + c);
      if (words != nullptr) hn::StoreU(hn::IfThenElseZero(keeps(words, c), weight), d, p + c);
    }
  }

  hn::Mask<D> keeps(const uint32_t* words, int64_t c) const {
    const auto limit = hn::Set(du, static_cast<uint32_t>(h_.dropout.threshold - 1));
    return hn::RebindMask(d, hn::Gt(hn::LoadU(du, words + c), limit));
  }

  V dropped(V grad, const uint32_t* words, int64_t c) const {
    const V keep_scale = hn::Set(d, static_cast<float>(h_.dropout.keep_scale));
    return words == nullptr ? grad : hn::IfThenElseZero(keeps(words, c), hn::Mul(grad, keep_scale));
  }

  // What the queries [first, first + rows) of the tile mean for a few keys and values.
  void key_panel(int64_t column, int64_t columns, int64_t first, int64_t rows) {
    const int64_t at = first * kRow;
    multiply<true, true>(weights_ + at + column, grad_output_ + at, kRow, grad_value_ + column * value_dim_, value_dim_,
                         columns, value_dim_ / kLanes, rows);
    multiply<true, true>(grad_scores_ + at + column, query_ + at, kRow, grad_key_ + column * key_dim_, key_dim_,
                         columns, key_dim_ / kLanes, rows);
  }

  const AttentionHead<float>& h_;
  int64_t tile_, rows_max_, column_row_, key_dim_, value_dim_;
  float* query_sum_;
  int64_t query_sum_row_;
  float *key_columns_, *value_columns_, *key_, *grad_key_, *grad_value_, *query_, *grad_output_, *weights_,
      *grad_scores_, *shift_, *share_, *delta_;
  uint32_t* words_;
  bool whole_rows_ = false;
  const float* key_rows_ = nullptr;
  int64_t key_row_ = 0, tile_begin_ = 0, width_ = 0;
  int64_t begins_[kAttentionBackwardRows], ends_[kAttentionBackwardRows];
};

void Backward(const AttentionHead<float>& head, int64_t begin, int64_t end, float* grad_query_sum, float* scratch) {
  BackwardTask(head, grad_query_sum, scratch).run(begin, end);
}

void FinishQuery(const float* sums, int64_t parts, int64_t part_stride, const AttentionHead<float>& head, float* out,
                 int64_t out_stride) {
  const V scale = hn::Set(d, static_cast<float>(head.scale));
  const int64_t row_size = attention_padded_dim(head.head_dim);
  HWY_ALIGN float row[256];
  for (int64_t i = 0; i < head.queries; ++i) {
    const float* first = sums + i * row_size;
    if (parts == 1) {
      store_row(first, scale, head.head_dim, out + i * out_stride);
      continue;
    }
    for (int64_t c = 0; c < head.head_dim; c += kLanes) {
      V sum = hn::LoadU(d, first + c);
      for (int64_t p = 1; p < parts; ++p) sum = hn::Add(sum, hn::LoadU(d, first + p * part_stride + c));
      hn::Store(sum, d, row + c);
    }
    store_row(row, scale, head.head_dim, out + i * out_stride);
  }
}

#endif  // HWY_TARGET

}  // namespace fovea::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea::ops {

HWY_EXPORT(Backward);
HWY_EXPORT(FinishQuery);

int64_t attention_backward_scratch(const AttentionHead<float>& h) {
  constexpr int64_t kRow = 272, kLanes = 16, kPanel = 12;  // the widest target's
  const int64_t tile = attention_backward_tile(h.head_dim, h.value_dim, h.keys);
  const int64_t key_dim = attention_padded_dim(h.head_dim), value_dim = attention_padded_dim(h.value_dim);
  return (h.head_dim + h.value_dim) * (tile + 2 * kLanes) + tile * (2 * key_dim + value_dim) +
         4 * attention_backward_rows(h.queries) * kRow + 3 * h.queries + kPanel * (tile + kLanes) + 8 * kLanes;
}

void attention_backward(const AttentionHead<float>& head, int64_t begin, int64_t end, float* grad_query_sum,
                        float* scratch) {
  HWY_DYNAMIC_DISPATCH(Backward)(head, begin, end, grad_query_sum, scratch);
}

void attention_finish_query(const float* sums, int64_t parts, int64_t part_stride, const AttentionHead<float>& head,
                            float* out, int64_t out_stride) {
  HWY_DYNAMIC_DISPATCH(FinishQuery)(sums, parts, part_stride, head, out, out_stride);
}

void attention_finish_query(const double* sums, int64_t parts, int64_t part_stride, const AttentionHead<double>& head,
                            double* out, int64_t out_stride) {
  attention_finish_query_plain(sums, parts, part_stride, head, out, out_stride);
}

void attention_backward(const AttentionHead<double>& head, int64_t begin, int64_t end, double* grad_query_sum,
                        double*) {
  attention_backward_plain(head, begin, end, grad_query_sum);
}

}  // namespace fovea::ops
#endif  // HWY_ONCE
