// control_channel.h - the messages between the processes of one job outside of their data path
// (src/README.md, "Who may know whom"): which of them are present, which have failed or are gone,
// and bytes for all of them. All pass through rank 0, in whose order things happen. One background
// thread per process waits on its sockets, so that a closed peer or a failure is known at once,
// whatever the program's thread does.
//
// A job runs one world after another, the same on every process: begin_run .. end_run.
//
// No wait is endless (B-16). If others have not arrived for the longest wait, rank 0 asks all ranks
// where they are, reports that in a verdict, and takes those that do not answer for gone; their
// background threads answer while the program computes, loops or sleeps. Once a run has failed, its
// end waits two seconds for those that still compute, and takes them for gone, too.
//
// Threads: one calls everything but failed() and report_failed(), which any may call.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
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
  std::uint16_t port = 0;  ///< rank 0 listens there, or
  int ports = 1;           ///< on the first free one of so many from there on
  std::string job;         ///< equal in all processes of a job: others are turned away
  std::string unfit = {};  ///< why this process cannot take part: it comes to say so
  /// Until those that are missing are named.
  std::chrono::milliseconds patience = backends::longest_join();
  /// The longest wait of an exchange for others, once all are present; a shorter patience is one
  /// for collectives.
  std::chrono::milliseconds longest_wait =
      std::max<std::chrono::milliseconds>(backends::longest_wait(), std::chrono::seconds(3));
};

/// This process's end. Made once per process, since a job is joined once.
class ControlChannel {
 public:
  /// Returns when all processes are present. Rank 0 listens on the port of its membership, or on a
  /// listener whose place it has already sent to the others.
  ///   fails  Runtime naming the ranks that did not arrive in time, on every process
  static std::unique_ptr<ControlChannel> open(const Membership& membership,
                                              std::optional<Listener> listener = std::nullopt);
  /// Leaves without a message, unless leave() was called: processes that still run fail.
  ~ControlChannel();
  ControlChannel& operator=(ControlChannel&&) = delete;

  /// This process's rank, and the number of processes.
  std::int64_t rank() const;
  std::int64_t size() const;

  /// The processes tell each other where they are. All take part, once, before the following.
  void learn_places();
  /// For each rank the number of its host, counted from 0 in the order of ranks.
  const std::vector<std::int64_t>& hosts() const;
  /// Whether this process speaks to people for all of its host: the first of those that are left.
  bool speaks() const;
  /// Before this process ends with a failure: writes it for the launcher (places.h). `culprits`
  /// empty: this rank is.
  void write_errors(std::string_view text, std::span<const std::int64_t> culprits = {}) const;

  /// The texts of all processes, by rank, on every process; empty for those that are gone, and for
  /// those that failed before it and are at the end of the run. All others take part, also after a
  /// failure. A process that does not arrive for the longest wait is gone, but for one that
  /// reports().
  std::vector<std::string> exchange(std::string_view mine);
  /// The same on `root` only, which reports() from then on; elsewhere nothing, and only rank 0
  /// waits for the others. As an exchange, it may be tried again with a shorter text when there is
  /// no memory for `mine` (std::bad_alloc).
  std::vector<std::string> gather(std::string_view mine, std::int64_t root);

  /// A world without failures; those of earlier ones are forgotten. `about` describes the run, a
  /// line for each fact that is the same on all ranks.
  ///   fails  Runtime naming the ranks that are gone; Value where a rank runs something else
  void begin_run(std::string_view about = "");
  /// This process's rank failed. The first failure to reach rank 0 applies to all.
  void report_failed(const Verdict& verdict);
  /// Whether some rank failed, or its process ended, during this run.
  bool failed() const;
  /// Once failed(): the reason. Equal on all processes that are left after end_run.
  Verdict verdict() const;
  /// Called once per run when it fails, on the background thread, or on the one that reported it;
  /// must not wait. It may be called at once. Removed by end_run.
  void on_failure(std::function<void()> notify);
  /// This rank enters a collective, and waits in it if the call does. If calls are compared on rank
  /// 0 before data moves (backends/process/referee.h), publishes it: a mismatch or deadlock becomes
  /// the run's failure. Others learn of it anyway when they have waited too long.
  void enter(const Entrance& entrance, const backends::Call& call, CollectiveChecks checks);
  /// Calls are compared, and this rank now waits for a call that it entered before.
  void wait_for(CallPlace place);
  /// The last that it entered, for waits_in().
  std::string last_call() const;
  /// The present activity of this rank, for those that wait for it: computes, waits in a call that
  /// it entered before, or for something else.
  void goes_on();
  void waits_in(std::string call);
  void waits_for(std::string_view what);
  /// Called repeatedly while this rank waits for others. If one of them has ended without this
  /// rank's collective, or if it has waited for `patience`, the run fails; then failed() holds when
  /// this returns. Any thread, one at a time.
  void wait_on(std::chrono::milliseconds waited, std::chrono::milliseconds patience);
  /// Whether all ranks of the group have entered and their calls fit. True once per call.
  bool take_met(CallPlace place);
  /// The same of a receive from any: the sender, as group rank.
  std::optional<std::int64_t> take_sender(CallPlace any);
  /// The next call of which that holds, once each, in an order that all ranks share.
  std::optional<CallPlace> next_met();
  /// This rank calls nothing more in this run.
  void report_ended();
  /// This process judges the results of the ranks, which takes as long as it takes: others wait for
  /// its part of the next exchange.
  void reports();

  /// exchange(mine), as the last of a run: the end of a process from now on does not count as a
  /// failure of the run.
  std::vector<std::string> end_run(std::string_view mine);
  /// This process takes part in no further run. Returns when no other does: true when all have left
  /// properly, false when some are gone. Processes that still run fail, with `reason` if there is
  /// one. After the longest wait rank 0 prints who has not left; after another they count as gone.
  /// Once a process has spoken that speaks(), its launcher may hear that others failed.
  bool leave(std::string_view reason = "");
  /// Ranks whose processes are gone.
  std::vector<std::int64_t> gone() const;
  /// The known reason: "its process ended", ...; empty: it is not gone.
  std::string why_gone(std::int64_t rank) const;

 private:
  struct Impl;
  explicit ControlChannel(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace shardlab::process
