// Layer normalisation and its gradients. f16 and bf16 are computed in f32.
#include <optional>
#include <vector>

#include "kernels/elementwise.h"
#include "kernels/kernel_table.h"
#include "kernels/row_reduce.h"
#include "kernels/rows.h"

namespace shardlab {

namespace {

// weight or bias in row-major order; `fallback` everywhere for None.
template <typename T>
std::vector<T> affine(const Tensor* tensor, std::int64_t size, T fallback) {
  std::vector<T> values(static_cast<std::size_t>(size), fallback);
  if (tensor != nullptr) load_row_major(values.data(), dtype_of<T>(), *tensor);
  return values;
}

// native_layer_norm(input, normalized_shape, weight, bias, eps) -> output, mean, rstd
template <typename T>
void layer_norm(const KernelCall& call) {
  const Tensor& input = tensor_arg(call, 0);
  const DimMask dims = normalized_dims(input, call, 1);
  OutputRows<T> output(call.outputs[0], dims);
  Rows<T> rows(input, dims);
  const std::int64_t count = rows.count(), size = rows.size();
  const auto weights = affine<T>(optional_tensor_arg(call, 2), size, T(1));
  const auto biases = affine<T>(optional_tensor_arg(call, 3), size, T(0));
  const T *weight = weights.data(), *bias = biases.data();
  const T epsilon = static_cast<T>(scalar_arg(call, 4).to_double());
  const auto means = scratch<T>(count), rstds = scratch<T>(count);
  for (std::int64_t i = 0; i < count; ++i) {
    const T* row = rows.row(i);
    const T mean = reduce_row<SumOp>(row, size) / T(size);
    const auto deviation = [=](std::int64_t j) { return (row[j] - mean) * (row[j] - mean); };
    const T variance = reduce_range<SumOp, T>(deviation, 0, size) / T(size);
    const T rstd = T(1) / std::sqrt(variance + epsilon);
    output.write(i, [=](T* to) {
      for (std::int64_t j = 0; j < size; ++j) to[j] = (row[j] - mean) * rstd * weight[j] + bias[j];
    });
    means[i] = mean;
    rstds[i] = rstd;
  }
  output.store();
  store_row_major(call.outputs[1], means.get(), dtype_of<T>());
  store_row_major(call.outputs[2], rstds.get(), dtype_of<T>());
}

// One row: the gradient of the input, and what the row adds to those of weight and bias.
template <typename T>
struct LayerNormRow {
  const T* grad;
  const T* input;
  T mean;
  T rstd;
  std::int64_t size;

  T normalized(std::int64_t j) const { return (input[j] - mean) * rstd; }

  // Lambdas hold a copy of the row: what is written is then none of its members.
  void input_gradient(const T* weight, T* to) const {
    const auto scaled = [row = *this, weight](std::int64_t j) { return row.grad[j] * weight[j]; };
    const auto along = [=, row = *this](std::int64_t j) { return scaled(j) * row.normalized(j); };
    const T mean_scaled = reduce_range<SumOp, T>(scaled, 0, size) / T(size);
    const T mean_along = reduce_range<SumOp, T>(along, 0, size) / T(size);
    const LayerNormRow row = *this;
    for (std::int64_t j = 0; j < row.size; ++j) {
      to[j] = row.rstd * (scaled(j) - mean_scaled - row.normalized(j) * mean_along);
    }
  }

  void add_affine(double* weight, double* bias) const {
    const LayerNormRow row = *this;
    for (std::int64_t j = 0; j < row.size; ++j) {
      weight[j] += static_cast<double>(row.grad[j] * row.normalized(j));
    }
    for (std::int64_t j = 0; j < row.size; ++j) bias[j] += static_cast<double>(row.grad[j]);
  }
};

// native_layer_norm_backward(grad_out, input, normalized_shape, mean, rstd, weight, bias,
// output_mask): an output that is not asked for is undefined.
template <typename T>
void layer_norm_backward(const KernelCall& call) {
  const Tensor &grad = tensor_arg(call, 0), &input = tensor_arg(call, 1);
  const DimMask dims = normalized_dims(input, call, 2);
  const auto& outputs = call.outputs;
  std::optional<OutputRows<T>> grad_input;
  if (outputs[0].defined()) grad_input.emplace(outputs[0], dims);
  Rows<T> grads(grad, dims), inputs(input, dims);
  const std::int64_t count = inputs.count(), size = inputs.size();
  const RowMajor<T> means(tensor_arg(call, 3)), rstds(tensor_arg(call, 4));
  const auto weight = affine<T>(optional_tensor_arg(call, 5), size, T(1));
  std::vector<double> grad_weight(static_cast<std::size_t>(size)), grad_bias = grad_weight;
  for (std::int64_t i = 0; i < count; ++i) {
    const LayerNormRow<T> row{grads.row(i), inputs.row(i), means.data()[i], rstds.data()[i], size};
    if (grad_input) grad_input->write(i, [&](T* to) { row.input_gradient(weight.data(), to); });
    row.add_affine(grad_weight.data(), grad_bias.data());
  }
  if (grad_input) grad_input->store();
  if (outputs[1].defined()) store_row_major(outputs[1], grad_weight.data(), DType::kF64);
  if (outputs[2].defined()) store_row_major(outputs[2], grad_bias.data(), DType::kF64);
}

}  // namespace

void add_normalization_kernels(KernelTable& table) {
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
