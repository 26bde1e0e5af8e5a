// control_channel.h - what the processes of one job tell each other beside their data path
// (src/README.md, "Who may know whom"): who is there, who has failed or is gone, and bytes for
// everyone. All speak through rank 0, in whose order things happen. One background thread per
// process waits on its sockets, so that a closed peer or a failure is known at once, whatever the
// program's thread does.
//
// A job runs one world after another, the same on every process: begin_run .. end_run.
//
// Nobody waits for ever (B-16). Where others have not come for the longest wait, rank 0 asks all
// ranks where they are, says so in a verdict, and takes those that do not answer for gone; their
// background threads answer while the program computes, loops or sleeps. Once a run has failed,
// its end waits two seconds for those that still compute, and takes them for gone, too.
//
// Threads: one calls everything but failed() and tell_failed(), which any may call.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/process/checks.h"
#include "backends/process/referee.h"
#include "backends/process/socket.h"
#include "backends/shared/patience.h"
#include "comm/verdict.h"

namespace shardlab::process {

/// A process's place in a job.
struct Membership {
  std::int64_t rank = 0;
  std::int64_t size = 1;
  std::string host;        ///< of rank 0, as the others reach it
  std::uint16_t port = 0;  ///< where rank 0 listens, or
  int ports = 1;           ///< on the first free one of so many from there on
  std::string job;         ///< equal in all processes of a job: others are turned away
  std::chrono::milliseconds patience{60'000};  ///< until those that are missing are named
  /// How long an exchange waits for others, once all are there; a shorter patience is one for
  /// collectives.
  std::chrono::milliseconds longest_wait =
      std::max<std::chrono::milliseconds>(backends::longest_wait(), std::chrono::seconds(3));
};

/// This process's end. Made once per process, since a job is joined once.
class ControlChannel {
 public:
  /// Returns when all processes are there. Rank 0 listens on the port of its membership, or on a
  /// listener that it has already told the others of.
  ///   fails  Runtime naming the ranks that did not come in time, on every process
  static std::unique_ptr<ControlChannel> open(const Membership& membership,
                                              std::optional<Listener> listener = std::nullopt);
  /// Leaves without a word, unless leave() was called: whoever still runs fails.
  ~ControlChannel();
  ControlChannel(const ControlChannel&) = delete;
  ControlChannel& operator=(const ControlChannel&) = delete;

  /// This process's rank, and how many there are.
  std::int64_t rank() const;
  std::int64_t size() const;

  /// What every process brings, by rank, on every process; empty for those that are gone. All that
  /// are left take part, also after a failure. Who does not come for the longest wait is gone, but
  /// for one that reports().
  std::vector<std::string> exchange(std::string_view mine);
  /// The same on `root` only; elsewhere nothing, and only rank 0 waits for the others.
  std::vector<std::string> gather(std::string_view mine, std::int64_t root);

  /// A world without failures; those of earlier ones are forgotten. `about` says what runs, a line
  /// for each thing that is the same on all ranks.
  ///   fails  Runtime naming the ranks that are gone; Value where a rank runs something else
  void begin_run(std::string_view about = "");
  /// This process's rank failed. The first failure to reach rank 0 is everybody's.
  void tell_failed(const Verdict& verdict);
  /// Whether some rank failed, or its process ended, during this run.
  bool failed() const;
  /// Once failed(): why. Equal on all processes that are left after end_run.
  Verdict verdict() const;
  /// Called once per run when it fails, on the background thread, or on the one that told; must not
  /// wait. It may be called at once. Gone with end_run.
  void on_failure(std::function<void()> notify);
  /// This rank enters a collective, and waits in it if it is called so. Where calls are compared on
  /// rank 0 before data moves (backends/process/referee.h), publishes it: a mismatch or deadlock
  /// becomes the run's failure. Others hear of it anyway when they have waited too long.
  void enter(const Entrance& entrance, const backends::Call& call, CollectiveChecks checks);
  /// Calls are compared, and this rank now waits for what it entered before.
  void wait_for(CallPlace place);
  /// The last that it entered, for waits_in().
  std::string last_call() const;
  /// What this rank does, for those that wait for it: computes, waits in a call that it entered
  /// before, or for something else.
  void goes_on();
  void waits_in(std::string call);
  void waits_for(std::string_view what);
  /// Asked again and again while this rank waits for others. Where one of them has ended without
  /// this rank's collective, or where it has waited for `patience`, the run fails; then failed()
  /// holds when this returns. Any thread, one at a time.
  void wait_on(std::chrono::milliseconds waited, std::chrono::milliseconds patience);
  /// Whether all ranks of the group have entered and their calls fit. True once per call.
  bool take_met(CallPlace place);
  /// The same of a receive from any: who sends, in the group.
  std::optional<std::int64_t> take_sender(CallPlace any);
  /// The next call of which that holds, once each, in an order that all ranks share.
  std::optional<CallPlace> next_met();
  /// This rank calls nothing more in this run.
  void tell_ended();
  /// This process judges what ranks did, which takes as long as it takes: others wait for what it
  /// brings to the next exchange.
  void reports();

  /// exchange(mine), as the last of a run: what happens to processes from now on does not count as
  /// a failure of the run.
  std::vector<std::string> end_run(std::string_view mine);
  /// This process takes part in no further run. Returns when no other does: true when all have said
  /// so, false when some are gone. Whoever runs meanwhile fails, with `reason` if there is one.
  bool leave(std::string_view reason = "");
  /// Ranks whose processes are gone.
  std::vector<std::int64_t> gone() const;
  /// What is known of why: "its process ended", ...; empty: it is not gone.
  std::string why_gone(std::int64_t rank) const;

 private:
  class Impl;
  explicit ControlChannel(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace shardlab::process
