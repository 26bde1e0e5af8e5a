// Matrix products as calls of the table. f16 and bf16 add up in f32 and round once.
#include "backends/cuda/table_loops.h"
#include "kernels/element_types.h"

namespace shardlab::cuda {

namespace {

// Dims of one matrix among `batches`; a copy where neither dim is dense.
Tensor readable_matrix(TableLoops& loops, const Tensor& given, DType dtype) {
  const std::size_t row = given.shape().size() - 2, column = row + 1;
  const bool rows_lie = given.stride()[column] == 1 && given.stride()[row] >= given.size(column);
  const bool columns_lie = given.stride()[row] == 1 && given.stride()[column] >= given.size(row);
  if (given.dtype() == dtype && (rows_lie || columns_lie)) return given;
  const Tensor copy = empty(loops.device(), given.shape(), dtype);
  loops.convert(copy, given);
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

void TableLoops::multiply(const Tensor& out, const Tensor& left, const Tensor& right) {
  if (out.numel() == 0) return;
  const DType compute = compute_dtype_here(out.dtype());
  const std::size_t row = left.shape().size() - 2;
  ProductCall call{};
  call.inner = left.shape().back();
  if (call.inner == 0) return fill(out, Scalar(0));
  call.batch = row == 1 ? out.size(0) : 1;
  call.rows = out.size(row);
  call.columns = out.shape().back();
  // Floats of the compute dtype are read as they are stored.
  const bool narrow = compute != DType::kI64 && compute_dtype(left.dtype()) == compute;
  const DType read = narrow ? left.dtype() : compute;
  const Tensor a = readable_matrix(*this, left, read), b = readable_matrix(*this, right, read);
  const Tensor product = empty(device(), out.shape(), compute);
  call.dtype = read;
  call.compute = compute;
  call.out = writable(product);
  call.a = matrix_of(a);
  call.b = matrix_of(b);
  issue(table_.product, call, "matrix product");
  convert(out, product);
}

}  // namespace shardlab::cuda
