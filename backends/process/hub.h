// hub.h - rank 0's part of the channel: brings the messages of processes into one order, compares
// calls, and watches over waits that last (B-5, B-6, B-7, B-16). Inside of this folder only.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/process/job_state.h"
#include "backends/process/referee.h"
#include "backends/process/socket.h"
#include "backends/process/standing.h"
#include "backends/process/watch.h"

namespace shardlab::process {

/// Everything under the state's mutex. Rank 0's own messages are received as those of the others.
class Hub {
 public:
  using Send = std::function<void(std::int64_t rank, Message, std::string_view payload)>;
  /// The last time when bytes were sent to that rank or received from it.
  using Moved = std::function<Clock::time_point(std::int64_t rank)>;
  /// `longest_wait`: of exchanges.
  Hub(JobState& state, const StandingBoard& board, std::chrono::milliseconds longest_wait,
      Send send, Moved moved);

  /// False for a message that is none to rank 0.
  bool hear(std::int64_t from, Message message, std::string_view payload);
  void contribute(std::int64_t from, const Contribution& contribution, std::string part);
  /// Whether an exchange has not been passed on.
  bool holds(std::uint64_t sequence) const { return rounds_.contains(sequence); }
  /// The first verdict on a run counts.
  void decide(std::uint64_t run, const Verdict& verdict);
  void lose(std::int64_t rank, const std::string& reason, Spoke said = Spoke::kNo);
  void leave(std::int64_t rank, const std::string& reason);
  /// Before a run begins: ranks that have left are gone, and earlier runs are forgotten.
  void begin_run();
  /// Called repeatedly.
  void keep_watch();

 private:
  // The parts of one exchange that have arrived so far, by process.
  struct Round {
    Contribution contribution;
    std::int64_t first;  ///< the rank that was first
    Clock::time_point since;
    std::vector<std::string> parts;
    std::vector<bool> here;
  };
  // The calls of a run.
  struct Calls {
    explicit Calls(std::int64_t ranks) : referee(ranks) {}
    Referee referee;
    LongWaits waits;
  };
  // An inquiry under way, and its reason.
  struct Question {
    Inquiry inquiry;
    std::uint64_t run;
    std::optional<std::uint64_t> sequence;  ///< of an exchange; none: a collective, or the end
    bool at_the_end;                        ///< those that leave wait for the others
    Clock::time_point asked = Clock::now();
    int looks = 0;  ///< of rank 0 at all connections since
  };

  void send_to_all(Message message, const std::string& payload);
  std::vector<std::int64_t> missing_from(const Round& round) const;
  void finish_rounds();
  void watch_round(const Round& round, Clock::time_point time);
  Calls& calls_of(std::uint64_t run);
  void rule(std::uint64_t run, const Referee::Ruling& ruling);
  void hear_call(std::int64_t from, Reader& reader);
  void hear_wait(std::int64_t from, Reader& reader);
  void hear_end(std::int64_t from, Reader& reader);
  void hear_answer(std::int64_t from, Reader& reader);
  void look_for_hopeless(std::uint64_t run);
  void ask_all(LongWait wait, std::uint64_t run, std::optional<std::uint64_t> sequence,
               bool at_the_end);
  void conclude();
  void conclude_round(const Question& question, Round& round);
  void lose_leaving(std::int64_t rank, const char* usual);
  void see_who_stays(const Question& question);
  bool over(const Question& question) const;
  /// Whether bytes have passed to or from that rank since: its answer follows them.
  bool moved_since(std::int64_t rank, Clock::time_point time) const { return moved_(rank) > time; }
  void see_all_leave();

  JobState& state_;
  const StandingBoard& board_;
  const std::chrono::milliseconds longest_wait_;
  const Send send_;
  const Moved moved_;
  std::map<std::uint64_t, Round> rounds_;  ///< by sequence
  std::vector<std::uint64_t> reached_;     ///< by rank: the sequence of its last part
  std::map<std::uint64_t, Calls> calls_;   ///< by run
  std::optional<Question> question_;
  std::uint64_t questions_ = 0;
  std::vector<std::optional<std::string>> leaving_;  ///< by rank: why
  std::optional<Clock::time_point> leaving_since_;   ///< or asked about it
  bool told_of_stay_ = false;                        ///< people, of ranks that do not leave
};

}  // namespace shardlab::process
