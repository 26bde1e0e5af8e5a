// loops.h - the lower half of a device: the loops over elements with which kernels are written,
// once for all devices. A kernel reads the arguments of its call and says what is computed; how a
// walk over memory is done is the device's own.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "kernels/element_functions.h"
#include "kernels/loop_kinds.h"
#include "kernels/position_laws.h"
#include "kernels/resampling.h"
#include "kernels/sort_order.h"
#include "tensor/device.h"

namespace shardlab {

/// One flag per tensor dim.
using DimMask = InlineVector<unsigned char, 8>;

/// The words of an error about an index out of range.
struct IndexWords {
  std::string_view op;
  std::string_view name = "index";
  std::string fix = "give a larger tensor, or other indices";
};

/// out[c] = source[c with c[dim] = index[c]]; the other dims of the source line up with those of
/// the output, which has its dtype.
struct Lookup {
  Tensor out;
  Tensor source;
  std::size_t dim;
  Tensor index;  ///< broadcasts to the output
  IndexWords words;
  /// The part of the source that is here: indices count in the whole of it; elsewhere the output is
  /// zero. Null: all of it is.
  const LocalView* view = nullptr;
  Tensor mask = {};  ///< of bool, of the index's shape: set where nothing is here; may be undefined
};

/// out[c with c[dim] = index[c]] = value[c], or the mode's combination of both, for all c, in order
/// along the dim.
struct Scatter {
  Fold mode;
  Tensor out;  ///< contiguous, of a compute dtype
  std::size_t dim;
  Tensor index;
  LocalArg value;  ///< a tensor of the index's shape or larger, or a number
  IndexWords words;
  /// Contiguous, of the output's shape and i64: number of values in an element, incremented for
  /// each; the first replaces an element of none. Undefined: not counted.
  Tensor counts = {};
};

/// Each element of `out` by its law, from its place in the whole tensor, of which `view` gives the
/// part that is here (null: all of it), and from the random numbers of that place.
struct Draw {
  DrawLaw law;
  Tensor out;
  const LocalView* view;
  RandomState random;
  Tensor chances = {};  ///< the elements' own numbers, of the output's shape; may be undefined
};

/// For each of `wanted`, `per_row` of them a sorted row: number of elements before it, and
/// with kCounted also of those equal to it.
struct Search {
  Tensor sorted;  ///< [.., size], contiguous, of i64, f32 or f64
  Tensor wanted;  ///< contiguous, of the same dtype
  std::int64_t per_row;
  SortOrder order;
  Equals equals;
  Tensor out;  ///< contiguous, of i64
};

/// [rows, elements] in an order, in the compute dtype, and the old place of each in its row.
struct Sorted {
  Tensor keys;
  Tensor places;
};

/// The largest of each window in planes of up to three dims, and its place in its plane, counted
/// row-major; NaN wins, else the first.
struct Largest {
  PoolWindows windows;
  Tensor from;    ///< [planes, windows.in], contiguous, of i64, f32 or f64
  Tensor values;  ///< [planes, windows.out], contiguous, of the same dtype
  Tensor places;  ///< the same of i64
};

/// The loops of one device; used for the duration of one kernel. All fail with Unsupported for a
/// dtype that the device does not take.
class Loops {
 public:
  /// Memory of values between two loops. It counts as memory of the device only where there is no
  /// other.
  virtual Device& device() = 0;

  /// out[...] = source[...], converted and broadcast.
  virtual void convert(const Tensor& out, const Tensor& source) = 0;
  virtual void fill(const Tensor& out, const Scalar& number) = 0;
  /// out[i] = function(operands[0][i], ...), computed in the compute type of `promoted`. Tensors
  /// broadcast, numbers are constant.
  virtual void run(Element function, DType promoted, const Tensor& out,
                   std::span<const LocalArg> operands) = 0;
  void run(Element function, DType promoted, const Tensor& out,
           std::initializer_list<LocalArg> operands) {
    run(function, promoted, out, std::span(operands.begin(), operands.size()));
  }
  /// Both fail with Value where an index is out of range.
  virtual void look_up(const Lookup& lookup) = 0;
  virtual void scatter(const Scatter& scatter) = 0;
  /// The elements of `out`, in row-major order: a fold of each row of `self` in `compute`. Rows are
  /// the dims that stay, in row-major order, as their elements are in the others. Of none the value
  /// that changes nothing.
  virtual void fold(Fold fold, DType compute, const Tensor& self, const DimMask& reduced,
                    const Tensor& out) = 0;
  /// The running values along such rows, in the compute dtype of `values` (f32 adds up and
  /// multiplies in f64), and of extrema their latest places.
  virtual void scan(Scan scan, const Tensor& self, const DimMask& dim, const Tensor& values,
                    const Tensor& places) = 0;
  /// The mean of each such row and the sum of squared distances from it, computed in f64, parts of
  /// complex numbers too. Of no elements NaN and 0.
  virtual void spread(const Tensor& self, const DimMask& reduced, const Tensor& means,
                      const Tensor& squares) = 0;
  /// out = a b, in the compute dtype of the output, rounded once: all of two dims, or of three, of
  /// which the first counts matrices. Zeros where the inner size is 0.
  virtual void multiply(const Tensor& out, const Tensor& a, const Tensor& b) = 0;
  virtual void draw(const Draw& draw) = 0;
  /// The first `wanted` elements of each row (as of fold), of equals the one with the smaller old
  /// place first.
  virtual Sorted sorted(const Tensor& self, const DimMask& dim, SortOrder order,
                        std::int64_t wanted) = 0;
  virtual void search(const Search& search) = 0;
  virtual void largest(const Largest& largest) = 0;

 protected:
  ~Loops() = default;
};

/// A new tensor of this shape in the compute dtype.
Tensor computed(Loops& loops, Element function, DType compute, std::span<const std::int64_t> shape,
                std::initializer_list<LocalArg> operands);
/// A new tensor of bool: whether a comparison in the compute dtype holds.
Tensor tested(Loops& loops, Element function, DType compute, std::span<const std::int64_t> shape,
              std::initializer_list<LocalArg> operands);
/// A new tensor of this shape in the compute dtype: rows of `self` as of Loops::fold.
Tensor folded(Loops& loops, Fold fold, DType compute, const Tensor& self, const DimMask& reduced,
              std::span<const std::int64_t> shape);
Tensor filled(Loops& loops, std::span<const std::int64_t> shape, DType dtype, const Scalar& number);
/// A contiguous tensor of `dtype` with the same elements; the tensor itself if it is that.
Tensor as_contiguous(Loops& loops, const Tensor& tensor, DType dtype);

/// The place of the largest (kMax) or smallest (kMin) element of each row, as of fold, of equals
/// the first; NaN wins. Of the row's size 1 along its dims. Fails with Value where rows have no
/// elements.
Tensor places_of_extrema(Loops& loops, Fold kind, const Tensor& self, const DimMask& reduced);

/// out's elements in row-major order are these values.
void put_rows(Loops& loops, const Tensor& out, const Tensor& values);
/// 0, 1, .. in row-major order, of i64.
Tensor numbered(Loops& loops, const Dims& shape);
/// Integers exactly; a float truncated, one that no integer is near as a conversion gives it.
std::int64_t integer_part(const Scalar& number);
/// The elements of `source` at `index` along the dim, as of Loops::look_up, of the index's shape.
Tensor picked(Loops& loops, const Tensor& source, std::size_t dim, const Tensor& index,
              const IndexWords& words);

/// A kernel of every device.
using Kernel = void (*)(Loops& loops, const KernelCall& call);

}  // namespace shardlab
