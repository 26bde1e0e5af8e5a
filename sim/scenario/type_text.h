// type_text.h - sizes in type strings may be expressions; this evaluates them and leaves the rest
// of a type string to the parser of src/mesh.
#pragma once

#include "mesh/spec.h"
#include "sim/language/syntax/constant.h"
#include "sim/scenario/scenario.h"

namespace shardlab {

/// "f32[8@dp, 4*hidden@(dp,tp)]{sum:pp}" with hidden = 16 gives "f32[8@dp, 64@(dp,tp)]{sum:pp}".
///   fails  ScenarioError: no brackets, unknown dtype, a size that is not an integer or negative
TypeText resolve_type(const SourcePtr& text, const Environment& environment);

/// The spec of the type on `layout`; without a dtype in the text it has `fallback`.
///   fails  ScenarioError at the part of the text that is wrong: unknown mesh dims, placements that
///          contradict each other
const DTensorSpec* spec_of(const TypeText& type, const MeshLayout* layout,
                           DType fallback = DType::kF32);

}  // namespace shardlab
