// matched_calls.h - a call of the program on all ranks together with the same call on one device,
// and the labels of its operands and results: pieces, terms, replicas. Private to the files that
// verify.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/verify/labels/call_log.h"
#include "sim/verify/labels/label.h"

namespace shardlab {

using Labels = std::vector<std::optional<Label>>;

/// Values and labels are those of the call's tensors, lists flattened.
struct MatchedCall {
  std::vector<const LoggedCall*> held;  ///< by mesh index
  const LoggedCall* alone = nullptr;
  Labels operands, results;  ///< without one: no piece, term or replica of one device's
};

/// The ranks' parts of the values `which`, operands or results, at one place; fewer than ranks if
/// some have none.
std::vector<GlobalValue> held_of(const MatchedCall& call,
                                 std::vector<GlobalValue> LoggedCall::*which, std::size_t place);
bool all_alike(const std::vector<GlobalValue>& held);
/// "add" of aten::add_.Tensor, "nll_loss" of aten::nll_loss_forward.
std::string name_of(const LoggedCall& call);

/// Visits, in the order of the first rank, each call on plain tensors that all ranks and one device
/// made, as long as `visit` returns true. Calls are the same if line, op and pass agree, and the
/// number of such calls before them. `ranks` by global rank; `relative` as in label_of.
void for_each_matched(const CallLog& ranks, const CallLog& alone, const MeshLayout& layout,
                      double relative, const std::function<bool(MatchedCall&)>& visit);

}  // namespace shardlab
