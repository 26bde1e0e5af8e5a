// as_strided.h - the meaning of as_strided(self, size, stride, storage_offset). For its row in
// view.cpp.
#pragma once

#include "ops/core/gradient_math.h"
#include "ops/core/rows.h"

namespace shardlab {

/// fails  Value: other than one stride per size, or a negative one
OutputMetas meta_as_strided(const MetaArgs& args);
/// A tensor in pieces only takes strides that keep or exchange whole dims: a permutation.
MeshRuleResult rule_as_strided(const RuleContext& context);
/// Views any elements of the storage of a whole tensor.
ViewResults view_as_strided(const Tensor& base, const MetaArgs& args);
/// Elements return to the places they were taken from; those that were taken several times add up,
/// and those that self does not have are dropped. Offsets count from the beginning of the storage.
grad::Gradients grad_as_strided(const GradContext& context);

/// A copy of x with its strides, in new memory with the contents of that of x; one in row major
/// order where x is in pieces, or elements of it overlap.
DTensor copied_memory(Calls& calls, const DTensor& x);

}  // namespace shardlab
