#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "fovea/core/enum_names.h"
#include "fovea/nn/size.h"

namespace fovea::nn {

/// A choice between the two layouts below, for settings.
enum class LayoutKind { kPacked, kPadded };

constexpr auto enum_names(LayoutKind) {
  return std::to_array<EnumName<LayoutKind>>({{LayoutKind::kPacked, "packed"}, {LayoutKind::kPadded, "padded"}});
}

/// How the tokens of a batch of sequences lie in a tensor. Padded and packed are two layouts of one thing:
///   padded  (batch, steps, ...)   every sequence in a row of `steps`, the valid tokens first
///   packed  (total, ...)          the valid tokens of all sequences, one after the other
/// Layers that work token by token (linear, norm, embedding) take either without looking; layers for which the
/// position or the neighbours matter ask the layout.
///
/// Sizes are known on the host, so that asking for them never waits for a device. A value: cheap to copy, the
/// tensors inside are shared and made when first asked for (not thread-safe: one forward pass, one layout).
class SequenceLayout {
 public:
  /// `lengths[i]` valid tokens in row i, rows of `steps`. Throws Error unless 0 <= length <= steps.
  static SequenceLayout padded(std::vector<int64_t> lengths, int64_t steps, at::Device device = at::kCPU);
  /// Every row is valid to its end.
  static SequenceLayout full(int64_t batch, const Size& steps, at::Device device = at::kCPU);
  /// The same, for tokens (batch, steps, ...).
  static SequenceLayout full(const at::Tensor& tokens);
  /// The same, for as many sequences as `like` (batch, ...) has, on its device, with rows of `steps`.
  static SequenceLayout full(const at::Tensor& like, const Size& steps);
  /// The lengths are known only on the device, as in cached decoding: int64 (batch).
  static SequenceLayout padded(const at::Tensor& lengths, const Size& steps);
  /// Throws Error for a negative length.
  static SequenceLayout packed(std::vector<int64_t> lengths, at::Device device = at::kCPU);

  bool is_packed() const { return data_->packed; }
  /// Whether both are copies of one layout.
  bool is_same(const SequenceLayout& other) const { return data_ == other.data_; }
  int64_t batch() const { return data_->batch; }
  /// The row length when padded, the longest sequence when packed.
  int64_t steps() const { return data_->steps.value(); }
  /// The same, for what is to be traced.
  const Size& traced_steps() const { return data_->steps; }
  /// The number of valid tokens; -1 when only the device knows.
  int64_t total() const { return data_->total; }
  /// Known on the host to hold no padding.
  bool all_valid() const { return data_->total == data_->batch * steps(); }
  at::Device device() const { return data_->device; }
  /// Empty when only the device knows the lengths.
  const std::vector<int64_t>& host_lengths() const { return data_->host_lengths; }

  /// int64 (batch)
  const at::Tensor& lengths() const;
  /// Where each sequence starts when packed: int32 (batch + 1), on the CPU.
  const at::Tensor& offsets() const;
  /// The position of each token in its sequence: int64 (steps) when padded, (total) when packed.
  const at::Tensor& positions() const;
  /// The position of each place in a row: int64 (steps), whichever the layout.
  const at::Tensor& row_positions() const;
  /// Which places hold a token: bool (batch, steps), whichever the layout.
  const at::Tensor& valid() const;

  /// The same sequences in the other layout. Packing needs the lengths on the host.
  SequenceLayout as_packed() const;
  SequenceLayout as_padded() const;
  SequenceLayout to(at::Device device) const;

  /// (batch, steps, ...) -> (total, ...). Differentiable; places without a token get gradient 0.
  at::Tensor pack(const at::Tensor& padded) const;
  /// (total, ...) -> (batch, steps, ...), zeros where there is no token.
  at::Tensor pad(const at::Tensor& packed) const;
  /// Padded `x` with zeros *selected* where there is no token: NaN there goes no further. Returns x when nothing
  /// is to be done.
  at::Tensor zero_padding(const at::Tensor& x) const;

 private:
  struct Data {
    bool packed = false;
    int64_t batch = 0, total = 0;
    Size steps = 0;
    at::Device device = at::kCPU;
    std::vector<int64_t> host_lengths;
    at::Tensor lengths, offsets, positions, row_positions, valid, flat_index;
    at::Tensor like;  // while tracing, any tensor of the device: the graph must not name one
  };

  explicit SequenceLayout(Data data) : data_(std::make_shared<Data>(std::move(data))) {}
  const at::Tensor& flat_index() const;  // of each packed token in (batch * steps): int64 (total)

  std::shared_ptr<Data> data_;
};

}  // namespace fovea::nn
