// kernels.h - kernels of the CUDA device, written over the functions of table.h.
#pragma once

#include <array>
#include <span>

#include "backends/cuda/table.h"
#include "kernels/kernel_args.h"
#include "kernels/kernel_id.h"
#include "kernels/promotion.h"
#include "kernels/rows.h"
#include "tensor/device.h"

namespace shardlab::cuda {

/// The operations of kernels on one device; throws the errors of the table's functions. Waits for a
/// device that other threads use.
class Ops {
 public:
  virtual ~Ops() = default;
  virtual Device& device() = 0;

  virtual void pointwise(PointwiseCall call) = 0;
  virtual void move(MoveCall call) = 0;
  virtual void fold(const FoldCall& call) = 0;
  virtual void scan(const ScanCall& call) = 0;
  virtual void scatter(const ScatterCall& call) = 0;
  virtual void lookup(const LookupCall& call) = 0;
  virtual void draw(const DrawCall& call) = 0;
  virtual void merge(const MergeCall& call) = 0;
  virtual void search(const SearchCall& call) = 0;
  virtual void gather_patches(const PatchCall& call) = 0;
  virtual void add_patches(const PatchCall& call) = 0;
  virtual void sample(const SampleCall& call) = 0;
  virtual void largest(const LargestCall& call) = 0;
  virtual void product(const ProductCall& call) = 0;
  /// Fails with Value when an index of the last lookup or scatter was out of range. Waits.
  virtual void check_indices(std::string_view what) = 0;
};

/// Fails with Unsupported for complex numbers and f8.
DType compute_dtype_here(DType dtype);

/// Integers exactly; a float truncated, one that no integer is near as a conversion gives it.
std::int64_t integer_part(const Scalar& number);

/// First element of a tensor for reading; for writing, which must be requested first.
void* readable(const Tensor& tensor);
void* writable(const Tensor& tensor);

/// A walk over `shape` with these arrays; joins dims that follow each other in all of them. Each
/// place's strides are replaced by those of the walk. Fails with Unsupported where more than
/// kMaxDims dims are left.
class Walk {
 public:
  explicit Walk(std::span<const std::int64_t> shape) : shape_(shape) {}
  void add(Place& place, std::span<const std::int64_t> stride);
  /// A tensor broadcast to the shape.
  void add_read(Place& place, const Tensor& tensor);
  Shape finish();

 private:
  struct Array {
    Place* place;
    Dims stride;
  };
  bool joins(std::size_t outer, std::size_t inner) const;

  Dims shape_;
  std::vector<Array> arrays_;
};

/// out = op(operands), which meet in `promoted`: tensors broadcast, numbers are constant.
void pointwise(Ops& ops, Element op, DType promoted, const Tensor& out,
               std::span<const LocalArg> operands);
/// A new tensor of this shape in the compute dtype.
Tensor computed(Ops& ops, Element op, DType compute, std::span<const std::int64_t> shape,
                std::initializer_list<LocalArg> operands);
/// out[...] = source[...], converted and broadcast.
void convert(Ops& ops, const Tensor& out, const Tensor& source);
void fill(Ops& ops, const Tensor& out, const Scalar& number);
/// A contiguous tensor of `dtype` with the same elements; the tensor itself if it is that.
Tensor as_contiguous(Ops& ops, const Tensor& tensor, DType dtype);

/// A tensor with the dims that stay in front of those that are reduced.
struct RowView {
  RowView(const Tensor& tensor, const DimMask& reduced);
  /// One value per row, as a tensor that broadcasts over the rows.
  Tensor over_rows(const Tensor& values) const;
  std::int64_t rows = 1;
  std::int64_t size = 1;
  Tensor tensor;
  Dims kept;
};
Rows rows_of(const RowView& view);

/// Folds each of call.rows to one value: first the pieces of rows that are cut (pieces.h), then
/// their results. Without rows nothing is done.
void fold_rows(Ops& ops, FoldCall call);
/// One value per row, in `compute` (bool for any and all).
Tensor fold(Ops& ops, Fold fold, DType compute, const RowView& view);

/// left right, contiguous in the compute dtype of `dtype`: both of two dims, or of three, of which
/// the first counts matrices. Floats are read in `dtype`.
Tensor multiplied(Ops& ops, const Tensor& left, const Tensor& right, DType dtype);

/// out's elements in row-major order are these values, one per row.
void put_rows(Ops& ops, const Tensor& out, const Tensor& values);

struct Extremum {
  Tensor values;   ///< in the compute dtype
  Tensor indices;  ///< of equals the first
};
/// One per row, by Fold::kMax or kMin. Fails with Value where rows have no elements.
Extremum extremum_with_index(Ops& ops, Fold kind, const RowView& rows);

/// 0, 1, .. in row-major order, of i64.
Tensor numbered(Ops& ops, const Dims& shape);

/// [rows, 1]: of each row of values [rows, size] the element at index [rows, 1], which exists.
Tensor picked(Ops& ops, const Tensor& values, const Tensor& index);

using CudaKernel = void (*)(Ops& ops, const KernelCall& call);

class CudaKernelTable {
 public:
  void set(KernelId id, CudaKernel kernel) { kernels_[static_cast<std::size_t>(id)] = kernel; }
  CudaKernel find(KernelId id) const {
    const auto index = static_cast<std::size_t>(id);
    return index < kernels_.size() ? kernels_[index] : nullptr;
  }

 private:
  std::array<CudaKernel, static_cast<std::size_t>(KernelId::kCount)> kernels_{};
};

void add_pointwise_kernels(CudaKernelTable& table);
void add_convolution_kernels(CudaKernelTable& table);
void add_copy_kernels(CudaKernelTable& table);
void add_row_kernels(CudaKernelTable& table);
void add_matrix_kernels(CudaKernelTable& table);
void add_index_kernels(CudaKernelTable& table);
void add_position_kernels(CudaKernelTable& table);
void add_resample_kernels(CudaKernelTable& table);
void add_sort_kernels(CudaKernelTable& table);

}  // namespace shardlab::cuda
