// answers.h - what the ranks answered where the single-device run has no answer of its own: how a
// tensor lies in memory, whether two handles share memory, and which way a branch went. The
// single-device run follows the answers in order, so that a branch that depends on rounding goes
// the same way in both runs. Used by one rank at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/language/syntax/source.h"
#include "sim/language/values/value.h"

namespace shardlab {

/// The answers of one run on the ranks, in the order of the program.
class AnswerLog {
 public:
  /// Beyond 100,000 answers nothing more is kept, and those who follow go their own way.
  void keep(SourceSpan place, Value answer);

  /// What was answered, and where in the program: the byte offset of the expression.
  struct Answer {
    std::uint32_t place = 0;
    Value value;
  };
  const std::vector<Answer>& answers() const { return answers_; }

 private:
  std::vector<Answer> answers_;
};

/// Whether a run goes the ways that the ranks went, or its own.
enum class Branches : std::uint8_t { kFollowed, kOwn };

/// A place in the log of another run.
class AnswerReader {
 public:
  AnswerReader(const AnswerLog* log, Branches branches) : log_(log), branches_(branches) {}

  /// The next answer, if it was given at this place of the program. From the first place that does
  /// not agree the two runs take different paths: there are no more answers.
  std::optional<Value> next(SourceSpan place);
  /// The same for a branch that goes `own` way here.
  bool branch(SourceSpan place, bool own);

 private:
  // Complete before it is followed: the ranks' run has ended.
  const AnswerLog* log_;
  Branches branches_;
  std::size_t at_ = 0;
  bool lost_ = false;
};

}  // namespace shardlab
