// list_operands.h - foreach ops: pending reductions of a tensor next to the lists, as in
// _foreach_mul(xs, scale), and lists whose entries live on several meshes, where each entry is
// computed on its own (O-15).
#pragma once

#include <functional>
#include <vector>

#include "schema/calls.h"

namespace shardlab {

struct OpRow;

/// The arguments with these reductions carried out: the tensor next to the lists is placed
/// once for all elements, and a pending reduction suits some of them and not others. Communicates.
///   fails  Runtime: it would have to be carried out in an element that the op writes to
Arguments with_whole_operands(const OpRow& row, const Arguments& args);

/// The numbers of the entries on one mesh, by mesh, in the order in which meshes first occur. An
/// entry is the tensors of all lists of the call at one place; one without a distributed tensor
/// joins the first mesh. At most one group where the lists have one mesh or none. The same on all
/// ranks.
std::vector<std::vector<std::size_t>> entries_by_mesh(const OpRow& row, const Arguments& args);

/// Calls `call` with the arguments of each group of entries, and puts its results in their places.
Results for_each_mesh(const OpRow& row, const Arguments& args,
                      const std::vector<std::vector<std::size_t>>& groups,
                      const std::function<Results(const Arguments&)>& call);

}  // namespace shardlab
