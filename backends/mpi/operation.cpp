// An operation is a list of steps, each started when the messages of the one before have arrived.
// All operations of the process advance together during any wait. Operations of one group start in
// order, and a later step waits until the operations before it have started all of theirs, so that
// messages with the same tag arrive in the order in which they are expected.
#include "backends/mpi/operation.h"

#include <sched.h>
#include <unistd.h>
#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include <cstdlib>
#include <set>

#include "backends/process/last_resort.h"
#include "backends/process/presence.h"
#include "backends/shared/module.h"
#include "backends/shared/patience.h"
#include "comm/verdict.h"

namespace shardlab::mpi {

// MPI is opened as a module when a world needs it. Rank 0's host and port are sent in one MPI
// broadcast; from then on control messages have a channel of their own, because MPI does not report
// that a rank has died.

namespace {

// The variables of a launcher, by which it is known: Open MPI's, those of MPICH and its kin,
// Slurm's.
struct Launcher {
  const char *rank, *size, *local_size, *job;
};
constexpr Launcher kLaunchers[] = {
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE",
     "PMIX_NAMESPACE"},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", "PMI_ID"},
    {"PMIX_RANK", "SLURM_NTASKS", "SLURM_TASKS_PER_NODE", "SLURM_JOB_ID"},
};

const Launcher* launcher_here() {
  const auto* const found = std::ranges::find_if(
      kLaunchers, [](const Launcher& launcher) { return std::getenv(launcher.rank) != nullptr; });
  return found == std::end(kLaunchers) ? nullptr : found;
}

std::int64_t number(const char* variable, std::int64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::atoll(text);
}

void mark_own_presence(const Launcher& launcher) {
  const char* job = std::getenv(launcher.job);
  process::mark_presence(job != nullptr ? job : fmt::format("of process {}", getppid()),
                         number(launcher.rank, 0), number(launcher.size, 0));
}

// Names those that have not come to MPI_Init; empty where another process of this host says so.
std::string who_is_missing(const Launcher& launcher, std::chrono::milliseconds join) {
  if (!process::must_speak()) return "";
  const std::int64_t size = number(launcher.size, 0), here = number(launcher.local_size, size);
  const std::vector<std::int64_t> present = process::ranks_present();
  const auto came = static_cast<std::int64_t>(present.size());
  std::string who = "not all processes of the job have";
  if (came > 0 && came < size && here == size) {
    std::vector<std::int64_t> missing;
    for (std::int64_t rank = 0; rank < size; ++rank) {
      if (!std::ranges::binary_search(present, rank)) missing.push_back(rank);
    }
    who = fold_ranks(missing) + (missing.size() == 1 ? " has" : " have");
  } else if (came > 0 && came < size) {
    who += fmt::format(", on this host {} of {} ({}), have", came, here, fold_ranks(present));
  }
  const bool named = here == size && came > 0 && came < size;
  return fmt::format(
      "{}{} come to MPI_Init within {:g} s (SHARDLAB_JOIN_SECONDS=SECONDS waits "
      "longer)",
      who, named ? " not" : "", std::chrono::duration<double>(join).count());
}

const Api* open_api() {
  if (launcher_here() == nullptr) {
    fail(ErrorKind::kRuntime, Fix{"mpirun -n RANKS in front of the command"},
         "backend mpi runs each rank in a process, and no launcher started the others");
  }
  void* function = backends::module_function(
      "shardlab_mpi", kTableSymbol,
      "apt-get install libopenmpi-dev openmpi-bin, then build again (-Dmpi=enabled says what is "
      "missing)");
  return reinterpret_cast<TableFunction>(function)();
}

// The place where rank 0 listens, sent to all through MPI.
struct Meeting {
  std::array<char, 256> host{};
  std::uint16_t port = 0;
  std::int64_t process = 0;  ///< of rank 0: separates its job from others
};

}  // namespace

Session& Session::get() {
  static Session session;
  return session;
}

Session::Session() : api_(open_api()), patience_(backends::longest_wait()) {
  const std::chrono::milliseconds join = backends::longest_join();
  std::optional<process::LastResort> last_resort;
  const Launcher& launcher = *launcher_here();
  mark_own_presence(launcher);
  last_resort.emplace(join, [&launcher, join] { return who_is_missing(launcher, join); });
  int rank = 0, size = 1;
  check(api_->start(&rank, &size), "MPI_Init");
  std::array<char, 256> here{};
  gethostname(here.data(), here.size() - 1);
  Meeting meeting;
  std::optional<process::Listener> listener;
  if (rank == 0) {
    listener.emplace(std::uint16_t{0});
    meeting = {here, listener->port(), getpid()};
  }
  check(api_->broadcast(&meeting, sizeof meeting, 0), "MPI_Bcast");
  last_resort.reset();
  // On one host the name need not resolve.
  const std::string host = meeting.host == here ? "localhost" : meeting.host.data();
  channel_ = process::ControlChannel::open({.rank = rank,
                                            .size = size,
                                            .host = host,
                                            .port = meeting.port,
                                            .job = fmt::format("mpi {}", meeting.process),
                                            .patience = join},
                                           std::move(listener));
  channel_->learn_places();
  marks_.resize(static_cast<std::size_t>(size));
}

Session::~Session() {
  const bool whole = channel_->leave();
  const bool speaks = channel_->speaks();
  channel_.reset();
  if (!whole) return;
  const process::LastResort last_resort(patience_, [this, speaks] {
    if (!speaks && process::somebody_spoke()) return std::string();
    return fmt::format("not all processes of the job have come to MPI_Finalize within {:g} s",
                       std::chrono::duration<double>(patience_).count());
  });
  api_->finish();
}

void Session::begin_run() { check(api_->renew(), "the next run's tags"); }

FirstMessageRef Session::take_first() {
  if (spare_.empty()) return std::make_unique_for_overwrite<FirstMessage>();
  FirstMessageRef first = std::move(spare_.back());
  spare_.pop_back();
  return first;
}

void Session::check(int code, const char* what) const {
  if (code != 0) fail(ErrorKind::kRuntime, "{} failed: {}", what, api_->error_text(code));
}

namespace {

// "all_reduce(f32, sum), call 3".
std::string text_of(const Header& call) {
  const bool reduces = call.kind == CollectiveKind::kAllReduce ||
                       call.kind == CollectiveKind::kReduce ||
                       call.kind == CollectiveKind::kReduceScatter;
  std::string text = fmt::format("{}({}", to_string(call.kind), to_string(call.dtype));
  if (reduces) text += fmt::format(", {}", to_string(call.op));
  if (call.root >= 0) text += fmt::format(", root {}", call.root);
  if (call.dim != 0 || call.concat_dim != 0) {
    text += fmt::format(", dims {} and {}", call.dim, call.concat_dim);
  }
  return text + fmt::format("), call {}", call.sequence);
}

}  // namespace

// Memory that MPI still uses is not given back: cancel() has said so, and the operation stays.
Transfer::~Transfer() {
  for (FirstMessageRef& first : sent_) session_.give_back(std::move(first));
  for (Awaited& awaited : awaited_) {
    if (awaited.first) session_.give_back(std::move(awaited.first));
  }
}

void Transfer::start(const Pieces& sends, const Pieces& receives, int tag) {
  awaited_.reserve(awaited_.size() + receives.size());
  sent_.reserve(sent_.size() + sends.size());
  for (const Piece& piece : receives) {
    Awaited& awaited = awaited_.emplace_back(Awaited{piece, tag, session_.take_first()});
    const Message message{awaited.first.get(), sizeof(FirstMessage), static_cast<int>(piece.peer),
                          tag};
    session_.check(session_.api().receive(message, &awaited.request), "MPI_Irecv");
  }
  for (const Piece& piece : sends) send(piece, tag);
}

void Transfer::send(const Piece& piece, int tag) {
  FirstMessage& first = *sent_.emplace_back(session_.take_first());
  const std::size_t bytes = bytes_in_first(piece.bytes);
  first.header = call;
  first.header.bytes = piece.bytes;
  if (bytes > 0) std::memcpy(first.bytes, piece.data, bytes);
  const Message message{&first, static_cast<int>(offsetof(FirstMessage, bytes) + bytes),
                        static_cast<int>(piece.peer), tag};
  Request request;
  session_.check(session_.api().send(message, &request), "MPI_Isend");
  sends_.push_back(request);
  start_rest(piece, tag, sends_, true);
}

void Transfer::start_rest(const Piece& piece, int tag, Requests& requests, bool sends) {
  const auto function = sends ? session_.api().send : session_.api().receive;
  std::size_t offset = bytes_in_first(piece.bytes);
  for (; offset < piece.bytes; offset += kMostBytes) {
    const std::size_t bytes = std::min(kMostBytes, piece.bytes - offset);
    const Message message{static_cast<std::byte*>(piece.data) + offset, static_cast<int>(bytes),
                          static_cast<int>(piece.peer), tag + kTagOfRests};
    Request request;
    session_.check(function(message, &request), sends ? "MPI_Isend" : "MPI_Irecv");
    requests.push_back(request);
  }
}

bool Transfer::take_firsts() {
  // Asked again and again while the rank waits: no memory is made here.
  const auto [behind, now] = session_.new_look();
  bool all = true;
  for (Awaited& awaited : awaited_) {
    std::uint64_t& last = behind[static_cast<std::size_t>(awaited.piece.peer)];
    if (!awaited.first || last == now) continue;
    int done = 0;
    session_.check(session_.api().test(&awaited.request, &done), "a collective");
    if (done == 0) {
      last = now;
      all = false;
      continue;
    }
    const Piece& piece = awaited.piece;
    check(awaited.first->header, piece);
    const std::size_t bytes = bytes_in_first(piece.bytes);
    if (bytes > 0) std::memcpy(piece.data, awaited.first->bytes, bytes);
    session_.give_back(std::move(awaited.first));
    start_rest(piece, awaited.tag, rests_, false);
  }
  if (all) awaited_.clear();
  return all;
}

void Transfer::check(const Header& theirs, const Piece& piece) const {
  Header mine = call;
  mine.bytes = theirs.bytes;
  const std::int64_t rank = session_.channel().rank();
  std::string text;
  if (theirs != mine) {
    text = fmt::format("calls differ on group {}: rank {} is in {}, rank {} in {}", group, rank,
                       text_of(mine), piece.peer, text_of(theirs));
  } else if (theirs.bytes != piece.bytes) {
    text = fmt::format(
        "sizes differ in {} on group {}, call {}: rank {} got a message of {} bytes from rank {}, "
        "and its own shape and dtype say {}",
        to_string(call.kind), group, call.sequence, rank, theirs.bytes, piece.peer, piece.bytes);
  } else {
    return;
  }
  throw Error(ErrorKind::kRuntime, std::move(text))
      .with("fix", "--check-collectives (WorldOptions::checks) says which rank brings what");
}

bool Transfer::test(Requests& requests) {
  bool all = true;
  for (Request& request : requests) {
    int done = 0;
    session_.check(session_.api().test(&request, &done), "a collective");
    all = all && done != 0;
  }
  if (all) requests.clear();
  return all;
}

bool Transfer::done() {
  const bool taken = take_firsts();
  const bool received = test(rests_) && taken;
  const bool sent = test(sends_);
  if (sent) {
    for (FirstMessageRef& first : sent_) session_.give_back(std::move(first));
    sent_.clear();
  }
  return sent && received;
}

// Once a message has begun to arrive, MPI writes until its sender has sent it all, and the sender
// may have stopped.
bool Transfer::cancel() {
  for (Awaited& awaited : awaited_) {
    if (awaited.first) rests_.push_back(awaited.request);
  }
  for (Request& request : rests_) session_.api().cancel_receive(&request);
  const process::Clock::time_point deadline = process::Clock::now() + backends::kLastMessages;
  const auto over = [this](Requests& requests) {
    try {
      return test(requests);
    } catch (const Error&) {
      return false;
    }
  };
  while (!over(rests_)) {
    if (process::Clock::now() > deadline) return false;
    sched_yield();
  }
  return over(sends_);
}

Engine::~Engine() { give_up(); }

void Engine::give_up() {
  for (const std::shared_ptr<Operation>& operation : operations_) {
    if (operation->transfer.cancel()) continue;
    // MPI cannot take a message back, so the memory that it reads is never freed.
    static_cast<void>(new std::shared_ptr<Operation>(operation));
  }
  operations_.clear();
}

void Engine::start(const std::shared_ptr<Operation>& operation) {
  operations_.push_back(operation);
  advance();
}

bool Engine::advance() {
  bool moved = false;
  // Messages of a group share a tag in each step, so later operations of a group begin no further
  // step before the earlier ones have begun all of theirs.
  std::set<std::pair<int, std::int64_t>> held, waiting, behind;
  for (auto place = operations_.begin(); place != operations_.end();) {
    Operation& operation = **place;
    const std::pair order(operation.tag, operation.way);
    const bool alone = operations_.size() == 1;  // nothing is remembered for others
    while (true) {
      // Rests are received in the order of their operations.
      if (!operation.arrived && !behind.contains(order)) {
        operation.arrived = operation.transfer.done();
      }
      if (!operation.arrived && !alone) behind.insert(order);
      if (!operation.arrived || operation.begun == operation.steps.size()) break;
      if (operation.begun > 0 && held.contains(order)) break;
      if (operation.begun == 0) {
        if (waiting.contains(order)) break;
        if (operation.may_begin && !operation.may_begin()) break;
      }
      operation.steps[operation.begun++](operation.transfer);
      operation.arrived = false;
      moved = true;
    }
    if (operation.begun == 0 && !alone) waiting.insert(order);
    if (operation.begun < operation.steps.size() && !alone) held.insert(order);
    place = operation.over() ? operations_.erase(place) : std::next(place);
  }
  return moved;
}

void Engine::check_hope(process::Clock::time_point since) {
  process::ControlChannel& channel = session_.channel();
  const process::Clock::time_point now = process::Clock::now();
  const process::Clock::duration waited = now - since;
  if (!channel.failed()) {
    channel.wait_on(std::chrono::duration_cast<std::chrono::milliseconds>(waited),
                    session_.patience());
  }
  if (!channel.failed()) return;
  if (!deadline_) deadline_ = now + backends::kLastMessages;
  const Verdict verdict = channel.verdict();
  const bool alive = verdict.kind == VerdictKind::kRankFailed && channel.gone().empty();
  if (alive && now < *deadline_) return;
  give_up();
  throw to_error(verdict);
}

void Engine::wait(const std::shared_ptr<Operation>& operation) {
  const process::Clock::time_point since = process::Clock::now();
  while (!operation->over()) {
    check_hope(since);
    // More ranks than processors: an idle rank gives way.
    if (!advance() && !operation->over()) sched_yield();
  }
}

}  // namespace shardlab::mpi
