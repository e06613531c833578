// Fuzz target: whatever the shape and the masks, the vectorised float32 kernels agree with the plain loops in double,
// forward and backward, padded and packed.
#include <torch/torch.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>

#include "fovea/ops/flash_attention.h"

namespace {

using at::Tensor;

// Numbers out of the input, zeros when it is used up.
class Bytes {
 public:
  Bytes(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  int64_t below(int64_t n) { return n <= 1 ? 0 : (next() * 256 + next()) % n; }
  bool coin() { return next() % 2 == 1; }

 private:
  int64_t next() { return size_ == 0 ? 0 : (--size_, *data_++); }
  const uint8_t* data_;
  size_t size_;
};

void compare(const char* what, const Tensor& found, const Tensor& expected) {
  const Tensor same_infinity = found.eq(expected.to(found.scalar_type()));
  const Tensor difference = (found.to(at::kDouble) - expected).abs().masked_fill(same_infinity, 0);
  const Tensor finite = expected.masked_fill(expected.isinf(), 0).abs();
  const double bound = 2e-5 * (1 + (finite.numel() > 0 ? finite.max().item<double>() : 0));
  if (difference.numel() == 0 || difference.max().item<double>() <= bound) return;
  std::fprintf(stderr, "%s differs by %g\n", what, difference.max().item<double>());
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Bytes bytes(data, size);
  at::manual_seed(1);
  const bool packed = bytes.coin();
  const int64_t batch = bytes.below(4), heads = 1 + bytes.below(3), dim = 1 + bytes.below(70),
                value_dim = bytes.coin() ? dim : 1 + bytes.below(70);
  const int64_t longest = bytes.coin() ? 40 : 600;
  int64_t queries = bytes.below(longest), keys = bytes.below(longest);
  fovea::ops::FlashAttentionArguments a;
  a.causal = bytes.coin();
  if (bytes.coin()) a.window_left = bytes.below(50);
  if (bytes.coin()) a.window_right = bytes.below(50);
  if (bytes.coin()) {
    a.dropout_p = static_cast<double>(bytes.below(11)) / 10;
    a.rng = at::tensor({bytes.below(1000), bytes.below(1000), bytes.below(1000)}, at::kLong);
  }
  std::vector<int64_t> query_lens, key_lens;
  for (int64_t b = 0; b < batch; ++b) {
    query_lens.push_back(bytes.below(queries + 1));
    key_lens.push_back(bytes.below(keys + 1));
  }
  Tensor q, k, v, bias;
  if (bytes.coin()) {
    bias = at::randn({bytes.coin() ? batch : 1, bytes.coin() ? heads : 1, bytes.coin() ? queries : 1, keys});
    if (bytes.coin()) bias.masked_fill_(at::rand_like(bias).lt(0.3), -std::numeric_limits<double>::infinity());
  }
  if (packed) {
    std::vector<int32_t> query_offsets = {0}, key_offsets = {0};
    for (size_t b = 0; b < query_lens.size(); ++b) {
      query_offsets.push_back(query_offsets.back() + static_cast<int32_t>(query_lens[b]));
      key_offsets.push_back(key_offsets.back() + static_cast<int32_t>(key_lens[b]));
    }
    a.query_offsets = at::tensor(query_offsets, at::kInt);
    a.key_offsets = at::tensor(key_offsets, at::kInt);
    a.max_query = std::max<int64_t>(queries, 1);  // 0 would mean: find out
    a.max_key = std::max<int64_t>(keys, 1);
    if (queries == 0 || keys == 0) bias = Tensor();
    q = at::randn({query_offsets.back(), heads, dim});
    k = at::randn({key_offsets.back(), heads, dim});
    v = at::randn({key_offsets.back(), heads, value_dim});
  } else {
    if (bytes.coin()) a.query_lens = at::tensor(query_lens, at::kLong);
    if (bytes.coin()) a.valid_lens = at::tensor(key_lens, at::kLong);
    if (bytes.coin()) a.valid_lens = at::randint(-1, keys + 2, {batch, queries}, at::kLong);
    q = at::randn({batch, queries, heads, dim}).transpose(1, 2);
    k = at::randn({batch, keys, heads, dim}).transpose(1, 2);
    v = at::randn({batch, heads, keys, value_dim});
  }

  std::vector<Tensor> results[2];
  Tensor upstream;
  for (const bool exact : {false, true}) {
    std::vector<Tensor> in = {q, k, v};
    if (bias.defined()) in.push_back(bias);
    for (auto& t : in) t = t.to(exact ? at::kDouble : at::kFloat).detach().requires_grad_();
    a.bias = bias.defined() ? in[3] : Tensor();
    const auto [output, lse] = fovea::ops::flash_attention(in[0], in[1], in[2], a);
    if (!upstream.defined()) upstream = at::randn(output.sizes());
    results[exact] = {output.detach(), lse};
    for (auto& g : torch::autograd::grad({output}, in, {upstream.to(output.scalar_type())})) {
      results[exact].push_back(g);
    }
  }
  const char* names[] = {"output", "lse", "gradient of the query", "of the key", "of the value", "of the bias"};
  for (size_t i = 0; i < results[0].size(); ++i) compare(names[i], results[0][i], results[1][i]);
  return 0;
}
