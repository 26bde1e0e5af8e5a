// Pointwise kernels on the device: their list and their functions are in kernels/pointwise.
#include "kernels/pointwise.h"

#include "backends/cuda/kernels.h"

namespace shardlab::cuda {

namespace {

class CudaRunner final : public ElementRunner {
 public:
  explicit CudaRunner(Ops& ops) : ops_(ops) {}

  void run(Element function, DType promoted, const Tensor& out,
           std::span<const LocalArg> operands) override {
    pointwise(ops_, function, promoted, out, operands);
  }
  bool has_zero(const Tensor& tensor, DType dtype) override {
    if (tensor.numel() == 0) return false;
    const Tensor values = as_contiguous(ops_, tensor, dtype);
    const DimMask all(values.shape().size(), 1);
    const Tensor whole = fold(ops_, Fold::kAll, DType::kI64, RowView(values, all));
    std::uint8_t truth = 1;
    ops_.device().read(whole, &truth);
    return truth == 0;
  }

 private:
  Ops& ops_;
};

void run_pointwise(Ops& ops, const KernelCall& call) {
  CudaRunner runner(ops);
  pointwise_kernels()[static_cast<std::size_t>(call.kernel)](runner, call);
}

}  // namespace

void add_pointwise_kernels(CudaKernelTable& table) {
  const auto kernels = pointwise_kernels();
  for (std::size_t id = 0; id < kernels.size(); ++id) {
    if (kernels[id] != nullptr) table.set(static_cast<KernelId>(id), run_pointwise);
  }
}

}  // namespace shardlab::cuda
