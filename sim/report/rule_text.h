// rule_text.h - sharding rules as a person would write them.
#pragma once

#include <string>

#include "schema/calls.h"

namespace shardlab {

struct OpRow;

/// The rule in its own notation: "mk,kn->mn", "pointwise, passes sum,sum->sum", ...
std::string rule_text(const OpRow& row);
/// A call of the op, tensors as specs on this mesh; empty if none is known.
using ExampleCall = std::function<Arguments(const OpRow& row, const MeshLayout* layout)>;
/// Its rows on one mesh dim: "S(0), R -> S(0) | R, S(1) -> S(1) | ...". If they depend on the call,
/// those of an example, which is named first: "of [8, 8, 8], dim=1: ..."; if the op takes no such
/// tensors, of the call that `call` returns. Empty when there are no rows to show.
std::string rule_rows_text(const OpRow& row, const ExampleCall& call = {});

}  // namespace shardlab
