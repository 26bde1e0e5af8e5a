// whole_strategy.h - the choice among candidates that a rule gives for the whole mesh at once.
#pragma once

#include "plan/plan.h"
#include "propagate/expansion.h"

namespace shardlab {

/// A rule's candidates over the call's own metadata, with the price of bringing the inputs there.
struct PricedStrategy {
  OpStrategy strategy;
  int selected = -1;  ///< the first of least cost; -1: none is left
};
/// In-place calls lose the candidates that would move the written tensor.
///   fails  Internal: a candidate for another number of tensors or results, or on another mesh
PricedStrategy price_strategy(const OpStrategy& given, const Element& element,
                              const PlanOptions& options);

/// The answer of a rule per list element: a strategy per element; none for rules of other kinds.
///   fails  Internal: another number of children than the lists have elements
TupleStrategy child_strategies(const OpSchema& schema, const OutputMetas& outputs,
                               std::size_t elements);

}  // namespace shardlab
