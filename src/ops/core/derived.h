// derived.h - overloads of ATen without a row of their own: they compute a registered op and put
// the result elsewhere. Their form, and the op, follow from both schemas:
//   out=      `sum.IntList_out` writes the result of `sum.dim_IntList` into tensors of the caller
//   in place  `threshold_` writes the result of `threshold` into its first argument
//   new       `uniform` gives a new tensor where `uniform_` writes its first argument
//   copy      `permute_copy` gives a copy where `permute` gives a view
#pragma once

#include "schema/calls.h"

namespace shardlab {

class OpRegistry;
struct OpRow;

/// Registers the out= and in-place forms of an op that take its arguments, if the op has a rule and
/// a kernel or a local program: they are decided and computed as variants of its row.
void add_variants(OpRegistry& registry, const OpRow& row);
/// Registers all others, which are composite; but the forms of a factory are decided as its target
/// is laid out.
void register_derived(OpRegistry& registry);

/// The parts of an op that is computed by derived_results(), which needs its row.
Results through_base(Calls& calls, const Arguments& args);
/// Whether the op is computed so.
bool is_derived(const OpRow& row);
/// A call of such an op in terms of the op that it is derived from.
///   fails  Value: a result has another shape than the tensor that it is written to in place, or a
///          dtype of a higher category
Results derived_results(Calls& calls, const OpRow& row, const Arguments& args);
/// A composite op in terms of others: by its parts, or by the op that it is derived from.
Results through_parts(Calls& calls, const OpRow& row, const Arguments& args);

/// The arguments of the op that `row` is derived from in a call of `row`: those of the same name,
/// and defaults for the others, with the dtype of the first out= tensor where a dtype may be given.
Arguments base_arguments(const OpRow& row, const Arguments& args);

}  // namespace shardlab
