// layout_facts.h - the layout facts (tests/golden/facts/layout/README.md): one function per kind of
// file, and the common parts of these files.
#pragma once

#include <string>

#include "mesh/spec.h"
#include "sim/files/json_value.h"
#include "tests/facts/check.h"

namespace shardlab {

// Each compares one line; layouts and specs live in `arena`.
void check_device_mesh(Arena& arena, const Json& fact, CaseReport& report);
void check_global_info(Arena& arena, const Json& fact, CaseReport& report);
void check_local_shape_offset(Arena& arena, const Json& fact, CaseReport& report);
void check_shard_order(Arena& arena, const Json& fact, CaseReport& report);
void check_shard_size_offset(Arena& arena, const Json& fact, CaseReport& report);
void check_split_tensor(Arena& arena, const Json& fact, CaseReport& report);
void check_strided_decode(Arena& arena, const Json& fact, CaseReport& report);
void check_strided_shard(Arena& arena, const Json& fact, CaseReport& report);
void check_text_and_equality(Arena& arena, const Json& fact, CaseReport& report);

/// The layout of a list of sizes. Fails with Value beyond 65,536 ranks, as facts list every rank.
const MeshLayout* mesh_of(Arena& arena, const Json& sizes);
/// A count of pieces, likewise.
std::int64_t count_of(const Json& number);
/// `[[tensor dim, [mesh dims, first cut first]], ...]` and our flat form of it.
ShardOrder order_of(const Json& entries, std::size_t mesh_ndim);
Json json_of(const Placements& placements, const ShardOrder& order);
/// The reference writes `_S(0, 2)` in longer texts; here it is `SS(0,2)` everywhere.
std::string our_spelling(std::string_view text);

}  // namespace shardlab
