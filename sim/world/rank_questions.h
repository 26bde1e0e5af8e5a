// rank_questions.h - questions of a program that runs once for a whole class of ranks, at which
// these may take different paths.
#pragma once

#include <cstdint>
#include <functional>

namespace shardlab {

/// Asked by the program while it runs, on the rank that runs for the class.
class RankQuestions {
 public:
  virtual ~RankQuestions() = default;
  /// Ranks whose answer differs from the running one's are of another class. `answer` is called for
  /// every rank that may be of this class, before ask() returns; it must be a pure function.
  virtual void ask(const std::function<std::uint64_t(std::int64_t rank)>& answer) = 0;
  /// No answer can part ranks any more: the run is one rank's, or its class is known.
  virtual bool settled() const = 0;
};

}  // namespace shardlab
