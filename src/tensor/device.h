// device.h - the second door: owns memory and runs local kernels (src/README.md, "Two doors"). Any
// device works with any communicator.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/rank_context.h"
#include "tensor/local_arg.h"
#include "tensor/local_view.h"

namespace shardlab {

/// Number of a kernel; the list is in kernels/kernel_id.h.
enum class KernelId : std::uint16_t;

/// One kernel launch. Outputs are allocated by the caller with the metadata that shape inference
/// gave (any strides); kernels write every element of them. In-place ops pass the written argument
/// as output too, so inputs and outputs may be the same tensor, but never overlap otherwise.
struct KernelCall {
  KernelId kernel;
  std::span<const LocalArg> args;
  std::span<const Tensor> outputs;
  /// Position of the tensor that the row names as position-dependent (random ops: the output;
  /// masked lookups: the table); null when the row does not need it.
  const LocalView* view = nullptr;
  /// For kernels of rows flagged `random`: the draw's state before this call.
  RandomState random;
};

/// Bytes held and the most ever held, counted by the allocator; per device object, thread-safe.
struct MemoryUse {
  std::int64_t held_bytes = 0;
  std::int64_t peak_bytes = 0;
};

/// Memory and local kernels of one kind. Calls are made from any rank's thread; a device that ranks
/// share is thread-safe, or takes turns. Buffers must not outlive it.
class Device {
 public:
  virtual ~Device() = default;

  /// "cpu", "cuda", "meta": part of a mesh's identity (M-6).
  virtual std::string_view type() const = 0;
  /// True for devices without data: values can't be read.
  virtual bool shape_only() const { return false; }

  /// Uninitialised memory, aligned to 64 bytes. Fails with Runtime, naming the size, when there is
  /// none.
  virtual BufferRef allocate(std::size_t size_bytes) = 0;
  /// Runs a kernel on the calling rank's stream. Fails with Unsupported when there is none for this
  /// id or dtype, with Value where the op refuses the call.
  virtual void run(const KernelCall& call) = 0;
  /// dst[...] = src[...] elementwise, shapes equal, dtypes equal, any strides.
  virtual void copy(const Tensor& dst, const Tensor& src) = 0;
  /// Host copies, row-major; order the host after the stream. `out` holds numel * item_bytes.
  virtual void read(const Tensor& src, void* out) = 0;
  /// Row-major values to `dst`, which may have any strides.
  virtual void write(const Tensor& dst, const void* data) = 0;
  /// Bytes held now and at most so far.
  virtual MemoryUse memory() const = 0;
};

/// How every device says that there is no memory; is_out_of_memory() knows the error by it.
inline constexpr std::string_view kCannotAllocate = "cannot allocate";
bool is_out_of_memory(const Error& error);

/// A new uninitialised tensor with these strides (which must be dense and non-overlapping).
Tensor empty(Device& device, const TensorMeta& meta);
Tensor empty(Device& device, std::span<const std::int64_t> shape, DType dtype);
/// The tensor itself when contiguous, else a contiguous copy.
Tensor contiguous(const Tensor& tensor);
/// An independent contiguous copy.
Tensor clone_contiguous(const Tensor& tensor);

}  // namespace shardlab
