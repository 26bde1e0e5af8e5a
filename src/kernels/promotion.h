// promotion.h - the dtype in which several operands meet (recorded in the facts of the kernels).
#pragma once

#include <optional>
#include <span>

#include "base/dtype.h"
#include "tensor/local_arg.h"

namespace shardlab {

/// Collects operands; 0-dim tensors count less than tensors with dims, numbers least: they matter
/// only where their category is higher.
class Promotion {
 public:
  /// Counts one operand; `has_dims` is false for a 0-dim tensor.
  void add_tensor(DType dtype, bool has_dims);
  void add_number(Category category);
  /// bool when there was no operand.
  DType result() const;

 private:
  std::optional<DType> with_dims_;
  std::optional<DType> without_dims_;
  std::optional<DType> numbers_;
};

/// Promotes all tensors and numbers among these; others do not count.
DType promote_operands(std::span<const LocalArg> operands);

/// Whether kernels compute this dtype in a wider one, so that operands have to be rounded to it
/// first: f16, bf16 and integers narrower than i64.
bool computes_wider(DType dtype);
/// Whether elements of `from` have to be converted before a sum or product to `to` takes them: to
/// "not zero" for bool, rounded for f16 and bf16. All other dtypes convert as they are read, and
/// integers wrap at the end as they would at the start.
bool converts_first(DType from, DType to);
/// Whether this number may be stored in a tensor of `dtype`: for integers, numbers in range once
/// truncated; u8 takes -255 to -1, too, which wrap. As operands all numbers wrap.
bool representable(const Scalar& number, DType dtype);
/// Whether a number is 0 as an operand of this integer dtype: 256 is, for u8.
bool wraps_to_zero(const Scalar& number, DType dtype);
/// A bound of a clamp beyond the range of an integer dtype, moved to its end; all else unchanged.
LocalArg within_range(const LocalArg& bound, DType dtype);
/// The least or the largest number of a real dtype: an infinity where it has one; bool: false,
/// true.
Scalar lowest_number(DType dtype);
Scalar highest_number(DType dtype);
/// The largest finite number of a floating dtype.
double largest_finite(DType dtype);

}  // namespace shardlab
