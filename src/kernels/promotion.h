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
  void add_tensor(DType dtype, bool has_dims);
  void add_number(Category category);
  /// bool when there was no operand.
  DType result() const;

 private:
  std::optional<DType> with_dims_;
  std::optional<DType> without_dims_;
  std::optional<DType> numbers_;
};

/// Of all tensors and numbers among these; others do not count.
DType promote_operands(std::span<const LocalArg> operands);

}  // namespace shardlab
