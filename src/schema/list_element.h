// list_element.h - the op that a foreach op calls on one element of its lists.
// "_foreach_add_.ScalarList" calls "add_.Scalar" on each element: its row is derived from that one,
// which decides, computes and differentiates each element. Pure.
#pragma once

#include <cstddef>

#include "schema/calls.h"
#include "schema/op_descriptor.h"

namespace shardlab {

struct OpRow;

/// The op on one tensor that a derived foreach op calls on each element; null for all other rows.
const OpRow* element_row(const OpRow& row);
/// False where a user gave the op on lists a rule of its own (O-15): that rule is used then.
bool decided_as_element(const OpRow& row);

/// Whether `op`, on one tensor, takes the arguments that `foreach` has for each element, with
/// defaults for the rest, and writes where that writes.
bool fits_element(const OpDescriptor& foreach, const OpDescriptor& op);

/// Arguments of element `k` of a call of a derived row: those of element_row(), defaults filled in.
Arguments element_arguments(const OpRow& row, const Arguments& args, std::size_t k);
/// Length of a call's lists. Fails with Value where they differ; the list at schema index
/// `may_be_empty` may have no elements.
std::size_t element_count(const OpRow& row, const Arguments& args,
                          std::size_t may_be_empty = static_cast<std::size_t>(-1));

}  // namespace shardlab
