// Every SIMD variant of the kernels that this processor can run, not only the one it would choose.
#include <hwy/targets.h>

#include "fovea/ops/dropout.h"
#include "fovea/ops/flash_attention.h"
#include "tests/numeric.h"
#include "tests/test.h"

using namespace fovea;
using fovea_tests::max_difference;

namespace {

// Restricts dispatch to one target while it lives.
class OnlyTarget {
 public:
  explicit OnlyTarget(int64_t target) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
  ~OnlyTarget() {
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
};

std::vector<int64_t> targets() {
  std::vector<int64_t> each;
  for (int64_t left = hwy::SupportedTargets(); left != 0; left &= left - 1) each.push_back(left & -left);
  return each;
}

struct Results {
  at::Tensor output, dq, dk, dv;
};

Results attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const ops::FlashAttentionArguments& a) {
  const at::Tensor query = q.clone().requires_grad_(), key = k.clone().requires_grad_(),
                   value = v.clone().requires_grad_();
  const auto [output, lse] = ops::flash_attention(query, key, value, a);
  output.backward(at::cos(at::arange(output.numel(), output.options())).view(output.sizes()));
  return {output.detach(), query.grad(), key.grad(), value.grad()};
}

}  // namespace

TEST_CASE("dropout draws the same on every SIMD target") {
  const at::Tensor rng = at::tensor({1, 2, 3}, at::kLong);
  REQUIRE(!targets().empty());
  for (const int64_t columns : {1, 9, 31, 64, 130}) {
    const at::Tensor x = at::randn({3, 5, columns});
    const at::Tensor expected = ops::dropout_reference(x, rng, 0.3);
    for (const int64_t target : targets()) {
      INFO(hwy::TargetName(target) << ", " << columns << " columns");
      const OnlyTarget only(target);
      CHECK(at::allclose(ops::dropout(x, rng, 0.3), expected));
    }
  }
}

TEST_CASE("flash attention agrees with double on every SIMD target") {
  const at::Tensor rng = at::tensor({1, 2, 3}, at::kLong);
  for (const auto& [lq, lk, d] :
       std::vector<std::array<int64_t, 3>>{{9, 9, 64}, {37, 33, 48}, {37, 37, 20}, {1, 70, 33}, {130, 200, 5}}) {
    const at::Tensor q = at::randn({2, 3, lq, d}), k = at::randn({2, 3, lk, d}), v = at::randn({2, 3, lk, d});
    for (const bool causal : {false, true}) {
      for (const double p : {0.0, 0.25}) {
        ops::FlashAttentionArguments a;
        a.causal = causal;
        a.valid_lens = at::tensor({lk, lk / 2}, at::kLong);
        a.dropout_p = p;
        if (p > 0) a.rng = rng;
        const Results expected = attend(q.to(at::kDouble), k.to(at::kDouble), v.to(at::kDouble), a);
        for (const int64_t target : targets()) {
          INFO(hwy::TargetName(target) << ", " << lq << " x " << lk << " x " << d << ", causal " << causal << ", p "
                                       << p);
          const OnlyTarget only(target);
          const Results found = attend(q, k, v, a);
          CHECK(max_difference(found.output, expected.output) < 1e-5);
          CHECK(max_difference(found.dq, expected.dq) < 1e-4);
          CHECK(max_difference(found.dk, expected.dk) < 1e-4);
          CHECK(max_difference(found.dv, expected.dv) < 1e-4);
        }
      }
    }
  }
}
