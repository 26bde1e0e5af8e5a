// answers.h - the ranks' answers to questions that the single-device run cannot answer by itself:
// the memory layout of a tensor, shared memory of two handles, and the direction of a branch. The
// single-device run follows the answers in order, so that a branch that depends on rounding takes
// the same direction in both runs. Used by one rank at a time.
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
  /// After 100,000 answers nothing more is kept, and followers use their own answers.
  void keep(SourceSpan place, Value answer);

  /// An answer and its place in the program: the byte offset of the expression.
  struct Answer {
    std::uint32_t place = 0;
    Value value;
  };
  const std::vector<Answer>& answers() const { return answers_; }

 private:
  std::vector<Answer> answers_;
};

/// Whether two runs of one program took the same direction at each branch.
bool same_branches(const AnswerLog& a, const AnswerLog& b);

/// The directions of a run's branches: those of the ranks, or its own.
enum class Branches : std::uint8_t { kFollowed, kOwn };

/// A place in the log of another run.
class AnswerReader {
 public:
  AnswerReader(const AnswerLog* log, Branches branches) : log_(log), branches_(branches) {}

  /// The next answer, if it was given at this place of the program. From the first place that does
  /// not agree the two runs take different paths: there are no more answers.
  std::optional<Value> next(SourceSpan place);
  /// The same for a branch whose own direction is `own`.
  bool branch(SourceSpan place, bool own);

 private:
  // Complete before it is followed: the ranks' run has ended.
  const AnswerLog* log_;
  Branches branches_;
  std::size_t at_ = 0;
  bool lost_ = false;
};

}  // namespace shardlab
