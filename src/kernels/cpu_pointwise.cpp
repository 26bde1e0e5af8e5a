// Pointwise kernels on the CPU.
#include "kernels/convert.h"
#include "kernels/elementwise.h"
#include "kernels/kernel_table.h"
#include "kernels/pointwise.h"
#include "kernels/strided_loop.h"

namespace shardlab {

namespace {

class CpuRunner final : public ElementRunner {
 public:
  void run(Element function, DType promoted, const Tensor& out,
           std::span<const LocalArg> operands) override {
    run_elementwise(function, promoted, out, operands);
  }
  bool has_zero(const Tensor& tensor, DType dtype) override {
    StridedLoop loop(tensor.shape());
    loop.add(tensor.stride(), item_bytes(tensor.dtype()));
    bool found = false;
    const std::byte* data = readable_bytes(tensor);
    loop.run([&](std::span<const std::int64_t> offsets, std::span<const std::int64_t> strides,
                 std::int64_t count) {
      for (std::int64_t i = 0; i < count && !found; ++i) {
        std::int64_t value = 0;
        const std::int64_t at = i * strides[0] * item_bytes(tensor.dtype());
        convert_run({&value, 1, dtype}, {data + offsets[0] + at, 1, tensor.dtype()}, 1);
        found = value == 0;
      }
    });
    return found;
  }
};

void run_pointwise(const KernelCall& call) {
  CpuRunner runner;
  pointwise_kernels()[static_cast<std::size_t>(call.kernel)](runner, call);
}

}  // namespace

void add_pointwise_kernels(KernelTable& table) {
  const auto kernels = pointwise_kernels();
  for (std::size_t id = 0; id < kernels.size(); ++id) {
    if (kernels[id] != nullptr) table.set(static_cast<KernelId>(id), run_pointwise);
  }
}

}  // namespace shardlab
