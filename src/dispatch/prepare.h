// prepare.h - the steps that all paths through the dispatcher share: the decision, inputs brought
// to its placements, and the context that errors get.
#pragma once

#include <string>

#include "base/rank_context.h"
#include "comm/device_mesh.h"
#include "dispatch/local_call.h"
#include "dispatch/unwrap.h"
#include "plan/in_use.h"

namespace shardlab {

/// "rank 4, step 12, scenarios/ops/mm_two_meshes.toml:14:5".
std::string place_text(const RankContext& rank);
/// Whether an error has all parts that a call could add: it left another call within.
bool has_context(const Error& error);
/// Adds op, mesh, placements and place to an error that left a distributed call.
void add_context(Error& error, const Unwrapped& call);
/// The same for a call that is made up, and for one of plain tensors.
void add_context(Error& error, const OpRow& row, const Arguments& args);
/// The decision of all ranks for the call. An exception of its rule that is not an Error of ours is
/// wrapped, as its cause (D-21 as X-45).
InUse<OutputSharding> decide(const Unwrapped& call);
/// Fails with Runtime when a part of an op moves `x` to these placements by itself, with
/// communication, and the rank forbids implicit redistribution. Moves of backward are not checked.
void check_implicit(const DTensor& x, const DTensorSpec* want);
/// Whether an argument that the schema writes is only read here (kReadsGradients).
bool only_read(const OpRow& row, std::size_t argument);
/// The local tensors of a call, with the placements of the decision (D-30 to D-36); None is
/// undefined. Fails with Runtime when a written argument would have to move, or when
/// communication is needed and the rank forbids implicit redistribution.
LocalTensors prepare_inputs(const Unwrapped& call, const OutputSharding& decision,
                            const DeviceMesh& mesh);
/// The tensor that a rank outside the mesh holds for a value (D-37): a zero for 0-dim, else 1-d and
/// empty.
Tensor outsider_value(const DTensorSpec& spec);

}  // namespace shardlab
