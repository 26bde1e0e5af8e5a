// fact_json.h - shapes, dtypes, placements and arguments as recordings of PyTorch write them
// (tests/golden/facts/programs/README.md), and back; shapes, dtypes and placements are read as in
// other recordings.
#pragma once

#include <span>
#include <string>

#include "base/collective_kind.h"
#include "mesh/spec.h"
#include "schema/argument.h"
#include "sim/files/json_value.h"
#include "sim/recording/recorded_values.h"

namespace shardlab {

Json json_of(std::span<const std::int64_t> values);
Json texts_of(const Placements& placements);
/// The list, or object, of a field; an empty list without it.
const Json& list_at(const Json& object, const char* field);
/// A recorded argument: {"t": ..}, {"tl": ..}, numbers, lists, {"dtype": ..} and the like. Tensors
/// are on `layout`.
Argument fact_argument(const MeshLayout* layout, const Json& value);
/// The recorded name of a collective. An all-to-all is recorded as an all-gather, followed by a
/// local cut (K-11).
std::string recorded_collective(CollectiveKind kind);

}  // namespace shardlab
