// calls.h - calling ops by name: gradients, decompositions and handlers are written over it.
#pragma once

#include <string_view>

#include "schema/argument.h"

namespace shardlab {

struct OpRow;

/// The way a program over ops runs: with or without a tape, on whole values or on this rank's
/// tensors. Results are those of the op, whichever implementation is behind it. Used on the running
/// rank.
class Calls {
 public:
  virtual ~Calls() = default;
  /// Runs an op on full arguments (schema order, defaults filled in).
  virtual Results call(const OpRow& row, const Arguments& args) = 0;
  /// Fails with Unsupported naming the nearest ops.
  virtual const OpRow& find(std::string_view name) const = 0;
  /// Differentiable redistribute (default order); a plain tensor is returned as it is.
  virtual DTensor redistribute(const DTensor& x, const Placements& placements) = 0;

  /// Missing trailing arguments take the schema's defaults: calls("aten::sum.dim_IntList", {x,
  /// dims}).
  Results operator()(std::string_view name, Arguments args);
  /// For ops with one tensor result.
  DTensor one(std::string_view name, Arguments args);
};

}  // namespace shardlab
