// Matrix products. f16 and bf16 add up in f32 and round once.
#include "backends/cuda/kernels.h"

namespace shardlab::cuda {

namespace {

// Dims of one matrix among `batches`; a copy where neither dim is dense.
Tensor readable_matrix(Ops& ops, const Tensor& given, DType dtype) {
  const std::size_t row = given.shape().size() - 2, column = row + 1;
  const bool rows_lie = given.stride()[column] == 1 && given.stride()[row] >= given.size(column);
  const bool columns_lie = given.stride()[row] == 1 && given.stride()[column] >= given.size(row);
  if (given.dtype() == dtype && (rows_lie || columns_lie)) return given;
  const Tensor copy = empty(ops.device(), given.shape(), dtype);
  convert(ops, copy, given);
  return copy;
}

Matrix matrix_of(const Tensor& tensor) {
  const std::size_t row = tensor.shape().size() - 2;
  return {.data = readable(tensor),
          .batch_stride = row == 1 ? tensor.stride()[0] : 0,
          .row_stride = tensor.stride()[row],
          .column_stride = tensor.stride()[row + 1]};
}

}  // namespace

Tensor multiplied(Ops& ops, const Tensor& left, const Tensor& right, DType dtype) {
  const DType compute = compute_dtype_here(dtype);
  const std::size_t row = left.shape().size() - 2;
  Dims shape = left.shape();
  shape.back() = right.shape().back();
  const Tensor out = empty(ops.device(), shape, compute);
  ProductCall call{};
  call.batch = row == 1 ? shape[0] : 1;
  call.rows = shape[row];
  call.inner = left.shape().back();
  call.columns = shape.back();
  if (out.numel() == 0) return out;
  if (call.inner == 0) {
    fill(ops, out, Scalar(0));
    return out;
  }
  const DType read = compute == DType::kI64 ? DType::kI64 : dtype;
  const Tensor a = readable_matrix(ops, left, read), b = readable_matrix(ops, right, read);
  call.dtype = read;
  call.out_dtype = compute;
  call.out = writable(out);
  call.a = matrix_of(a);
  call.b = matrix_of(b);
  ops.product(call);
  return out;
}

namespace {

void product_kernel(Ops& ops, const KernelCall& call) {
  const Tensor& out = call.outputs[0];
  convert(ops, out, multiplied(ops, tensor_arg(call, 0), tensor_arg(call, 1), out.dtype()));
}

// addmm(self, mat1, mat2, beta, alpha) and baddbmm; beta == 0 ignores self, NaN included.
void add_product_kernel(Ops& ops, const KernelCall& call) {
  const Tensor &out = call.outputs[0], &self = tensor_arg(call, 0);
  const DType compute = compute_dtype_here(out.dtype());
  Tensor product = multiplied(ops, tensor_arg(call, 1), tensor_arg(call, 2), out.dtype());
  const Scalar &beta = scalar_arg(call, 3), &alpha = scalar_arg(call, 4);
  if (alpha.to_double() != 1) {
    product = computed(ops, Element::kMul, compute, product.shape(), {product, alpha});
  }
  if (!beta.to_bool()) return convert(ops, out, product);
  const LocalArg operands[] = {product, self, beta};
  pointwise(ops, Element::kAddScaled, compute, out, operands);
}

Tensor reshaped(const Tensor& tensor, const Dims& shape, const Dims& stride) {
  return tensor.as_view({shape, stride, tensor.dtype()}, tensor.offset());
}

// mv(self, vec) and dot(self, tensor).
void vector_product_kernel(Ops& ops, const KernelCall& call) {
  const Tensor &out = call.outputs[0], &a = tensor_arg(call, 0), &b = tensor_arg(call, 1);
  const Tensor left = a.dim() == 1 ? reshaped(a, {1, a.size(0)}, {a.size(0), a.stride()[0]}) : a;
  const Tensor right = reshaped(b, {b.size(0), 1}, {b.stride()[0], 1});
  const Tensor product = multiplied(ops, left, right, out.dtype());
  convert(ops, out, product.as_view(contiguous_meta(out.shape(), product.dtype()), 0));
}

}  // namespace

void add_matrix_kernels(CudaKernelTable& table) {
  table.set(KernelId::kMm, product_kernel);
  table.set(KernelId::kBmm, product_kernel);
  table.set(KernelId::kAddmm, add_product_kernel);
  table.set(KernelId::kBaddbmm, add_product_kernel);
  table.set(KernelId::kMv, vector_product_kernel);
  table.set(KernelId::kDot, vector_product_kernel);
}

}  // namespace shardlab::cuda
