// verdict.h - why a world of ranks could not go on, for programs and for people (B-5 to B-7).
// Values.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace shardlab {

/// The three ways in which a world can stop (B-5, B-6, B-7).
enum class VerdictKind : std::uint8_t {
  kMismatch,    ///< ranks of a group entered different collectives, or equal ones that do not fit
  kDeadlock,    ///< every live rank waits
  kRankFailed,  ///< a rank threw
};
/// "mismatch", "deadlock", "rank_failed".
std::string_view to_string(VerdictKind kind);

/// What one rank was doing.
struct RankReport {
  enum class State : std::uint8_t { kRuns, kWaits, kEnded, kFailed };
  std::int64_t rank = 0;
  State state = State::kRuns;
  std::int64_t alike = 0;  ///< how many more ranks do the same and are not reported one by one
  // The rest where it waits:
  std::string what;       ///< "all_reduce(f32[4], sum)"
  std::string op;         ///< ATen name of the op that communicates, or empty
  std::string group;      ///< name of the process group
  std::int64_t call = 0;  ///< how many collectives the rank entered on the group before this one
  std::string where;      ///< "mlp.toml:12", or empty
  std::vector<std::int64_t> missing;  ///< global ranks of the group that have not come
};

/// Why a world failed, the same on every rank.
struct Verdict {
  VerdictKind kind = VerdictKind::kRankFailed;
  /// Global ranks, ascending. mismatch: those that differ from the majority (all without one);
  /// deadlock: awaited ranks that have ended, else all awaited ones; rank_failed: the first to
  /// fail.
  std::vector<std::int64_t> culprits;
  std::vector<RankReport> ranks;  ///< by rank
  /// rank_failed: the failure's summary; mismatch: what does not fit, "the ranks of group x entered
  /// all_reduce with different dtypes".
  std::string cause;
};

/// "ranks 0-3,7" or "rank 4".
std::string fold_ranks(std::span<const std::int64_t> ranks);
/// One line: "deadlock: no rank can advance".
std::string summary(const Verdict& verdict);
/// Who waits where for whom, one line per set of ranks that agree.
std::string text(const Verdict& verdict);
/// What every rank throws: Runtime with parts "verdict" (the kind's name) and "ranks" (the text).
Error to_error(const Verdict& verdict);

}  // namespace shardlab
