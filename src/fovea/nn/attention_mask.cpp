#include "fovea/nn/attention_mask.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>

#include "fovea/core/counted.h"
#include "fovea/core/error.h"

namespace fovea::nn {
namespace {

constexpr double kForbidden = -std::numeric_limits<double>::infinity();  // as a bias

std::vector<int64_t> host_lengths(const at::Tensor& lens) {
  const at::Tensor host = lens.cpu().contiguous();
  return {host.const_data_ptr<int64_t>(), host.const_data_ptr<int64_t>() + host.numel()};
}

// The narrower of two bounds of which -1 is none.
int64_t narrower(int64_t a, int64_t b) {
  return a < 0 ? b : b < 0 ? a : std::min(a, b);
}

bool fits(int64_t size, int64_t wanted) {
  return size == 1 || size == wanted;
}

// The sequence and the place in it of each valid token of a batch, in order.
struct TokenPlaces {
  std::vector<int64_t> sequence, place;

  explicit TokenPlaces(const SequenceLayout& layout) {
    if (layout.total() < 0) fail("edges: the lengths must be known on the host");
    for (int64_t i = 0; i < layout.batch(); ++i) {
      for (int64_t t = 0; t < layout.host_lengths()[static_cast<size_t>(i)]; ++t) {
        sequence.push_back(i);
        place.push_back(t);
      }
    }
  }
  size_t checked(int64_t token, const char* what) const {
    if (token < 0 || token >= static_cast<int64_t>(place.size())) {
      fail("edges: {} {} does not exist, the batch has {}", what, token, counted(place.size(), "valid token"));
    }
    return static_cast<size_t>(token);
  }
};

}  // namespace

AttentionMask AttentionMask::self(const SequenceLayout& layout, bool causal) {
  return {layout, layout, causal};
}

AttentionMask AttentionMask::cross(const SequenceLayout& queries, const SequenceLayout& keys) {
  return {queries, keys};
}

AttentionMask AttentionMask::from_valid_lens(const at::Tensor& valid_lens, int64_t batch, int64_t num_queries,
                                             int64_t num_keys) {
  const at::Device device = valid_lens.defined() ? valid_lens.device() : at::Device(at::kCPU);
  const auto queries = SequenceLayout::full(batch, num_queries, device);
  const auto keys = SequenceLayout::full(batch, num_keys, device);
  if (!valid_lens.defined()) return {queries, keys};
  if (valid_lens.numel() > 0 && valid_lens.min().item<int64_t>() < 0) {
    fail("valid_lens: a length must not be negative, got {}", valid_lens.min().item<int64_t>());
  }
  const at::Tensor lens = valid_lens.to(at::kLong).clamp_max(num_keys);
  if (lens.dim() == 1 && lens.size(0) == batch) {
    return {queries, SequenceLayout::padded(host_lengths(lens), num_keys, device)};
  }
  if (lens.dim() == 2 && lens.size(0) == batch && lens.size(1) == num_queries) {
    // A key that no query of its row may see is padding: what it holds must not matter.
    const at::Tensor seen = num_queries > 0 ? std::get<0>(lens.max(1)) : at::zeros({batch}, lens.options());
    return {queries, SequenceLayout::padded(host_lengths(seen), num_keys, device), false, lens};
  }
  fail("valid_lens: expected ({}) or ({}, {}), got {}", batch, batch, num_queries, c10::str(valid_lens.sizes()));
}

AttentionMask AttentionMask::changed() const {
  AttentionMask copy = *this;
  copy.built_ = {};
  return copy;
}

AttentionMask AttentionMask::with_window(int64_t left, int64_t right) const {
  if (left < -1 || right < -1) fail("attention mask: a window is -1 or more, got {} and {}", left, right);
  AttentionMask mask = changed();
  mask.window_left_ = narrower(window_left_, left);
  mask.window_right_ = narrower(window_right_, right);
  return mask;
}

AttentionMask AttentionMask::with_bias(const at::Tensor& bias) const {
  at::Tensor whole = bias;
  while (whole.dim() < 4) whole = whole.unsqueeze(0);
  if (whole.dim() != 4 || !whole.is_floating_point() || !fits(whole.size(0), queries_.batch()) ||
      !fits(whole.size(2), queries_.steps()) || !fits(whole.size(3), keys_.steps())) {
    fail("attention mask: expected a bias of floating point numbers that broadcasts to ({}, heads, {}, {}), got {} {}",
         queries_.batch(), queries_.steps(), keys_.steps(), c10::toString(bias.scalar_type()), c10::str(bias.sizes()));
  }
  // A bias may be computed from tokens, so that its rows of padding hold anything: NaN there must go no further.
  if (whole.size(0) == queries_.batch() && whole.size(2) == queries_.steps() && !queries_.all_valid()) {
    whole = whole.masked_fill(queries_.valid().logical_not().unsqueeze(1).unsqueeze(-1), 0);  // (batch, 1, queries, 1)
  }
  AttentionMask mask = changed();
  mask.given_bias_ = given_bias_.defined() ? given_bias_ + whole : whole;
  return mask;
}

AttentionMask AttentionMask::with_edges(const at::Tensor& edges) const {
  if (edges.dim() != 3 || edges.scalar_type() != at::kBool || !fits(edges.size(0), queries_.batch()) ||
      edges.size(1) != queries_.steps() || edges.size(2) != keys_.steps()) {
    fail("attention mask: expected edges of bool ({}, {}, {}), got {} {}", queries_.batch(), queries_.steps(),
         keys_.steps(), c10::toString(edges.scalar_type()), c10::str(edges.sizes()));
  }
  AttentionMask mask = changed();
  const at::Tensor each_head = edges.unsqueeze(1);  // (batch, 1, queries, keys)
  mask.edges_ = edges_.defined() ? edges_.logical_and(each_head) : each_head;
  return mask;
}

AttentionMask AttentionMask::with_rotary() const {
  AttentionMask mask = changed();
  mask.rotary_ = true;
  return mask;
}

AttentionMask AttentionMask::with_alibi(int64_t num_heads) const {
  AttentionMask mask = changed();
  mask.alibi_heads_ = num_heads;
  return mask;
}

AttentionMask AttentionMask::first_queries(int64_t count) const {
  if (right_bound() >= 0 || window_left_ >= 0 || rotary_) {
    fail("attention mask: the first queries alone are not computed under a causal mask, a window or rotary positions");
  }
  const auto first = [&](const at::Tensor& rows) { return rows.size(2) == 1 ? rows : rows.narrow(2, 0, count); };
  AttentionMask mask(SequenceLayout::full(queries_.batch(), count, queries_.device()), keys_);
  if (valid_lens_.defined()) mask.valid_lens_ = valid_lens_.narrow(1, 0, count);
  if (bias().defined()) mask.given_bias_ = first(bias());
  if (edges_.defined()) mask.edges_ = first(edges_);
  return mask;
}

at::Tensor AttentionMask::query_positions() const {
  return add(queries_.row_positions(), keys_.traced_steps() - queries_.traced_steps());
}

at::Tensor AttentionMask::distances() const {
  return keys_.row_positions().unsqueeze(0) - query_positions().unsqueeze(1);
}

const at::Tensor& AttentionMask::allowed() const {
  if (built_.allowed_done) return built_.allowed;
  built_.allowed_done = true;
  const auto restrict_to = [this](const at::Tensor& condition) {
    built_.allowed = built_.allowed.defined() ? built_.allowed.logical_and(condition) : condition;
  };
  const auto restrict_places = [&](const at::Tensor& places) {  // (queries, keys)
    restrict_to(places.unsqueeze(0).unsqueeze(0));
  };
  if (!keys_.all_valid()) restrict_to(keys_.valid().unsqueeze(1).unsqueeze(1));  // (batch, 1, 1, keys)
  if (valid_lens_.defined()) {
    restrict_to((keys_.row_positions() < valid_lens_.unsqueeze(-1)).unsqueeze(1));  // (batch, 1, queries, keys)
  }
  // A single query stands at the last key, where nothing is to its right: the step of cached decoding needs no mask.
  if (right_bound() >= 0 && queries_.steps() > 1) {
    restrict_places(keys_.row_positions() <= (query_positions() + right_bound()).unsqueeze(-1));
  }
  if (window_left_ >= 0) restrict_places(keys_.row_positions() >= (query_positions() - window_left_).unsqueeze(-1));
  if (edges_.defined()) restrict_to(edges_);
  if (given_bias_.defined()) restrict_to(given_bias_ != kForbidden);
  return built_.allowed;
}

const at::Tensor& AttentionMask::bias() const {
  if (built_.bias_done) return built_.bias;
  built_.bias_done = true;
  built_.bias = given_bias_;
  if (alibi_heads_ > 0) {
    const at::Tensor alibi = alibi_bias(query_positions(), keys_.row_positions(), alibi_heads_);
    built_.bias = given_bias_.defined() ? given_bias_ + alibi : alibi;
  }
  return built_.bias;
}

const at::Tensor& AttentionMask::flash_bias(at::ScalarType type) const {
  at::Tensor& built = built_.flash_bias;
  if (built.defined() && built.scalar_type() == type) return built;
  built = bias().defined() ? bias().to(type) : at::Tensor();
  if (edges_.defined()) {
    if (!built.defined()) built = at::zeros({}, edges_.options().dtype(type));
    built = built.masked_fill(edges_.logical_not(), kForbidden);
  }
  return built;
}

const Rotation& AttentionMask::rotation(const at::Tensor& heads, bool of_queries) const {
  const bool packed = heads.dim() == 3;
  // Self-attention turns both sides alike.
  const bool as_queries = of_queries || queries_.is_same(keys_);
  const SequenceLayout& layout = as_queries ? queries_ : keys_;
  Rotation& built = packed ? (as_queries ? built_.packed_queries : built_.packed_keys)
                           : (as_queries ? built_.padded_queries : built_.padded_keys);
  const int64_t head_dim = heads.size(-1);
  if (!built.cos.defined() || built.cos.size(-1) * 2 != head_dim) {
    const at::Tensor rows = as_queries ? query_positions() : keys_.row_positions();
    built = rotation_of(packed ? rows.index_select(0, layout.positions()) : rows, head_dim, heads);
  }
  return built;
}

at::Tensor AttentionMask::turn_queries(const at::Tensor& queries) const {
  return rotary_ ? rotate(queries, rotation(queries, true), queries.dim() == 3) : queries;
}

at::Tensor AttentionMask::turn_keys(const at::Tensor& keys) const {
  return rotary_ ? rotate(keys, rotation(keys, false), keys.dim() == 3) : keys;
}

bool AttentionMask::fits_packed() const {
  if (!queries_.is_packed() || !keys_.is_packed() || valid_lens_.defined()) return false;
  const bool positions_matter = right_bound() >= 0 || window_left_ >= 0;
  return !positions_matter || (queries_.host_lengths() == keys_.host_lengths() && queries_.steps() == keys_.steps());
}

ops::FlashAttentionArguments AttentionMask::flash_arguments(const at::Tensor& queries) const {
  ops::FlashAttentionArguments arguments;
  arguments.causal = causal_;
  arguments.window_left = window_left_;
  arguments.window_right = window_right_;
  arguments.bias = flash_bias(queries.scalar_type());
  if (queries.dim() == 3) {
    arguments.query_offsets = queries_.offsets().to(queries.device());
    arguments.key_offsets = keys_.offsets().to(queries.device());
    arguments.max_query = queries_.steps();
    arguments.max_key = keys_.steps();
    return arguments;
  }
  if (!queries_.all_valid()) arguments.query_lens = queries_.lengths();
  if (!keys_.all_valid()) arguments.valid_lens = keys_.lengths();
  if (valid_lens_.defined()) {
    arguments.valid_lens = arguments.valid_lens.defined() ? at::minimum(valid_lens_, arguments.valid_lens.unsqueeze(-1))
                                                          : valid_lens_;  // (batch, queries)
  }
  return arguments;
}

at::Tensor edges_of(const at::Tensor& list, const SequenceLayout& queries, const SequenceLayout& keys) {
  if (list.dim() != 2 || list.size(0) != 2 || list.scalar_type() != at::kLong) {
    fail("edges: expected int64 (2, edges), got {} {}", c10::toString(list.scalar_type()), c10::str(list.sizes()));
  }
  if (queries.batch() != keys.batch()) {
    fail("edges: queries and keys must be of one batch, got {} and {} sequences", queries.batch(), keys.batch());
  }
  const TokenPlaces query_places(queries), key_places(keys);
  at::Tensor edges = at::zeros({queries.batch(), queries.steps(), keys.steps()}, at::kBool);
  auto* cells = edges.mutable_data_ptr<bool>();
  const at::Tensor host = list.cpu().contiguous();
  const auto* tokens = host.const_data_ptr<int64_t>();
  const int64_t count = list.size(1);
  for (int64_t e = 0; e < count; ++e) {
    const size_t query = query_places.checked(tokens[e], "query"), key = key_places.checked(tokens[count + e], "key");
    const int64_t sequence = query_places.sequence[query];
    if (sequence != key_places.sequence[key]) {
      fail("edges: query {} is of sequence {}, key {} of sequence {}; an edge stays within its sequence", tokens[e],
           sequence, tokens[count + e], key_places.sequence[key]);
    }
    cells[(sequence * queries.steps() + query_places.place[query]) * keys.steps() + key_places.place[key]] = true;
  }
  return edges.to(queries.device());
}

}  // namespace fovea::nn
