// Products of matrices on the CPU. f16 and bf16 accumulate in f32 and round once.
#include "kernels/matmul.h"

#include <algorithm>

#include "kernels/cpu_loops.h"
#include "kernels/functors.h"
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

// The matrices of dim 0 of a batch.
Tensor matrix_of(const Tensor& batch, std::int64_t index) {
  const Dims shape{batch.size(1), batch.size(2)};
  const Dims stride{batch.stride()[1], batch.stride()[2]};
  return batch.as_view({shape, stride, batch.dtype()}, batch.offset() + index * batch.stride()[0]);
}

}  // namespace

// Matrix by matrix, so that converted elements stay in a core's cache.
void CpuLoops::multiply(const Tensor& out, const Tensor& a, const Tensor& b) {
  with_compute_type<kAllKinds>(out.dtype(), [&]<typename T>(T) {
    if (out.dim() == 2) return multiply_tensors<T>(out, a, b);
    for (std::int64_t i = 0; i < a.size(0); ++i) {
      multiply_tensors<T>(matrix_of(out, i), matrix_of(a, i), matrix_of(b, i));
    }
  });
}

}  // namespace shardlab
