// mm, bmm, mv, dot and their add variants. f16 and bf16 accumulate in f32 and round once.
#include "kernels/matmul.h"

#include <algorithm>

#include "kernels/elementwise.h"
#include "kernels/functors.h"
#include "kernels/kernel_args.h"
#include "kernels/kernel_table.h"
#include "kernels/scratch.h"

namespace shardlab {

void multiply(const MatrixView<std::int64_t>& out, const MatrixView<const std::int64_t>& a,
              const MatrixView<const std::int64_t>& b) {
  for (std::int64_t row = 0; row < out.rows; ++row) {
    for (std::int64_t column = 0; column < out.columns; ++column) {
      std::int64_t sum = 0;
      for (std::int64_t k = 0; k < a.columns; ++k) {
        const std::int64_t left = a.data[row * a.row_stride + k * a.column_stride];
        const std::int64_t right = b.data[k * b.row_stride + column * b.column_stride];
        sum = sum_of(sum, product_of(left, right));
      }
      out.data[row * out.row_stride + column * out.column_stride] = sum;
    }
  }
}

namespace {

// The last two dims as a matrix that multiply() can read in place, else a converted copy.
template <typename T>
class MatrixInput {
 public:
  explicit MatrixInput(const Tensor& matrix) {
    const std::int64_t rows = matrix.size(0), columns = matrix.size(1);
    std::int64_t row_stride = matrix.stride()[0], column_stride = matrix.stride()[1];
    const bool rows_lie = (column_stride == 1 || columns == 1) && row_stride >= columns;
    const bool columns_lie = (row_stride == 1 || rows == 1) && column_stride >= rows;
    if (matrix.dtype() == dtype_of<T>() && (rows_lie || columns_lie)) {
      (rows_lie ? column_stride : row_stride) = 1;
      const auto* data = reinterpret_cast<const T*>(readable_bytes(matrix));
      view_ = {data, rows, columns, row_stride, column_stride};
      return;
    }
    copy_ = scratch<T>(matrix.numel());
    load_row_major(copy_.get(), dtype_of<T>(), matrix);
    view_ = {copy_.get(), rows, columns, std::max<std::int64_t>(columns, 1), 1};
  }
  const MatrixView<const T>& view() const { return view_; }

 private:
  Scratch<T> copy_;
  MatrixView<const T> view_;
};

template <typename T>
void multiply_tensors(const Tensor& out, const Tensor& a, const Tensor& b) {
  const RowMajorOutput<T> result(out);
  const std::int64_t columns = b.size(1);
  multiply({result.data(), a.size(0), columns, std::max<std::int64_t>(columns, 1), 1},
           MatrixInput<T>(a).view(), MatrixInput<T>(b).view());
  result.store();
}

template <typename T>
T scalar_as(const Scalar& number) {
  T value;
  store_scalar(&value, dtype_of<T>(), number);
  return value;
}

// product = beta * self + alpha * product; beta == 0 ignores self, NaN included.
template <typename T>
void add_scaled(T* product, const Tensor& out, const Tensor& self, const KernelCall& call) {
  const T beta = scalar_as<T>(scalar_arg(call, 3)), alpha = scalar_as<T>(scalar_arg(call, 4));
  const std::int64_t count = out.numel();
  if (alpha != T(1)) {
    for (std::int64_t i = 0; i < count; ++i) product[i] = product_of(alpha, product[i]);
  }
  if (beta == T(0)) return;
  const RowMajor<T> added(broadcast_view(self, out.shape()));
  for (std::int64_t i = 0; i < count; ++i) {
    product[i] = sum_of(product[i], product_of(beta, added.data()[i]));
  }
}

// The matrices of dim 0 of a batch.
Tensor matrix_of(const Tensor& batch, std::int64_t index) {
  const Dims shape{batch.size(1), batch.size(2)};
  const Dims stride{batch.stride()[1], batch.stride()[2]};
  return batch.as_view({shape, stride, batch.dtype()}, batch.offset() + index * batch.stride()[0]);
}

template <typename T>
void multiply_batch(T* result, const Tensor& a, const Tensor& b) {
  const std::int64_t rows = a.size(1), columns = b.size(2);
  for (std::int64_t i = 0; i < a.size(0); ++i) {
    multiply({result + i * rows * columns, rows, columns, std::max<std::int64_t>(columns, 1), 1},
             MatrixInput<T>(matrix_of(a, i)).view(), MatrixInput<T>(matrix_of(b, i)).view());
  }
}

void mm_kernel(const KernelCall& call) {
  with_compute_type<kAllKinds>(call.outputs[0].dtype(), [&](auto type) {
    multiply_tensors<decltype(type)>(call.outputs[0], tensor_arg(call, 0), tensor_arg(call, 1));
  });
}

// Matrix by matrix, so that converted elements stay in a core's cache.
void bmm_kernel(const KernelCall& call) {
  const Tensor &out = call.outputs[0], &a = tensor_arg(call, 0), &b = tensor_arg(call, 1);
  with_compute_type<kAllKinds>(out.dtype(), [&](auto type) {
    for (std::int64_t i = 0; i < a.size(0); ++i) {
      multiply_tensors<decltype(type)>(matrix_of(out, i), matrix_of(a, i), matrix_of(b, i));
    }
  });
}

// addmm(self, mat1, mat2, beta, alpha) and baddbmm: the product is written to a scratch, because
// self may be the output.
void addmm_kernel(const KernelCall& call) {
  with_compute_type<kAllKinds>(call.outputs[0].dtype(), [&](auto type) {
    using T = decltype(type);
    const Tensor &out = call.outputs[0], &a = tensor_arg(call, 1), &b = tensor_arg(call, 2);
    const auto product = scratch<T>(out.numel());
    if (a.dim() == 3) {
      multiply_batch<T>(product.get(), a, b);
    } else {
      const std::int64_t columns = b.size(1);
      multiply({product.get(), a.size(0), columns, std::max<std::int64_t>(columns, 1), 1},
               MatrixInput<T>(a).view(), MatrixInput<T>(b).view());
    }
    writable_bytes(out);
    add_scaled<T>(product.get(), out, tensor_arg(call, 0), call);
    store_row_major(out, product.get(), dtype_of<T>());
  });
}

Tensor as_column(const Tensor& vector) {
  return vector.as_view({{vector.size(0), 1}, {vector.stride()[0], 1}, vector.dtype()},
                        vector.offset());
}

Tensor as_row(const Tensor& vector) {
  return vector.as_view({{1, vector.size(0)}, {1, vector.stride()[0]}, vector.dtype()},
                        vector.offset());
}

// mv(self, vec) and dot(self, tensor).
void vector_product_kernel(const KernelCall& call) {
  const Tensor &out = call.outputs[0], &a = tensor_arg(call, 0), &b = tensor_arg(call, 1);
  const Tensor left = a.dim() == 1 ? as_row(a) : a;
  const TensorMeta column{
      {left.size(0), 1}, {out.dim() == 1 ? out.stride()[0] : 1, 1}, out.dtype()};
  with_compute_type<kAllKinds>(out.dtype(), [&](auto type) {
    multiply_tensors<decltype(type)>(out.as_view(column, out.offset()), left, as_column(b));
  });
}

}  // namespace

void add_matmul_kernels(KernelTable& table) {
  table.set(KernelId::kMm, mm_kernel);
  table.set(KernelId::kBmm, bmm_kernel);
  table.set(KernelId::kAddmm, addmm_kernel);
  table.set(KernelId::kBaddbmm, addmm_kernel);
  table.set(KernelId::kMv, vector_product_kernel);
  table.set(KernelId::kDot, vector_product_kernel);
}

}  // namespace shardlab
