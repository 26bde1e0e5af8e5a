// propagate_facts.h - the propagation facts (tests/golden/facts/propagate/README.md): calls and
// expected decisions.
#pragma once

#include <vector>

#include "propagate/propagator.h"
#include "sim/files/json_value.h"
#include "tests/facts/check.h"

namespace shardlab {

/// A dtype may be recorded by the reference's number of it.
Arguments with_numbered_dtypes(const OpRow& row, Arguments positional);
/// The recorded call of `row`. Fails with Value where the schema refuses it.
OpSchema fact_call(const OpRow& row, const MeshLayout* layout, const Json& fact);
const MeshLayout* fact_layout(Arena& arena, const Json& fact);

/// {"shape", "dtype", "placements"[, "stride"]}; null for none.
Json output_json(const DTensorSpec* spec);
/// The same for a recorded output: dtype names as ours.
Json expected_output(const Json& recorded);
/// Numbers within 1e-6 relative; "inf" for infinity.
bool same_costs(const Json& recorded, const std::vector<double>& ours);
Json costs_json(const std::vector<double>& costs);
/// True when these placements of the operands (those of the recorded decision) differ from those of
/// a tensor that the op writes: a copy of it would be written, and lost. A list is no such tensor.
bool moves_what_is_written(const Json& fact, const Json& inputs);
bool moves_what_is_written(const Json& fact);
/// "aten.sum.dim_IntList" for "aten::sum.dim_IntList", ".default" spelled out.
std::string recorded_name(const OpRow& row);

}  // namespace shardlab
