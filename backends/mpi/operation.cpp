// An operation is a list of steps, each started when the messages of the one before have arrived.
// All operations of the process advance together during any wait. Operations of one group start in
// order, and a later step waits until the operations before it have started all of theirs, so that
// messages with the same tag arrive in the order in which they are expected.
#include "backends/mpi/operation.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <string>
#include <utility>

#include "backends/shared/patience.h"
#include "base/error.h"
#include "comm/verdict.h"

namespace shardlab::mpi {

void Transfer::start(const Pieces& sends, const Pieces& receives, int tag) {
  const auto start_all = [&](const Pieces& pieces, std::vector<Request>& requests, auto function,
                             const char* what) {
    for (const Piece& piece : pieces) {
      for (std::size_t offset = 0; offset < piece.bytes; offset += kMostBytes) {
        const std::size_t bytes = std::min(kMostBytes, piece.bytes - offset);
        const Message message{static_cast<std::byte*>(piece.data) + offset, static_cast<int>(bytes),
                              static_cast<int>(piece.peer), tag};
        session_.check(function(message, &requests.emplace_back()), what);
      }
    }
  };
  start_all(receives, receives_, session_.api().receive, "MPI_Irecv");
  start_all(sends, sends_, session_.api().send, "MPI_Isend");
}

bool Transfer::test(std::vector<Request>& requests) {
  int done = 0;
  const auto count = static_cast<int>(requests.size());
  const int code = session_.api().test_all(count, requests.data(), &done);
  if (code != 0 && session_.api().truncated(code) != 0) {
    throw Error(
        ErrorKind::kRuntime,
        fmt::format("sizes differ in {} on group {}, call {}: rank {} got a message of "
                    "another length than its own shape and dtype say",
                    to_string(call.kind), call.group, call.sequence, session_.channel().rank()))
        .with("fix", "--check-collectives (WorldOptions::checks) says which rank brings what");
  }
  session_.check(code, "a collective");
  if (done != 0) requests.clear();
  return done != 0;
}

bool Transfer::done() {
  const bool received = test(receives_);
  return test(sends_) && received;
}

// Once a message has begun to arrive, MPI writes until its sender has sent it all, and the sender
// may have stopped.
bool Transfer::cancel() {
  for (Request& request : receives_) {
    session_.api().cancel_receive(&request);
    request.expected = -1;
  }
  const process::Clock::time_point deadline = process::Clock::now() + backends::kLastMessages;
  const auto over = [this](std::vector<Request>& requests) {
    try {
      return test(requests);
    } catch (const Error&) {
      return false;
    }
  };
  while (!over(receives_)) {
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
  std::set<std::pair<int, std::int64_t>> held, waiting;
  for (auto place = operations_.begin(); place != operations_.end();) {
    Operation& operation = **place;
    const std::pair order(operation.tag, operation.way);
    while (true) {
      if (!operation.arrived) operation.arrived = operation.transfer.done();
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
    if (operation.begun == 0) waiting.insert(order);
    if (operation.begun < operation.steps.size()) held.insert(order);
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
