// watch.h - rank 0's watch over waits that may never end: ranks that wait long, ranks that have
// ended, and the answers of all ranks to a question (B-16). Kept under the channel's lock.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "backends/process/silence.h"
#include "backends/process/socket.h"

namespace shardlab::process {

/// Number of collectives that a rank has entered, by group.
using EnteredCounts = std::map<std::int64_t, std::uint64_t>;

/// The waits of one run that last, and the ranks that have ended.
class LongWaits {
 public:
  void wait(LongWait wait);
  void end(std::int64_t rank, EnteredCounts entered);
  /// A wait for a collective that a rank of its group has ended without: it never ends.
  std::optional<LongWait> hopeless() const;

 private:
  std::map<std::int64_t, LongWait> waits_;  ///< by rank
  std::map<std::int64_t, EnteredCounts> ended_;
};

/// One question to all ranks about their state.
class Inquiry {
 public:
  Inquiry(std::uint64_t number, std::int64_t ranks, LongWait wait);

  std::uint64_t number() const { return number_; }
  /// The group whose collectives are counted.
  std::int64_t group() const { return group_; }
  void answer(std::int64_t rank, Standing standing);
  /// All have answered.
  bool complete() const;
  Verdict verdict() const { return verdict_on_wait(wait_, standings_); }
  /// Those that have not answered.
  std::vector<std::int64_t> silent() const;
  /// The rank has answered, and makes the report.
  bool reports(std::int64_t rank) const;

 private:
  const std::uint64_t number_;
  const LongWait wait_;
  const std::int64_t group_;
  std::vector<std::optional<Standing>> standings_;  ///< by rank
};

}  // namespace shardlab::process
