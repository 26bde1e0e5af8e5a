// table_loops.h - the loops of kernels (kernels/loops.h) as calls of a device's table.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "backends/cuda/table.h"
#include "kernels/loops.h"
#include "kernels/rows.h"

namespace shardlab::cuda {

/// Throws the errors of the table's functions, and Unsupported for complex numbers and f8, which
/// are moved only. Waits for a device that other threads use.
class TableLoops : public Loops {
 public:
  TableLoops(const Table& table, Context* context) : table_(table), context_(context) {}
  virtual ~TableLoops() = default;

  void convert(const Tensor& out, const Tensor& source) override;
  void fill(const Tensor& out, const Scalar& number) override;
  using Loops::run;
  void run(Element function, DType promoted, const Tensor& out,
           std::span<const LocalArg> operands) override;
  void look_up(const Lookup& lookup) override;
  void scatter(const Scatter& scatter) override;
  void fold(Fold fold, DType compute, const Tensor& self, const DimMask& reduced,
            const Tensor& out) override;
  void scan(Scan scan, const Tensor& self, const DimMask& dim, const Tensor& values,
            const Tensor& places) override;
  void spread(const Tensor& self, const DimMask& reduced, const Tensor& means,
              const Tensor& squares) override;
  void multiply(const Tensor& out, const Tensor& a, const Tensor& b) override;
  void draw(const Draw& draw) override;
  Sorted sorted(const Tensor& self, const DimMask& dim, SortOrder order,
                std::int64_t wanted) override;
  void search(const Search& search) override;
  void largest(const Largest& largest) override;

 protected:
  /// Called before each call of the table that would wait for the stream, whatever its result.
  virtual void await_stream() = 0;
  static void throw_if(Failure failure, std::string_view what);

  const Table& table_;
  Context* const context_;

 private:
  template <typename Call>
  void issue(Failure (*function)(Context*, const Call&), const Call& call, std::string_view what) {
    throw_if(function(context_, call), what);
  }
  /// Fails with Value when an index of the last lookup or scatter was out of range. Waits.
  void check_indices(std::string_view op);
  /// Folds each of call.rows to one value: first the pieces of rows that are cut (pieces.h), then
  /// their results. Without rows nothing is done.
  void fold_rows(FoldCall call);
  /// Two runs each become one, of which `kept` elements stay.
  Sorted merged(const Sorted& runs, SortOrder order, std::int64_t run, std::int64_t kept);
};

/// Fails with Unsupported for complex numbers and f8.
DType compute_dtype_here(DType dtype);

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

Rows rows_of(const RowLayout& layout);

}  // namespace shardlab::cuda
