// An operation is a list of steps, each started when the messages of the one before have arrived.
// All operations of the process advance together during any wait. Operations of one group start in
// order, and a later step waits until the operations before it have started all of theirs, so that
// messages with the same tag arrive in the order in which they are expected.
#include "backends/mpi/operation.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <set>
#include <utility>

#include "backends/shared/patience.h"
#include "comm/verdict.h"

namespace shardlab::mpi {

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
