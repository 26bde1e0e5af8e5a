// early_judge.h - values judged while the program runs, on its ranks and beside them on one device,
// as soon as the last of them has one: right ones are let go. All others are judged at the end.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "sim/language/syntax/ast.h"
#include "sim/run/value_drain.h"
#include "sim/verify/verify.h"

namespace shardlab {

/// Keeps the elements of values with some names alone, of a run on one rank.
class WantedValues final : public ValueDrain {
 public:
  WantedValues(const ast::Program& program, std::set<std::string> names);

  void kept(std::size_t rank, const RecordedValue& value) override;
  bool is_spent(std::size_t rank, const DTensor& value) const override;
  const UnusedNames& unused() const override { return unused_; }

 private:
  std::set<std::string> names_;
  UnusedNames unused_;
};

/// All ranks use it at a time, and the single-device run, which has the number behind theirs. No
/// rank goes far ahead of that run, nor that run of all ranks: few values wait.
class EarlyJudge final : public ValueDrain {
 public:
  /// `most_ahead`: as of AloneListener.
  EarlyJudge(const ast::Program& program, VerifyInputs inputs, std::size_t ranks,
             std::int64_t most_ahead);

  void kept(std::size_t rank, const RecordedValue& value) override;
  bool is_spent(std::size_t rank, const DTensor& value) const override;
  const UnusedNames& unused() const override { return unused_; }
  std::size_t one_device() const { return ranks_; }
  /// The single-device run has kept its last value, or will keep none.
  void ends_alone();
  /// The same of all ranks.
  void ranks_end();
  /// Both have ended: values that are not judged yet are forgotten here, since they may outlive the
  /// devices of those runs.
  void ends();

  /// The judgement of a value in the program's dtypes, by its key; null: it has none yet.
  const ValueReport* find(const std::string& key) const;

 private:
  struct Waiting {
    std::vector<RecordedValue> by_rank;  // the single-device run's behind them
    std::size_t arrived = 0;
  };
  void judge(const Waiting& value);
  void keep_pace(std::unique_lock<std::mutex>& lock, std::size_t rank, const RecordedValue& value);

  VerifyInputs inputs_;
  std::size_t ranks_;
  std::int64_t most_ahead_;
  UnusedNames unused_;

  mutable std::mutex mutex_;  // guards the following
  std::unordered_map<std::string, Waiting> waiting_;
  std::deque<Waiting> complete_;  // not judged yet
  std::int64_t complete_bytes_ = 0;
  std::unordered_map<std::string, ValueReport> judged_;
  std::vector<std::unordered_set<const DTensorImpl*>> spent_;  // by rank
  std::vector<std::int64_t> ahead_;  // by rank: bytes that wait for others
  std::vector<std::int64_t> came_;   // by rank: bytes of all values, pieces counted as the whole
  std::int64_t alone_ = 0, furthest_ = 0;  // the same of the run alone, and most of any rank
  std::condition_variable moved_;          // one of these two
};

}  // namespace shardlab
