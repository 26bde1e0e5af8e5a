// shape_call.h - one call on a mesh without data: its results and moves, as the mesh's first rank
// sees them.
#pragma once

#include <optional>
#include <vector>

#include "base/error.h"
#include "schema/op_strategy.h"

namespace shardlab {

/// A value that was brought to other placements, by the op or by one that it is made of.
struct ShapeMove {
  /// Number of the tensor argument, lists flattened; empty: a value made on the way, or a view.
  std::optional<std::size_t> input;
  bool again = false;  ///< the same value was brought to the same placements before
  const DTensorSpec* from = nullptr;
  const DTensorSpec* to = nullptr;
};

/// Specs live in the arena of the call's layout.
struct ShapeCall {
  std::vector<const DTensorSpec*> outputs;  ///< lists flattened; null: none, or a plain tensor
  std::vector<ShapeMove> moves;             ///< in order
  std::optional<Error> error;
  /// The cost of all moves, or of those that are not made again, in microseconds, by the
  /// reference's prices.
  double cost() const;
  double cost_once() const;
};

/// Makes the call as a program would. The layout lives in an arena of its own, which holds the
/// specs of this call alone. Used outside of a rank.
ShapeCall call_on_shapes(const OpSchema& schema);

}  // namespace shardlab
