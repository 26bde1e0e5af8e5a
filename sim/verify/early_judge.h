// early_judge.h - values judged while the program runs, as soon as the last rank has one: right
// ones are let go, on the ranks and of the single-device run. All others are judged at the end.
#pragma once

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

/// All ranks use it at a time.
class EarlyJudge final : public ValueDrain {
 public:
  /// `inputs`: the single-device run is over; its recording holds nothing that goes once it is
  /// judged. Both outlive this.
  EarlyJudge(const ast::Program& program, VerifyInputs inputs, std::size_t ranks);

  void kept(std::size_t rank, const RecordedValue& value) override;
  bool is_spent(std::size_t rank, const DTensor& value) const override;
  const UnusedNames& unused() const override { return unused_; }

  /// The judgement of a value in the program's dtypes, by its key; null: it has none yet.
  const ValueReport* find(const std::string& key) const;

 private:
  struct Waiting {
    std::vector<RecordedValue> by_rank;
    std::size_t arrived = 0;
  };
  void judge(const std::string& key, const Waiting& value);
  void let_go_of(const std::string& key, const Waiting& value);  // the mutex is held

  VerifyInputs inputs_;
  std::size_t ranks_;
  UnusedNames unused_;

  mutable std::mutex mutex_;  // guards the following
  std::unordered_map<std::string, Waiting> waiting_;
  std::unordered_map<std::string, ValueReport> judged_;
  std::vector<std::unordered_set<const DTensorImpl*>> spent_;  // by rank
  std::vector<std::int64_t> ahead_;  // by rank: bytes that wait for others
};

}  // namespace shardlab
