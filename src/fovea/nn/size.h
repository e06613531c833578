#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace fovea::nn {

/// A size or a position that differs from call to call: batch, steps, the place of the next token. It is a plain
/// number; while a graph is traced for export it is also the 0-dim tensor that has it there, because the tracer takes
/// every C++ integer for a constant. Code that is to be exported keeps such numbers as a Size and hands them to ATen
/// through the functions below, which outside tracing are ATen's own.
class Size {
 public:
  Size(int64_t value) : value_(value) {}  // NOLINT: a number is a size
  /// x.size(dim).
  static Size of(const at::Tensor& x, int64_t dim);
  /// The value of a 0-dim int64 tensor on the CPU.
  static Size from(const at::Tensor& scalar);

  int64_t value() const { return value_; }
  Size operator+(const Size& other) const;
  Size operator-(const Size& other) const;

  /// For the functions below: int64 (), undefined unless it is part of a traced graph.
  const at::Tensor& traced() const { return traced_; }

 private:
  Size(int64_t value, at::Tensor traced) : value_(value), traced_(std::move(traced)) {}
  int64_t value_;
  at::Tensor traced_;
};

/// x.narrow(dim, start, length).
at::Tensor narrow(const at::Tensor& x, int64_t dim, const Size& start, const Size& length);

/// like.new_zeros(sizes).
at::Tensor new_zeros(const at::Tensor& like, const std::vector<Size>& sizes);

/// int64 (end): 0, 1, ..., end - 1, on the device of `like`, int64.
at::Tensor arange(const Size& end, const at::Tensor& like);

/// x + size, for int64 x.
at::Tensor add(const at::Tensor& x, const Size& size);

/// Whether a graph is being traced on this thread.
bool is_tracing();

}  // namespace fovea::nn
