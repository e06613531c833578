#include "fovea/export/comparison.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "fovea/core/error.h"

namespace fovea::exports {
namespace {

constexpr const char* kAdvice = "; a size that was frozen while tracing? (nn/size.h). Nothing was exported";

}  // namespace

void Comparing::run(const std::string& at, const std::function<void()>& compare) {
  at_ = at;
  ++result.cases;
  try {
    compare();
  } catch (const Error&) {
    throw;
  } catch (const c10::Error& e) {
    failed(e.what_without_backtrace());
  } catch (const std::exception& e) {  // what TorchScript raises
    failed(e.what());
  }
}

void Comparing::same(const char* what, const at::Tensor& exported, const at::Tensor& live) {
  if (exported.sizes() != live.sizes()) {
    fail("export: {}: the exported model gives {} of {}, the model itself of {}{}", at_, what,
         c10::str(exported.sizes()), c10::str(live.sizes()), kAdvice);
  }
  if (live.numel() == 0) return;
  const at::Tensor a = exported.to(at::kDouble), b = live.to(at::kDouble);
  const double difference = (a - b).abs().max().item<double>() / std::max(1.0, b.abs().max().item<double>());
  if (!(difference <= kExportTolerance)) {
    fail("export: {}: the {} of the exported model differ by {:.2g} from those of the model itself, more than {:.0e}{}",
         at_, what, difference, kExportTolerance, kAdvice);
  }
  result.largest = std::max(result.largest, difference);
}

void Comparing::failed(const std::string& why) const {
  fail("export: {}: the exported model fails: {}{}", at_, why, kAdvice);
}

}  // namespace fovea::exports
