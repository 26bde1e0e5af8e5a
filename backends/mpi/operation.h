// operation.h - one rank's part of one collective, as messages in flight. Operations of one process
// advance together: a wait for one moves all on, so that ranks may wait for asynchronous calls in
// different orders.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/mpi/api.h"
#include "backends/mpi/first_message.h"
#include "backends/process/control_channel.h"
#include "base/inline_vector.h"
#include "comm/communicator.h"

namespace shardlab::mpi {

// This process in its MPI job: from the first world that needs it to the end of the
// process. One thread uses it.

/// There is one per process: MPI can be started once only, and not again after its end.
class Session {
 public:
  /// Joins the job with the first call.
  static Session& get();
  Session();
  /// Waits for the others, unless one of them is gone.
  ~Session();
  Session& operator=(Session&&) = delete;

  const Api& api() const { return *api_; }
  process::ControlChannel& channel() { return *channel_; }
  /// For each rank of the job the number of its host.
  const std::vector<std::int64_t>& hosts() const { return channel_->hosts(); }
  /// The longest wait of a collective for other ranks: 300 s, or SHARDLAB_PATIENCE.
  std::chrono::milliseconds patience() const { return patience_; }
  /// Messages that are left over from an earlier run are not seen by the next one.
  void begin_run();
  /// Memory for a first message, used again; its contents are any.
  FirstMessageRef take_first();
  void give_back(FirstMessageRef first) { spare_.push_back(std::move(first)); }
  /// For each rank of the job a number, and one that none of them has.
  std::pair<std::span<std::uint64_t>, std::uint64_t> new_look() { return {marks_, ++looks_}; }
  /// Fails with Runtime, naming the call, unless `code` is 0.
  void check(int code, const char* what) const;

 private:
  const Api* api_;
  std::unique_ptr<process::ControlChannel> channel_;
  std::chrono::milliseconds patience_;
  std::vector<FirstMessageRef> spare_;
  std::vector<std::uint64_t> marks_;
  std::uint64_t looks_ = 0;
};

/// Memory to or from a rank of the job.
struct Piece {
  std::int64_t peer;
  void* data;  ///< of a send, only read
  std::size_t bytes;
};
using Pieces = std::vector<Piece>;
/// Distance of the tag of a piece's rest from the tag of the step.
inline constexpr int kTagOfRests = 2;
/// Few, mostly: no memory is made for them.
using Requests = InlineVector<Request, 4>;

/// The messages of one step.
class Transfer {
 public:
  explicit Transfer(Session& session) : session_(session) {}
  ~Transfer();
  Transfer& operator=(Transfer&&) = delete;

  Header call;        ///< `bytes` are filled in
  std::string group;  ///< name

  /// Pieces meet in the order in which both sides name them, per tag; empty ones, too. The
  /// rest of a piece that a first message does not hold is sent under `tag` + kTagOfRests.
  void start(const Pieces& sends, const Pieces& receives, int tag);
  /// Fails with Runtime when a rank sends a piece of another call, or of another length than its
  /// receiver expects; no byte of it has been written then.
  bool done();
  /// Cancels receives that have not arrived. False when memory is still read or written.
  bool cancel();

 private:
  struct Awaited {
    Piece piece;
    int tag;
    FirstMessageRef first;  ///< null: it has arrived
    Request request = {};
  };

  void send(const Piece& piece, int tag);
  void start_rest(const Piece& piece, int tag, Requests& requests, bool sends);
  /// Takes first messages that have arrived, those of a rank in their order.
  bool take_firsts();
  void check(const Header& theirs, const Piece& piece) const;
  bool test(Requests& requests);

  Session& session_;
  std::vector<Awaited> awaited_;
  std::vector<FirstMessageRef> sent_;
  Requests sends_, rests_;
};

/// Steps that follow each other: each may start the transfer, and the next starts when it is done.
/// They hold the memory that they point to.
struct Operation {
  using Step = std::function<void(Transfer&)>;

  Operation(Session& session, int tag) : transfer(session), tag(tag) {}

  /// True when all steps have begun and the last one's messages have arrived.
  bool over() const { return begun == steps.size() && arrived; }

  Transfer transfer;
  /// Operations of one tag and way keep their order in each step. Way: 0 of collectives; of a
  /// message the other rank and who sends.
  const int tag;
  std::int64_t way = 0;
  std::vector<Step> steps;
  std::function<bool()> may_begin;  ///< none: at once
  std::size_t begun = 0;            ///< steps
  bool arrived = true;              ///< all messages of the last one begun
};

/// The operations of this process's rank in one run.
class Engine {
 public:
  explicit Engine(Session& session) : session_(session) {}
  /// Operations still in flight are cancelled.
  ~Engine();

  Session& session() { return session_; }
  /// Begins with the first step.
  void start(const std::shared_ptr<Operation>& operation);
  /// Moves all operations on until this one is over. Once a rank has failed, messages that do not
  /// arrive soon never will: fails with Runtime, the verdict; likewise after the session's
  /// patience.
  void wait(const std::shared_ptr<Operation>& operation);

 private:
  bool advance();
  void give_up();
  /// Throws when the awaited message cannot arrive.
  void check_hope(process::Clock::time_point since);

  Session& session_;
  std::optional<process::Clock::time_point> deadline_;  ///< once a rank has failed
  std::list<std::shared_ptr<Operation>> operations_;    ///< in the order of their start
};

}  // namespace shardlab::mpi
