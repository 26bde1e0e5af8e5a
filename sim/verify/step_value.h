// step_value.h - the whole value of an operand or a result, put together from the pieces of a
// step's ranks, by the definition of placements alone.
#pragma once

#include <string>
#include <vector>

#include "mesh/dtensor.h"
#include "schema/calls.h"

namespace shardlab {

/// Contiguous plain tensors of the global shape.
struct WholeValue {
  Tensor own;                 ///< in the value's dtype; pending sums rounded to it
  Tensor sum;                 ///< pending sums before they are rounded, in f64 or c128
  std::vector<double> terms;  ///< sums of the absolute pending terms; empty: no terms add up
  std::int64_t count = 1;     ///< ranks whose terms add up
  double divisor = 1;         ///< the divisor of their sum: of pending means
  std::string fault;          ///< "ranks 0 and 1 hold different replicas"; then the rest is empty

  /// In f64 or c128; integers as they are.
  Tensor wide() const;
};

/// `pieces` by index in the mesh of `spec`, or null `spec`: plain tensors, which are replicas.
/// `ranks` names them. Runs ops on the running rank.
WholeValue whole_value_of(const std::vector<DTensor>& pieces,
                          const std::vector<std::int64_t>& ranks);

/// f64 for floats, c128 for complex numbers; integers as they are.
DType wide_dtype(DType dtype);
/// The value in another dtype; itself when it has that one.
Tensor converted(const Tensor& x, DType dtype);
/// Numbers per element: 2 of complex ones.
std::size_t number_width(DType dtype);

}  // namespace shardlab
