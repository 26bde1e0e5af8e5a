// call_log.h - the steps of a run's ranks, in numbers: calls on plain tensors in both passes,
// pieces that were taken, collectives of the program, gradients that came to leaves. Kept of a run
// that is made once more because a value is wrong; or changed in such a run, to see whether that
// mends the value. Private to the files that verify and judge.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "base/collective_kind.h"
#include "base/rank_context.h"
#include "base/reduce_op.h"
#include "comm/forwarding_observer.h"
#include "sim/run/call_listener.h"
#include "sim/verify/global_value.h"

namespace shardlab {

struct OpRow;

/// The same call on all ranks of a program, and on one device: what it is, line, column, backward,
/// and how many such calls the rank made before.
using CallKey = std::tuple<std::string, int, int, bool, std::int64_t>;

/// One step of the program on one rank; calls inside of a call are not logged.
struct LoggedCall {
  enum class Kind : std::uint8_t { kOp, kToLocal, kCollective, kGradient };
  Kind kind = Kind::kOp;
  const OpRow* row = nullptr;  ///< of an op
  CallKey key;
  SourcePosition position;
  Pass pass = Pass::kForward;
  bool plain = true;  ///< no distributed tensor: only then are the values here
  /// Values of its tensors, lists flattened; empty once a rank has logged too much.
  std::vector<GlobalValue> operands, results;
  /// For each operand the step of this rank that wrote it last; -1: none that is logged.
  std::vector<int> producers;
  std::string numbers;  ///< all other arguments
  /// The tensor dims in arguments named dim, counted from 0 or from the end.
  Dims dims;
  const DTensorSpec* spec = nullptr;  ///< of a to_local: the pieces' own
  // A collective has these.
  CollectiveKind collective = CollectiveKind::kBarrier;
  ReduceOp reduction = ReduceOp::kSum;
  std::int64_t group_size = 1;
  std::vector<std::string> group;  ///< the mesh dims of its group; empty: another one

  /// "add" of aten::add_.Tensor, "nll_loss" of aten::nll_loss_forward, "all_reduce".
  std::string name() const;
};

/// Other numbers in place of a result, by rank; none for a rank: its own.
struct ChangedResult {
  CallKey key;
  std::size_t result = 0;
  std::vector<std::optional<GlobalValue>> values;
  bool apart = false;  ///< a view becomes a tensor of its own
};

/// The steps of all ranks of one run, each in its order. Ranks write their own lists; read when
/// they have ended.
class CallLog final : public CallListener {
 public:
  explicit CallLog(std::int64_t ranks) : calls_(static_cast<std::size_t>(ranks)) {}
  /// With these results changed.
  CallLog(std::int64_t ranks, std::vector<ChangedResult> changes)
      : calls_(static_cast<std::size_t>(ranks)), changes_(std::move(changes)) {}

  Observer& listen(std::int64_t rank, Observer* next) override;
  void finish(std::int64_t) override {}
  const std::vector<std::vector<LoggedCall>>& by_rank() const { return calls_; }

 private:
  std::vector<std::vector<LoggedCall>> calls_;
  std::vector<ChangedResult> changes_;
  std::vector<std::unique_ptr<Observer>> observers_ =
      std::vector<std::unique_ptr<Observer>>(calls_.size());
};

}  // namespace shardlab
