// schema_queries.h - questions of rules and users about calls, candidates and decisions (O-1 to
// O-48), with the failures that the behaviours prescribe. The library uses the first part, too; the
// second is for rules that users write, and the library itself calls none of it: its own code does
// not need these checks. Pure. Off the dispatch path.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "schema/op_strategy.h"

namespace shardlab {

// For the library and users' rules.

/// The content of a spec position of a result (O-48): one spec, or a sequence of specs, null for
/// none.
using OutputSpecs = std::span<const DTensorSpec* const>;

/// O-1: "None", "S(0)R", "(S(0)R, None)".
std::string compact_text(const DTensorSpec* spec);
std::string compact_text(OutputSpecs specs);

/// O-8. Fails with Internal naming index and length.
const DTensorSpec* input_of(const OpSpec& candidate, std::size_t index = 0);
/// O-4: one mesh, a price for every input where there are prices. Fails with Internal.
void check_candidate(const OpSpec& candidate);

/// O-24 as X-17: a spec, or a list or tuple that holds one.
bool tensor_like(const Argument& value);

// For users' rules.

/// O-1 for a value of a schema: None, a spec, or a list of those, nested; anything else is Runtime.
std::string compact_text(const Argument& value);

/// O-6. Fails with Value, showing the outputs found, for any other number than one present output.
const DTensorSpec* single_output(const OpSpec& candidate);
/// O-7. Fails with Internal when the first output is absent, Value when there is none.
const MeshLayout* mesh_of(const OpSpec& candidate);

/// O-11: at least one candidate, all on one mesh. Fails with Internal.
void check_strategy(const OpStrategy& strategy);
/// O-13, over single outputs.
std::int64_t max_num_shards(const OpStrategy& strategy);
/// O-14: of the first candidate's first output; Internal when the strategy is empty.
const MeshLayout* mesh_of(const OpStrategy& strategy);
const Dims& shape_of(const OpStrategy& strategy);

/// O-16. Fails with Internal when there is no such child.
const MeshLayout* child_mesh(const TupleStrategy& strategy, std::size_t index);
[[deprecated("children")]] inline const std::vector<OpStrategy>& childs(const TupleStrategy& s) {
  return s.children;
}
/// O-18: a strategy is its children.
inline const std::vector<OpStrategy>& flatten(const TupleStrategy& s) { return s.children; }
inline TupleStrategy unflatten(std::vector<OpStrategy> children) { return {std::move(children)}; }

/// O-34: the mesh of the first positional value, a spec or a list that starts with one. Fails with
/// Value naming the op when there is none; Internal when a list starts with something else.
enum class MeshCheck { kFirstOnly, kAllTopLevel };
/// O-35: kAllTopLevel fails with Runtime naming op and both meshes when a later top-level spec
/// lives on another one.
const MeshLayout* mesh_from_args(const OpSchema& schema, MeshCheck check = MeshCheck::kAllTopLevel);

/// O-2: shape, stride and dtype of a spec.
const TensorMeta& meta_of(const DTensorSpec* spec);
/// O-39, O-40: metadata of every tensor of the call, positional then keyword, lists flattened, None
/// left out. No data anywhere.
std::vector<TensorMeta> inference_metas(const OpSchema& schema);

/// O-41, O-42: the call with the suggested specs in place of its own, in order; all else, keyword
/// arguments included, from the call. Fails with Internal when there are fewer or more.
OpSchema rewrapped(const OpSchema& call, std::span<const DTensorSpec* const> suggested);

/// O-45: the call that a decision requires instead; the call itself when nothing moves.
OpSchema redistributed_schema(const OpSchema& call, const OutputSharding& sharding);
/// O-46. Fails with Value when the first output is not a spec.
const MeshLayout* mesh_of(const OutputSharding& sharding);

}  // namespace shardlab
