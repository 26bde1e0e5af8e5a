// Buffers have sizes and no memory; kernels do nothing.
#include "backends/fake/shape_device.h"

#include "base/error.h"
#include "tensor/needs_values.h"

namespace shardlab {

namespace {

class ShapeDevice final : public Device {
 public:
  std::string_view type() const override { return "meta"; }
  bool shape_only() const override { return true; }
  BufferRef allocate(std::size_t size_bytes) override {
    return BufferRef(new Buffer(this, nullptr, size_bytes));
  }
  void run(const KernelCall&) override {}
  void copy(const Tensor& dst, const Tensor& src) override {
    check_invariant(dst.shape() == src.shape() && dst.dtype() == src.dtype(),
                    "Device::copy takes two tensors of one shape and dtype");
  }
  void read(const Tensor&, void*) override {
    throw Error(ErrorKind::kUnsupported, "a shape-only device holds no values to read")
        .with(kNeeds, kNeedsValues)
        .with("fix", "run it on a backend that computes");
  }
  void write(const Tensor&, const void*) override {}
  MemoryUse memory() const override { return {}; }
};

}  // namespace

std::unique_ptr<Device> make_shape_device() { return std::make_unique<ShapeDevice>(); }

}  // namespace shardlab
