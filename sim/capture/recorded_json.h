// recorded_json.h - shapes, dtypes, placements and arguments as recordings of PyTorch write them
// (tests/golden/facts/programs/README.md), and back.
#pragma once

#include <span>
#include <string>

#include "base/collective_kind.h"
#include "mesh/spec.h"
#include "schema/argument.h"
#include "sim/record/json_value.h"

namespace shardlab {

/// A list of numbers as sizes.
Dims dims_of(const Json& list);
/// Fails with Value for a text that is not a dtype.
DType dtype_of(const Json& name);
Json json_of(std::span<const std::int64_t> values);
/// A list of placement texts. Fails with Value when one is malformed.
Placements placements_of(const Json& texts);
Json texts_of(const Placements& placements);
/// A recorded argument: {"t": ..}, {"tl": ..}, numbers, lists, {"dtype": ..} and the like. Tensors
/// are on `layout`.
Argument fact_argument(const MeshLayout* layout, const Json& value);
/// The recorded name of a collective. An all-to-all is recorded as an all-gather, followed by a
/// local cut (K-11).
std::string recorded_collective(CollectiveKind kind);

}  // namespace shardlab
