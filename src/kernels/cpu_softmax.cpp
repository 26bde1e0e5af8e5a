// Softmax, its logarithm and their gradients, row by row: f16 and bf16 in f32, sums in the order of
// all sums (row_reduce.h).
#include <cmath>

#include "kernels/elementwise.h"
#include "kernels/kernel_table.h"
#include "kernels/row_reduce.h"
#include "kernels/vector_math.h"

namespace shardlab {

namespace {

// to = exp(x - largest), the largest in the row; returns that. `to` may be x.
template <typename T>
T powers_of(const T* x, T* to, std::int64_t count) {
  const T largest = reduce_row<MaxOp>(x, count);
  for (std::int64_t i = 0; i < count; ++i) to[i] = x[i] - largest;
  map_function<element::Exp>(to, count, to);
  return largest;
}

// Each works on rows of `count` elements; `work` holds as many.

struct SoftmaxRow {
  template <typename T>
  static void apply(const T* x, T* to, T*, std::int64_t count) {
    powers_of(x, to, count);
    const T total = reduce_row<SumOp>(static_cast<const T*>(to), count);
    for (std::int64_t i = 0; i < count; ++i) to[i] /= total;
  }
};

struct LogSoftmaxRow {
  template <typename T>
  static void apply(const T* x, T* to, T* work, std::int64_t count) {
    const T largest = powers_of(x, work, count);
    const T log_total = std::log(reduce_row<SumOp>(static_cast<const T*>(work), count));
    for (std::int64_t i = 0; i < count; ++i) to[i] = x[i] - largest - log_total;
  }
};

// Gradients from those of the result and the result itself, once something was added up.
struct SoftmaxGradRow {
  template <typename T>
  static void apply(const T* grad, const T* y, T* to, T*, std::int64_t count) {
    const auto along = [=](std::int64_t i) { return grad[i] * y[i]; };
    const T sum = reduce_elements<SumOp, T>(along, count);
    for (std::int64_t i = 0; i < count; ++i) to[i] = (grad[i] - sum) * y[i];
  }
};

struct LogSoftmaxGradRow {
  template <typename T>
  static void apply(const T* grad, const T* y, T* to, T* work, std::int64_t count) {
    map_function<element::Exp>(work, count, y);
    const T sum = reduce_row<SumOp>(grad, count);
    for (std::int64_t i = 0; i < count; ++i) to[i] = grad[i] - work[i] * sum;
  }
};

// (self, dim, half_to_float)
template <typename Row>
void softmax_kernel(const KernelCall& call) {
  const Tensor& self = tensor_arg(call, 0);
  if (self.numel() == 0) return;  // of integers, too
  with_compute_type<kRealKind>(self.dtype(), [&]<typename T>(T) {
    const DimMask dim = single_dim(int_arg(call, 1), self);
    OutputRows<T> output(call.outputs[0], dim);
    Rows<T> input(self, dim);
    const auto work = scratch<T>(input.size());
    for (std::int64_t i = 0; i < input.count(); ++i) {
      const T* const x = input.row(i);
      output.write(i, [&](T* to) { Row::apply(x, to, work.get(), input.size()); });
    }
    output.store();
  });
}

// (grad_output, output, dim, input_dtype)
template <typename Row>
void softmax_backward_kernel(const KernelCall& call) {
  const Tensor& grad = tensor_arg(call, 0);
  with_compute_type<kRealKind>(grad.dtype(), [&]<typename T>(T) {
    const DimMask dim = single_dim(int_arg(call, 2), grad);
    OutputRows<T> to(call.outputs[0], dim);
    Rows<T> grads(grad, dim), outputs(tensor_arg(call, 1), dim);
    const auto work = scratch<T>(grads.size());
    for (std::int64_t i = 0; i < grads.count(); ++i) {
      const T *const slope = grads.row(i), *const y = outputs.row(i);
      to.write(i, [&](T* row) { Row::apply(slope, y, row, work.get(), grads.size()); });
    }
    to.store();
  });
}

}  // namespace

void add_cpu_softmax_kernels(CpuKernelTable& table) {
  table.set(KernelId::kSoftmax, softmax_kernel<SoftmaxRow>);
  table.set(KernelId::kLogSoftmax, softmax_kernel<LogSoftmaxRow>);
  table.set(KernelId::kSoftmaxBackward, softmax_backward_kernel<SoftmaxGradRow>);
  table.set(KernelId::kLogSoftmaxBackward, softmax_backward_kernel<LogSoftmaxGradRow>);
}

}  // namespace shardlab
