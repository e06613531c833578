#include "fovea/data/resize.h"

#include <hwy/targets.h>

#include "fovea/core/error.h"
#include "fovea/data/image_kernel.h"
#include "tests/numeric.h"
#include "tests/temp_dir.h"
#include "tests/test.h"

using namespace fovea;

namespace {

at::Tensor resize(const at::Tensor& image, int64_t height, int64_t width) {
  const at::Tensor out = at::empty({image.size(0), height, width}, at::kByte);
  data::Resizer(image.size(1), image.size(2), height, width)(image.const_data_ptr<uint8_t>(), out.data_ptr<uint8_t>(),
                                                             image.size(0));
  return out;
}

// Every SIMD variant that this processor can run.
template <typename Run>
void on_each_target(const Run& run) {
  for (int64_t left = hwy::SupportedTargets(); left != 0; left &= left - 1) {
    INFO(hwy::TargetName(left & -left));
    hwy::SetSupportedTargetsForTest(left & -left);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    run();
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
}

}  // namespace

TEST_CASE("resizing is PIL's, bit for bit, on every SIMD target") {
  const fovea_tests::Golden golden("images");
  int cases = 0;
  for (const std::string& name : golden.cases()) {
    if (!name.starts_with("resize_")) continue;
    ++cases;
    const auto expected = golden.at(name);
    const at::Tensor& out = expected.output("image");
    on_each_target([&] {
      INFO(name);
      CHECK(at::equal(resize(expected.input("image"), out.size(1), out.size(2)), out));
    });
  }
  CHECK(cases >= 11);
}

TEST_CASE("resizing keeps a flat image flat and treats channels apart") {
  const at::Tensor flat = at::full({2, 9, 14}, 200, at::kByte);
  CHECK(resize(flat, 31, 5).eq(200).all().item<bool>());
  const at::Tensor image = at::randint(0, 256, {3, 10, 12}, at::kByte);
  const at::Tensor all = resize(image, 17, 9);
  for (int64_t c = 0; c < 3; ++c) CHECK(at::equal(all.narrow(0, c, 1), resize(image.narrow(0, c, 1), 17, 9)));
  CHECK(data::Resizer(4, 5, 4, 5).is_identity());
  CHECK_THAT(error_of([] { data::Resizer(4, 5, 0, 5); }), ContainsSubstring("4 to 0"));
}

TEST_CASE("normalising is ToTensor and Normalize, bit for bit; mixing is linear") {
  const at::Tensor bytes = at::arange(256).to(at::kByte).repeat({3});
  const at::Tensor a = at::randn({131}), b = at::randn({131});
  on_each_target([&] {
    const at::Tensor out = at::empty({768}, at::kFloat);
    data::normalise_row(bytes.const_data_ptr<uint8_t>(), out.data_ptr<float>(), 767, 0.2860f, 0.3530f);
    const at::Tensor expected = bytes.to(at::kFloat).div(255).sub(at::tensor(0.2860f)).div(at::tensor(0.3530f));
    CHECK(at::equal(out.narrow(0, 0, 767), expected.narrow(0, 0, 767)));
    data::normalise_row(bytes.const_data_ptr<uint8_t>(), out.data_ptr<float>(), 768, 0.0f, 1.0f);
    CHECK(at::equal(out, bytes.to(at::kFloat).div(255)));
    const at::Tensor mixed = at::empty({131});
    data::mix_row(a.const_data_ptr<float>(), b.const_data_ptr<float>(), mixed.data_ptr<float>(), 131, 0.3f);
    CHECK(at::allclose(mixed, 0.3f * a + 0.7f * b, 1e-5, 1e-6));
  });
}
