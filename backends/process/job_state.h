// job_state.h - the state of a process's job, and the messages between processes about it: shared
// by the channel and, on rank 0, the hub. Inside of this folder only.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "backends/process/entered_call.h"
#include "comm/verdict.h"

namespace shardlab::process {

enum class Message : std::uint32_t {
  kContribution = 16,  ///< to rank 0: one process's part of an exchange
  kEveryone,           ///< from rank 0: all parts
  kFailed,             ///< to rank 0: a verdict on a run
  kVerdict,            ///< from rank 0: run, and the verdict on it
  kGone,               ///< from rank 0: a rank whose process is gone, reason, Spoke
  kLeaves,             ///< to rank 0: takes part in no further run
  kAllLeave,           ///< from rank 0
  kEntered,            ///< to rank 0: a call
  kWaits,              ///< to rank 0: for a call
  kEnded,              ///< to rank 0: no further calls
  kMet,                ///< from rank 0: a call that all have entered
  kLongWait,           ///< to rank 0: waits, and whether it has lost its patience
  kAsk,                ///< from and to rank 0: where are you?
  kStanding,           ///< the answer
  kGoodbye,
};

/// One process's part of an exchange, without its text.
struct Contribution {
  std::uint64_t sequence;  ///< grows; a process leaves those out that it fails before
  std::int64_t root;       ///< or kEveryRank
  std::uint64_t run;       ///< the last one that has begun
  bool ends_run;
};
inline constexpr std::int64_t kEveryRank = -1;

/// The longest time for an answer to a question; it takes a message each way.
inline constexpr std::chrono::milliseconds kAnswerTakes{1'000};
/// The longest time that the end of a failed run waits for ranks that compute.
inline constexpr std::chrono::milliseconds kEndTakes{2'000};
inline constexpr const char* kItEnded = "its process ended (killed, crashed, or exited)";
inline constexpr const char* kNoAnswer = "it does not answer: it is stopped, or cut off";

/// Whether a process that is gone has told people why, before it left.
enum class Spoke : std::uint8_t { kNo, kYes };

/// Any thread, under the mutex.
struct JobState {
  JobState(std::int64_t own_rank, std::int64_t ranks)
      : rank(own_rank),
        size(ranks),
        why_gone(static_cast<std::size_t>(ranks)),
        said(static_cast<std::size_t>(ranks)) {}

  bool gone(std::int64_t other) const {
    return why_gone[static_cast<std::size_t>(other)].has_value();
  }
  std::vector<std::int64_t> gone_ranks() const;
  /// Those that have not said why.
  std::vector<std::int64_t> silent_ranks() const;
  /// The first that was lost, of those that have not said why; they may have left because of it.
  std::optional<std::int64_t> first_lost() const;
  /// From now on that rank is; the run fails with `verdict`, if there is one and it has none.
  void lose(std::int64_t other, std::string reason, Spoke said, const Verdict& verdict);
  /// The run fails, unless it is another one.
  void hear_verdict(std::uint64_t of_run);
  /// The parts of an exchange.
  void store(const Contribution& contribution, std::vector<std::string> parts);

  const std::int64_t rank, size;
  std::mutex mutex;  ///< guards the members below, but for `failed`
  std::condition_variable changed;
  std::vector<std::optional<std::string>> why_gone;           ///< by rank; none: it is not
  std::vector<Spoke> said;                                    ///< by rank, of those that are
  std::vector<std::int64_t> lost;                             ///< in the order of the news
  bool all_leave = false;                                     ///< no process takes part any more
  std::map<std::uint64_t, std::vector<std::string>> results;  ///< of exchanges, by sequence
  std::map<std::uint64_t, Verdict> verdicts;                  ///< by run
  std::deque<CallPlace> met;  ///< calls that all have entered, in the order in which rank 0 saw it
  std::uint64_t run = 0;
  bool active = false;  ///< between the run's begin and its end
  std::atomic<bool> failed{false};
};

/// The run fails because that process is gone. `reason` empty: it was killed, or crashed.
Verdict verdict_on_gone(std::int64_t rank, const std::string& reason);

}  // namespace shardlab::process
