// Layer normalisation and its gradients on the CPU. f16 and bf16 are computed in f32.
#include <cmath>
#include <optional>
#include <vector>

#include "kernels/elementwise.h"
#include "kernels/kernel_table.h"
#include "kernels/row_reduce.h"

namespace shardlab {

namespace {

// weight or bias in row-major order; `fallback` everywhere for None.
template <typename T>
std::vector<T> affine(const Tensor* tensor, std::int64_t size, T fallback) {
  std::vector<T> values(static_cast<std::size_t>(size), fallback);
  if (tensor != nullptr) load_row_major(values.data(), dtype_of<T>(), *tensor);
  return values;
}

template <typename T>
struct Moments {
  T mean;
  T rstd;
};

template <typename T>
Moments<T> moments_of(const T* x, std::int64_t size, T epsilon) {
  const T mean = reduce_row<SumOp>(x, size) / T(size);
  const auto square = [=](std::int64_t j) { return (x[j] - mean) * (x[j] - mean); };
  return {mean, T(1) / std::sqrt(reduce_elements<SumOp, T>(square, size) / T(size) + epsilon)};
}

// native_layer_norm(input, normalized_shape, weight, bias, eps) -> output, mean, rstd
template <typename T>
void layer_norm(const KernelCall& call) {
  const Tensor& input = tensor_arg(call, 0);
  const DimMask dims = normalized_dims(input, call, 1);
  OutputRows<T> output(call.outputs[0], dims);
  Rows<T> rows(input, dims);
  const std::int64_t size = rows.size();
  const std::vector<T> weight = affine<T>(optional_tensor_arg(call, 2), size, T(1));
  const std::vector<T> bias = affine<T>(optional_tensor_arg(call, 3), size, T(0));
  const T epsilon = static_cast<T>(scalar_arg(call, 4).to_double());
  const auto means = scratch<T>(rows.count()), rstds = scratch<T>(rows.count());
  for (std::int64_t i = 0; i < rows.count(); ++i) {
    const T* const x = rows.row(i);
    const auto [mean, rstd] = moments_of(x, size, epsilon);
    means[i] = mean;
    rstds[i] = rstd;
    output.write(i, [&, mean = mean, rstd = rstd](T* to) {
      const T *const factor = weight.data(), *const offset = bias.data();
#pragma GCC ivdep
      for (std::int64_t j = 0; j < size; ++j) to[j] = (x[j] - mean) * rstd * factor[j] + offset[j];
    });
  }
  output.store();
  store_row_major(call.outputs[1], means.get(), dtype_of<T>());
  store_row_major(call.outputs[2], rstds.get(), dtype_of<T>());
}

// native_layer_norm_backward(grad_out, input, normalized_shape, mean, rstd, weight, bias,
// output_mask): an output that is not wanted is undefined.
template <typename T>
void layer_norm_backward(const KernelCall& call) {
  const Tensor &input = tensor_arg(call, 1), &out = call.outputs[0];
  const DimMask dims = normalized_dims(input, call, 2);
  std::optional<OutputRows<T>> grad_input;
  if (out.defined()) grad_input.emplace(out, dims);
  Rows<T> grads(tensor_arg(call, 0), dims), inputs(input, dims);
  const std::int64_t size = inputs.size();
  const RowMajor<T> means(tensor_arg(call, 3)), rstds(tensor_arg(call, 4));
  const std::vector<T> weight = affine<T>(optional_tensor_arg(call, 5), size, T(1));
  std::vector<double> grad_weight(static_cast<std::size_t>(size));
  std::vector<double> grad_bias(static_cast<std::size_t>(size));
  double *const weights = grad_weight.data(), *const biases = grad_bias.data();
  for (std::int64_t i = 0; i < inputs.count(); ++i) {
    const T *const grad = grads.row(i), *const x = inputs.row(i), *const factor = weight.data();
    const T mean = means.data()[i], rstd = rstds.data()[i];
    const auto normal = [=](std::int64_t j) { return (x[j] - mean) * rstd; };
    const auto scaled = [=](std::int64_t j) { return grad[j] * factor[j]; };
    const auto along = [=](std::int64_t j) { return normal(j) * scaled(j); };
#pragma GCC ivdep
    for (std::int64_t j = 0; j < size; ++j) {
      weights[j] += static_cast<double>(grad[j] * normal(j));
      biases[j] += static_cast<double>(grad[j]);
    }
    if (!grad_input) continue;
    const T mean_scaled = reduce_elements<SumOp, T>(scaled, size) / T(size);
    const T mean_along = reduce_elements<SumOp, T>(along, size) / T(size);
    grad_input->write(i, [&](T* to) {
#pragma GCC ivdep
      for (std::int64_t j = 0; j < size; ++j) {
        to[j] = rstd * (scaled(j) - mean_scaled - normal(j) * mean_along);
      }
    });
  }
  if (grad_input) grad_input->store();
  const auto& outputs = call.outputs;
  if (outputs[1].defined()) store_row_major(outputs[1], grad_weight.data(), DType::kF64);
  if (outputs[2].defined()) store_row_major(outputs[2], grad_bias.data(), DType::kF64);
}

}  // namespace

void add_cpu_normalization_kernels(CpuKernelTable& table) {
  table.set(KernelId::kNativeLayerNorm, [](const KernelCall& call) {
    with_compute_type<kRealKind>(tensor_arg(call, 0).dtype(),
                                 [&](auto type) { layer_norm<decltype(type)>(call); });
  });
  table.set(KernelId::kNativeLayerNormBackward, [](const KernelCall& call) {
    with_compute_type<kRealKind>(tensor_arg(call, 1).dtype(),
                                 [&](auto type) { layer_norm_backward<decltype(type)>(call); });
  });
}

}  // namespace shardlab
