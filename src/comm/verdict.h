// verdict.h - the reason why a world of ranks could not continue, for programs and for people (B-5
// to B-7). Values.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace shardlab {

/// The ways in which a world can stop (B-5, B-6, B-7).
enum class VerdictKind : std::uint8_t {
  kMismatch,    ///< ranks of a group entered different collectives, or equal ones that do not fit
  kDeadlock,    ///< every live rank waits
  kRankFailed,  ///< a rank threw
  kTimeout,     ///< ranks that are processes waited for others as long as they may
};
/// "mismatch", "deadlock", "rank_failed", "timeout".
std::string_view to_string(VerdictKind kind);

/// The state of one rank.
struct RankReport {
  /// kSilent: its process does not answer.
  enum class State : std::uint8_t { kRuns, kWaits, kEnded, kFailed, kSilent };
  std::int64_t rank = 0;
  State state = State::kRuns;
  std::int64_t alike = 0;  ///< further ranks that do the same and are not reported one by one
  double seconds = 0;      ///< it runs or waits for so long; 0: not known
  // The rest where it waits, or, where it runs and that is known, of its last collective:
  std::string what;       ///< "all_reduce(f32[4], sum)"
  std::string op;         ///< ATen name of the op that communicates, or empty
  std::string group;      ///< name of the process group
  std::int64_t call = 0;  ///< collectives that the rank entered on the group before this one
  std::string where;      ///< "mlp.toml:12", or empty
  std::vector<std::int64_t> missing;  ///< global ranks of the group that have not arrived
  std::string does;                   ///< "sends to rank 1 (line 12)", "is in all_reduce (line 9)"
  bool message = false;               ///< it waits for one rank alone
};

/// The reason why a world failed, the same on every rank.
struct Verdict {
  VerdictKind kind = VerdictKind::kRankFailed;
  /// Global ranks, ascending. mismatch: those that differ from the majority (all without one);
  /// deadlock: awaited ranks that have ended, else all awaited ones; rank_failed: the first to
  /// fail; timeout: those that did not arrive.
  std::vector<std::int64_t> culprits;
  std::vector<RankReport> ranks;  ///< by rank
  /// rank_failed: the failure's summary; mismatch: the difference, "the ranks of group x entered
  /// all_reduce with different dtypes"; deadlock, where messages take part: the circle of ranks
  /// that wait for each other, or the rank that waits for one that has ended; timeout: the ranks
  /// that waited, where and for how long.
  std::string cause;
};

/// The advice on a wait that has taken too long.
inline constexpr const char* kWaitedTooLong =
    "see what those ranks do there; SHARDLAB_PATIENCE=SECONDS waits longer";

/// "ranks 0-3,7" or "rank 4".
std::string fold_ranks(std::span<const std::int64_t> ranks);
/// One line: "deadlock: no rank can advance".
std::string summary(const Verdict& verdict);
/// The waiting ranks, where they wait and for whom, one line per set of ranks that agree.
std::string text(const Verdict& verdict);
/// The error that every rank throws: Runtime with parts "verdict" (the kind's name) and "ranks"
/// (the text), and "fix" for a timeout.
Error to_error(const Verdict& verdict);

}  // namespace shardlab
