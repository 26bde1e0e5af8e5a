// second_opinion.h - decides who is right where a recorded number and ours differ: by the same call
// in f64, or by differences of its results. On the running rank, with plain tensors.
#pragma once

#include "schema/calls.h"
#include "tests/facts/value_case.h"

namespace shardlab {

struct OpRow;

/// Results of the call with every floating tensor in f64, every complex one in c128; in-place calls
/// write into copies.
///   fails  as the call does
Results results_in_f64(const OpRow& row, Arguments args);

/// True when the recorded gradient of one tensor argument is refuted: the reference's gradient of
/// this op is known to be wrong, and wherever it differs from ours, the derivative of sum(result *
/// its gradient), taken by differences to either side, is ours.
///   grads   of the results, undefined where none flows in
///   which   number of the tensor among the arguments, lists flattened
///   fails   as the call does
bool differences_refute(const OpRow& row, const Arguments& args, const std::vector<Tensor>& grads,
                        std::size_t which, const Tensor& ours, const RecordedOutput& recorded);

}  // namespace shardlab
