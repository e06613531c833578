#include "fovea/nn/swin.h"

#include <torch/torch.h>

#include <limits>
#include <numeric>

#include "fovea/core/error.h"
#include "fovea/nn/children.h"
#include "fovea/nn/size.h"

namespace fovea::nn {
namespace {

// The order of a stage whose windows are moved by `shift`: place by place, and for each place window by window.
TokenOrder window_order(const SwinGrid& g, int64_t shift) {
  TokenOrder order;
  for (int64_t y = 0; y < g.window; ++y) {
    for (int64_t x = 0; x < g.window; ++x) {
      for (int64_t top = 0; top < g.rows; top += g.window) {
        for (int64_t left = 0; left < g.columns; left += g.window) {
          order.push_back((top + y + shift) % g.rows * g.columns + (left + x + shift) % g.columns);
        }
      }
    }
  }
  return order;
}

TokenOrder row_order(int64_t tokens) {
  TokenOrder order(static_cast<size_t>(tokens));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

// x.index_select(1, reorder(a, b)) brings tokens from order `a` to order `b`.
at::Tensor reorder(const TokenOrder& a, const TokenOrder& b) {
  TokenOrder place(a.size()), index;
  for (size_t i = 0; i < a.size(); ++i) place[static_cast<size_t>(a[i])] = static_cast<int64_t>(i);
  index.reserve(b.size());
  for (const int64_t token : b) index.push_back(place[static_cast<size_t>(token)]);
  return at::tensor(index, at::kLong);
}

at::Tensor inverse_of(const at::Tensor& permutation) {
  return permutation.argsort();
}

// The gradient of a permutation is the inverse one, which torch, not knowing that it is one, would add up.
struct Permute : torch::autograd::Function<Permute> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, const at::Tensor& index) {
    context->save_for_backward({index});
    return x.index_select(1, index);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grad) {
    return {grad[0].index_select(1, inverse_of(context->get_saved_variables()[0])), {}};
  }
};

at::Tensor permute(const at::Tensor& x, const at::Tensor& index) {
  const at::Tensor here = index.to(x.device());
  return is_tracing() ? x.index_select(1, here) : Permute::apply(x, here);
}

// The order in which the tokens of a grid are merged: the four of each token of the next stage one after the other, as
// the paper's program has them: (0, 0), (1, 0), (0, 1), (1, 1) in rows and columns.
TokenOrder merge_order(const SwinGrid& from, const TokenOrder& next) {
  TokenOrder order;
  const int64_t columns = from.columns / 2;
  for (const int64_t token : next) {
    const int64_t corner = 2 * (token / columns) * from.columns + 2 * (token % columns);
    for (const int64_t step : {int64_t{0}, from.columns, int64_t{1}, from.columns + 1}) order.push_back(corner + step);
  }
  return order;
}

// Between which tokens of a window lies which distance: rows of the table of biases, int64 (places * places).
at::Tensor distances(int64_t window) {
  std::vector<int64_t> rows;
  const int64_t places = window * window;
  for (int64_t i = 0; i < places; ++i) {
    for (int64_t j = 0; j < places; ++j) {
      const int64_t down = i / window - j / window + window - 1, right = i % window - j % window + window - 1;
      rows.push_back(down * (2 * window - 1) + right);
    }
  }
  return at::tensor(rows, at::kLong);
}

// -inf between tokens that the shift brought together from opposite ends of the grid.
at::Tensor forbidden_pairs(const SwinGrid& g, int64_t shift) {
  // In a window of the last row or column, tokens before and after the seam.
  const auto side = [&](int64_t position, int64_t count) {
    return position < count - g.window ? 0 : position < count - shift ? 1 : 2;
  };
  std::vector<int64_t> region;
  for (int64_t top = 0; top < g.rows; top += g.window) {
    for (int64_t left = 0; left < g.columns; left += g.window) {
      for (int64_t y = 0; y < g.window; ++y) {
        for (int64_t x = 0; x < g.window; ++x) {
          region.push_back(3 * side(top + y, g.rows) + side(left + x, g.columns));
        }
      }
    }
  }
  const at::Tensor of = at::tensor(region, at::kLong).view({g.windows(), g.places()});
  const at::Tensor differ = of.unsqueeze(1) != of.unsqueeze(2);  // (windows, places, places)
  return at::zeros(differ.sizes(), at::kFloat)
      .masked_fill(differ, -std::numeric_limits<float>::infinity())
      .unsqueeze(1);
}

torch::nn::LayerNorm swin_norm(int64_t width) {
  return torch::nn::LayerNorm(torch::nn::LayerNormOptions({width}));
}

}  // namespace

WindowAttentionImpl::WindowAttentionImpl(const MultiHeadAttentionOptions& o, const SwinGrid& grid, int64_t shift)
    : AttentionModule(o.dropout, o.path), grid_(grid), num_heads_(o.num_heads), distance_(distances(grid.window)) {
  const int64_t n = o.num_hiddens;
  if (num_heads_ < 1 || n % num_heads_ != 0) {
    fail("window attention: num_hiddens must be divisible by num_heads, got {} and {}", n, num_heads_);
  }
  if (shift > 0) forbidden_ = forbidden_pairs(grid, shift);
  const int64_t span = 2 * grid.window - 1;
  relative_position_bias_ = register_parameter("relative_position_bias", at::randn({span * span, num_heads_}) * 0.02);
  W_q_ = register_module("W_q", Linear(n, n));
  W_k_ = register_module("W_k", Linear(n, n));
  W_v_ = register_module("W_v", Linear(n, n));
  W_o_ = register_module("W_o", Linear(n, n));
}

at::Tensor WindowAttentionImpl::bias() const {
  const int64_t places = grid_.places();
  const at::Tensor each_head = relative_position_bias_.index_select(0, distance_.to(relative_position_bias_.device()))
                                   .view({1, places, places, num_heads_})
                                   .permute({0, 3, 1, 2});  // (1, heads, places, places)
  const at::Tensor of_windows = forbidden_.defined() ? each_head + forbidden_.to(each_head.options())
                                                     : each_head.expand({grid_.windows(), num_heads_, places, places});
  return of_windows.reshape({1, grid_.windows() * num_heads_, places, places});
}

at::Tensor WindowAttentionImpl::forward(const at::Tensor& x, AttentionRecorder* recorder) {
  const auto heads = [&](const at::Tensor& projected) {  // (batch, windows * heads, places, d)
    return projected.unflatten(1, {grid_.places(), grid_.windows()})
        .unflatten(-1, {num_heads_, -1})
        .flatten(2, 3)
        .transpose(1, 2);
  };
  const auto projected = project_together(x, {W_q_, W_k_, W_v_});
  const at::Tensor q = heads(projected[0]);
  const AttentionMask mask = AttentionMask::self(SequenceLayout::full(q.select(1, 0))).with_bias(bias());
  const at::Tensor out = dot_product(q, heads(projected[1]), heads(projected[2]), mask, recorder);
  return W_o_->forward(out.transpose(1, 2)
                           .unflatten(2, {grid_.windows(), num_heads_})
                           .flatten(3)       // (batch, places, windows, num_hiddens)
                           .flatten(1, 2));  // (batch, tokens, num_hiddens)
}

SwinBlockImpl::SwinBlockImpl(const ViTBlockOptions& o, const SwinGrid& grid, bool shifted)
    : depth1_(o.stochastic_depth), depth2_(o.stochastic_depth) {
  const int64_t shift = shifted ? grid.window / 2 : 0;
  if (shift > 0) {
    to_shifted_ = reorder(window_order(grid, 0), window_order(grid, shift));
    from_shifted_ = inverse_of(to_shifted_);
  }
  ln1_ = register_module("ln1", swin_norm(o.num_hiddens));
  attention_ = register_module("attention", WindowAttention(MultiHeadAttentionOptions{.num_hiddens = o.num_hiddens,
                                                                                      .num_heads = o.num_heads,
                                                                                      .dropout = o.dropout,
                                                                                      .path = o.attention},
                                                            grid, shift));
  ln2_ = register_module("ln2", swin_norm(o.num_hiddens));
  mlp_ = register_module("mlp", ViTMLP(o.num_hiddens, o.mlp_num_hiddens, o.num_hiddens, o.dropout));
  register_module("depth1", depth1_);
  register_module("depth2", depth2_);
}

at::Tensor SwinBlockImpl::forward(const at::Tensor& x, AttentionRecorder* recorder) {
  at::Tensor attended = ln1_->forward(x);
  if (to_shifted_.defined()) attended = permute(attended, to_shifted_);
  attended = attention_->forward(attended, recorder);
  if (from_shifted_.defined()) attended = permute(attended, from_shifted_);
  const at::Tensor y = x + depth1_->forward(attended);
  return y + depth2_->forward(mlp_->forward(ln2_->forward(y), SequenceLayout::full(y)));
}

SwinImpl::SwinImpl(const SwinOptions& o) : dropout_(o.emb_dropout) {
  if (o.num_blks.empty() || o.num_blks.size() != o.num_heads.size()) {
    fail("Swin: expected num_blks and num_heads for each stage, got {} and {} numbers", o.num_blks.size(),
         o.num_heads.size());
  }
  PatchEmbeddingOptions image = o.image;
  image.num_hiddens = o.num_hiddens;
  patch_embedding_ = register_module("patch_embedding", PatchEmbedding(image));
  patch_norm_ = register_module("patch_norm", swin_norm(o.num_hiddens));
  register_module("dropout", dropout_);
  SwinGrid grid{image.image_height / image.patch_height,
                image.image_width / image.patch_width.value_or(image.patch_height), o.window};
  TokenOrder before = row_order(grid.rows * grid.columns);  // of the tokens as they come into the stage
  const auto stages = register_module("stages", std::make_shared<Children>());
  const int64_t blocks = std::accumulate(o.num_blks.begin(), o.num_blks.end(), int64_t{0});
  int64_t width = o.num_hiddens, done = 0;
  for (size_t s = 0; s < o.num_blks.size(); ++s) {
    // A grid that is one window is not shifted, as in the paper's program.
    grid.window = std::min({o.window, grid.rows, grid.columns});
    if (grid.window < 1 || grid.rows % grid.window != 0 || grid.columns % grid.window != 0) {
      fail("Swin: windows of {} x {} do not cut the {} x {} tokens of stage {}; the window must divide both",
           grid.window, grid.window, grid.rows, grid.columns, s + 1);
    }
    const bool shifts = grid.windows() > 1;
    const auto children = stages->register_module(std::to_string(s), std::make_shared<Children>());
    Stage stage;
    const TokenOrder order = window_order(grid, 0);
    stage.from_before = reorder(before, s == 0 ? order : merge_order({2 * grid.rows, 2 * grid.columns}, order));
    const auto blks = children->register_module("blks", std::make_shared<Children>());
    for (int64_t i = 0; i < o.num_blks[s]; ++i, ++done) {
      const ViTBlockOptions block = {.num_hiddens = width,
                                     .mlp_num_hiddens = width * o.mlp_ratio,
                                     .num_heads = o.num_heads[s],
                                     .dropout = o.dropout,
                                     .attention = o.attention,
                                     .stochastic_depth = stochastic_depth_of(done, blocks, o.stochastic_depth)};
      stage.blks.push_back(blks->register_module(std::to_string(i), SwinBlock(block, grid, shifts && i % 2 == 1)));
    }
    if (s + 1 < o.num_blks.size()) {
      if (grid.rows % 2 != 0 || grid.columns % 2 != 0) {
        fail("Swin: the {} x {} tokens of stage {} cannot be merged two by two; expected even numbers", grid.rows,
             grid.columns, s + 1);
      }
      stage.merge_norm = children->register_module("merge_norm", swin_norm(4 * width));
      stage.merge =
          children->register_module("merge", Linear(torch::nn::LinearOptions(4 * width, 2 * width).bias(false)));
      before = order;
      grid.rows /= 2;
      grid.columns /= 2;
      width *= 2;
    }
    stages_.push_back(std::move(stage));
  }
  norm_ = register_module("norm", swin_norm(width));
  head_ = register_module("head", Linear(width, o.num_classes));
}

at::Tensor SwinImpl::forward(const at::Tensor& image, AttentionRecorder* recorder) {
  at::Tensor x = permute(patch_norm_->forward(patch_embedding_->forward(image)), stages_.front().from_before);
  x = dropout_->forward(x, SequenceLayout::full(x));
  for (size_t s = 0; s < stages_.size(); ++s) {
    for (auto& blk : stages_[s].blks) x = blk->forward(x, recorder);
    if (s + 1 == stages_.size()) break;
    x = permute(x, stages_[s + 1].from_before);                        // four tokens in a row become one
    x = x.unflatten(1, {-1, 4}).flatten(2);                            // (batch, tokens / 4, 4 width)
    x = stages_[s].merge->forward(stages_[s].merge_norm->forward(x));  // (batch, tokens / 4, 2 width)
  }
  return head_->forward(norm_->forward(x).mean(1));
}

}  // namespace fovea::nn
