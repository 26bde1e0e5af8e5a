// Copies, constants, and ops that only move slices.
#include "backends/cuda/kernels.h"
#include "kernels/tensor_moves.h"

namespace shardlab::cuda {

namespace {

class DeviceMoves final : public TensorMoves {
 public:
  explicit DeviceMoves(Ops& ops) : ops_(ops) {}
  void convert(const Tensor& out, const Tensor& source) const override {
    cuda::convert(ops_, out, source);
  }
  void fill(const Tensor& out, const Scalar& number) const override {
    cuda::fill(ops_, out, number);
  }

 private:
  Ops& ops_;
};

template <auto kernel>
void on_device(Ops& ops, const KernelCall& call) {
  kernel(DeviceMoves(ops), call);
}

template <std::size_t index>
void convert_argument(Ops& ops, const KernelCall& call) {
  convert(ops, call.outputs[0], tensor_arg(call, index));
}

template <std::size_t index>
void fill_with_argument(Ops& ops, const KernelCall& call) {
  if (const Tensor* value = optional_tensor_arg(call, index)) {
    return convert(ops, call.outputs[0], *value);
  }
  fill(ops, call.outputs[0], scalar_arg(call, index));
}

template <int value>
void constant(Ops& ops, const KernelCall& call) {
  for (const Tensor& output : call.outputs) fill(ops, output, Scalar(value));
}

}  // namespace

void add_copy_kernels(CudaKernelTable& table) {
  table.set(KernelId::kCopy, convert_argument<1>);
  table.set(KernelId::kConvert, convert_argument<0>);
  table.set(KernelId::kFill, fill_with_argument<1>);
  table.set(KernelId::kFillThird, fill_with_argument<2>);
  table.set(KernelId::kZeros, constant<0>);
  table.set(KernelId::kOnes, constant<1>);
  table.set(KernelId::kCat, on_device<moves::cat>);
  table.set(KernelId::kStack, on_device<moves::stack>);
  table.set(KernelId::kReshapeCopy, on_device<moves::reshape_copy>);
  table.set(KernelId::kSliceBackward, on_device<moves::slice_backward>);
  table.set(KernelId::kSelectBackward, on_device<moves::select_backward>);
  table.set(KernelId::kFlip, on_device<moves::flip>);
  table.set(KernelId::kRepeat, on_device<moves::repeat>);
  table.set(KernelId::kConstantPadNd, on_device<moves::pad>);
}

}  // namespace shardlab::cuda
