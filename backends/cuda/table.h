// table.h - the interface of the CUDA device to the part that is compiled for GPUs: plain data and
// a table of functions, the only thing that crosses between program and module. The same kernels,
// compiled for the host, fill a second table, with which they run in tests.
//
// Shapes and strides count elements. All work is issued in order on one stream; only copies to and
// from the host and bad_indices wait for it. A function returns null, or the error.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/shared/ordered.h"
#include "base/dtype.h"
#include "base/reduce_op.h"
#include "kernels/element_functions.h"
#include "kernels/loop_kinds.h"
#include "kernels/position_laws.h"
#include "kernels/sort_order.h"

namespace shardlab::cuda {

inline constexpr int kMaxDims = 8;
inline constexpr int kMaxOperands = 4;
inline constexpr int kMaxRuns = 4;

/// A message, or null for success. Valid until the next call.
using Failure = const char*;

/// One array of a strided walk over a shape.
struct Place {
  void* data = nullptr;  ///< first element; null: a number
  DType dtype = DType::kF32;
  std::int64_t stride[kMaxDims] = {};
  double real = 0;           ///< the number, where it is one
  std::int64_t integer = 0;  ///< the same for integers
};

/// A row-major walk.
struct Shape {
  int dims = 0;
  std::int64_t size[kMaxDims] = {};
  std::int64_t count = 1;
};

/// out[i] = op(in[0][i], ...), computed in `compute` (i64, f32 or f64); with f16, bf16 or a narrow
/// integer in `rounded`, operands of other dtypes are rounded to it first.
struct PointwiseCall {
  Element op;
  DType compute;
  DType rounded = DType::kF64;
  int operands;
  Shape shape;
  Place out;
  Place in[kMaxOperands];
};

/// out[i] = in[i]: bytes as they are.
struct MoveCall {
  std::int64_t item_bytes;
  Shape shape;
  Place out;
  Place in;
};

/// Rows of `size` elements, one after the other in the walk.
struct Rows {
  Shape shape;
  std::int64_t rows = 0;
  std::int64_t size = 0;
  Place source;
};

/// Rows cut into pieces of one size, the last of each row shorter; pieces are numbered row by row.
struct Pieces {
  std::int64_t per_row = 1;
  std::int64_t size = 0;  ///< elements
};

/// out[piece] = fold of the piece, in `compute` (bool for any and all); of an empty one the value
/// that changes nothing.
struct FoldCall {
  Fold fold;
  DType compute;
  Rows rows;
  Pieces pieces;
  void* out;
};

/// out [rows, size] = the running values along the rows, in `compute`; f32 adds up and multiplies
/// in f64. For extrema also their latest places.
struct ScanCall {
  Scan scan;
  DType compute;
  Rows rows;
  void* out;
  std::int64_t* indices = nullptr;  ///< [rows, size], of extrema
};

/// The global indices along one dim that are here, in order.
struct Runs {
  int count = 0;
  std::int64_t offset[kMaxRuns] = {};
  std::int64_t size[kMaxRuns] = {};
};

/// out[c] = source[c with c[dim] = the local place of index[c]]; zero and mask[c] = 1 where that is
/// not here. Indices outside [0, extent) are counted in bad_indices.
struct LookupCall {
  std::int64_t item_bytes;
  Shape shape;
  Place out;
  Place source;  ///< stride of `dim` is applied to the place; its walk stride there is 0
  std::int64_t step;
  Place index;
  std::int64_t extent;
  Runs here;
  Place mask;  ///< of bool; null: none
};

/// For every coordinate but `dim`, in order along it: out[.. index ..] = value, or the mode's
/// combination of both, in `compute`. With `counts`, contiguous as `out` is: number of values in an
/// element, incremented for each; the first replaces an element of none.
struct ScatterCall {
  Fold mode;
  DType compute;
  Shape lines;  ///< the index's shape without `dim`
  std::int64_t length;
  Place out;  ///< of dtype `compute`; walk strides of `lines`
  std::int64_t out_step;
  Place index;
  std::int64_t index_step;
  Place value;
  std::int64_t value_step;
  std::int64_t extent;
  std::int64_t* counts = nullptr;
};

/// out[i] by a law from the element's place in the global tensor and random numbers of that place.
struct DrawCall {
  DrawLaw law;
  Shape shape;
  Place out;
  Place chances;  ///< the elements' own numbers; null: there are none
  std::int64_t global_stride[kMaxDims] = {};
  Runs here[kMaxDims];
  std::uint64_t seed = 0;
  std::uint64_t offset = 0;
};

/// Each row of `from` [rows, size] is sorted runs of `run` elements, the last one shorter. Two runs
/// each become one in `to`, of which the first `kept` elements are written, one behind the other:
/// rows of `to_size`. Of equal elements the one with the smaller old place is first.
struct MergeCall {
  DType compute;  ///< of the keys: i64, f32 or f64
  SortOrder order;
  std::int64_t rows, size;
  std::int64_t run, kept;
  std::int64_t to_size;
  const void* from;
  const std::int64_t* stood = nullptr;  ///< the old place of each element in its row; null: its
                                        ///< present place
  void* to;
  std::int64_t* places;  ///< the old place of each element of `to`
};

/// out[i] = number of elements of a sorted row [size] before wanted[i], and with kCounted also
/// those equal to it: of row i / per_row.
struct SearchCall {
  Equals equals;
  DType compute;  ///< of sorted and wanted: i64, f32 or f64
  SortOrder order;
  const void* sorted;
  std::int64_t size;
  const void* wanted;
  std::int64_t count;
  std::int64_t per_row;
  std::int64_t* out;
};

/// The largest of each window in planes of up to three dims, in `compute`, and its place in its
/// plane; NaN wins, else the first. `steps`: first, beyond and step of each dim's windows, by
/// result, where `by_plane` of each plane.
struct LargestCall {
  DType compute;  ///< i64, f32 or f64
  std::int64_t planes;
  std::int64_t in[3], out[3];
  bool by_plane;
  const void* from;  ///< [planes, in], of dtype `compute`
  const std::int64_t* steps[3];
  void* values;  ///< [planes, out], of dtype `compute`
  std::int64_t* indices;
};

/// out [batch, rows, columns], contiguous of dtype `compute` (i64, f32 or f64), = a b.
struct Matrix {
  const void* data;
  std::int64_t batch_stride;
  std::int64_t row_stride;  ///< one of row and column stride is 1
  std::int64_t column_stride;
};
struct ProductCall {
  DType dtype;  ///< of a and b
  DType compute;
  std::int64_t batch, rows, inner, columns;
  Matrix a, b;
  void* out;
};

/// out[i] = terms[0][i] op terms[1][i] ..., in order, contiguous, not overlapping; f16 and bf16 add
/// up in f32; NaN wins extrema; elements of bool are 0 or 1.
struct CombineCall {
  DType dtype;
  ReduceOp op;
  const void* terms;  ///< one after the other
  std::int64_t ranks;
  std::int64_t count;
  void* out;
};

struct Context;

struct Table {
  Failure (*open)(int ordinal, Context** context);
  void (*close)(Context* context);
  /// "NVIDIA H200, 132 multiprocessors, CUDA 13.0".
  const char* (*description)(Context* context);
  /// cudaStream_t.
  void* (*stream)(Context* context);
  /// Null data without failure: no memory left.
  Failure (*allocate)(Context* context, std::size_t bytes, void** data);
  Failure (*release)(Context* context, void* data);
  Failure (*copy_in)(Context* context, void* to, const void* host, std::size_t bytes);
  Failure (*copy_out)(Context* context, void* host, const void* from, std::size_t bytes);
  /// Whether all issued work is over.
  Failure (*idle)(Context* context, bool* over);

  Failure (*pointwise)(Context* context, const PointwiseCall& call);
  Failure (*move)(Context* context, const MoveCall& call);
  Failure (*fold)(Context* context, const FoldCall& call);
  Failure (*scan)(Context* context, const ScanCall& call);
  Failure (*lookup)(Context* context, const LookupCall& call);
  Failure (*scatter)(Context* context, const ScatterCall& call);
  Failure (*draw)(Context* context, const DrawCall& call);
  Failure (*merge)(Context* context, const MergeCall& call);
  Failure (*search)(Context* context, const SearchCall& call);
  Failure (*largest)(Context* context, const LargestCall& call);
  Failure (*product)(Context* context, const ProductCall& call);
  Failure (*combine)(Context* context, const CombineCall& call);
  Failure (*order)(Context* context, const backends::Ordering& call);
  /// Number of indices since the last call that were outside of their range. Waits.
  Failure (*bad_indices)(Context* context, std::int64_t* count);
};

inline constexpr const char* kTableSymbol = "shardlab_cuda_table";
using TableFunction = const Table* (*)();

}  // namespace shardlab::cuda
