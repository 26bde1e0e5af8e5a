// cutting.h - the sequence in which the mesh dims cut a call's tensors. Rules for one mesh dim do
// not depend on the sequence: they hold for every one, as long as all tensors of the call share it.
// So a call whose input is cut in another order than the default is decided in that order, and the
// input does not move.
#pragma once

#include "mesh/spec.h"

namespace shardlab {

struct Element;

/// Mesh dims, first cut first; empty: the default, ascending.
using CuttingSequence = InlineVector<std::size_t, 4>;

/// The sequence of the tensor which cannot move (in place, out=), else of the first input that has
/// one.
CuttingSequence cutting_sequence(const Element& element);
/// The order of a tensor with these placements. Strided shards have the default one.
ShardOrder order_in(const CuttingSequence& sequence, const Placements& placements);

}  // namespace shardlab
