// Copies, constants and values that follow from indices alone.
#include <cstring>

#include "kernels/convert.h"
#include "kernels/kernel_args.h"
#include "kernels/kernel_table.h"
#include "kernels/strided_loop.h"

namespace shardlab {

namespace {

template <std::size_t index>
void convert_kernel(const KernelCall& call) {
  convert_tensor(call.outputs[0], tensor_arg(call, index));
}

template <std::size_t index>
void fill_kernel(const KernelCall& call) {
  if (const Tensor* value = optional_tensor_arg(call, index)) {
    return convert_tensor(call.outputs[0], *value);
  }
  fill_tensor(call.outputs[0], scalar_arg(call, index));
}

template <int value>
void constant_kernel(const KernelCall& call) {
  for (const Tensor& output : call.outputs) fill_tensor(output, Scalar(value));
}

}  // namespace

void add_copy_kernels(KernelTable& table) {
  table.set(KernelId::kCopy, convert_kernel<1>);
  table.set(KernelId::kConvert, convert_kernel<0>);
  table.set(KernelId::kFill, fill_kernel<1>);
  table.set(KernelId::kFillThird, fill_kernel<2>);
  table.set(KernelId::kZeros, constant_kernel<0>);
  table.set(KernelId::kOnes, constant_kernel<1>);
}

}  // namespace shardlab
