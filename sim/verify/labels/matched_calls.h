// matched_calls.h - a step of the program on all ranks together with the same step on one device,
// and the labels of its operands and results: pieces, terms, replicas. Private to the files that
// verify.
#pragma once

#include <optional>
#include <vector>

#include "sim/verify/labels/call_log.h"
#include "sim/verify/labels/label.h"

namespace shardlab {

using Labels = std::vector<std::optional<Label>>;

/// Values and labels are those of the step's tensors, lists flattened.
struct MatchedCall {
  std::vector<const LoggedCall*> held;  ///< by mesh index
  const LoggedCall* alone = nullptr;    ///< of one device, which has it not always
  /// The same values of one device; a collective's and a to_local's are those that are put
  /// together.
  std::vector<std::optional<GlobalValue>> whole_operands, whole_results;
  Labels operands, results;    ///< without one: no piece, term or replica of one device's
  std::vector<int> producers;  ///< of operands: places in the list of matched calls; -1: none
  const LoggedCall& own() const { return *held[0]; }
};

/// The ranks' parts of the values `which`, operands or results, at one place; fewer than ranks if
/// some have none.
std::vector<GlobalValue> held_of(const MatchedCall& call,
                                 std::vector<GlobalValue> LoggedCall::*which, std::size_t place);
/// Ranks give it other numbers.
bool by_rank(const MatchedCall& call);
bool all_alike(const std::vector<GlobalValue>& held);

/// In the order of the first rank, each step on plain tensors that all ranks made, and one device,
/// unless it is a collective or a to_local. `ranks` by global rank; `relative` as in label_of;
/// `one` of `alone`.
std::vector<MatchedCall> matched_calls(const CallLog& ranks, const CallLog& alone,
                                       const MeshLayout& layout, double relative, int one = 0);

}  // namespace shardlab
