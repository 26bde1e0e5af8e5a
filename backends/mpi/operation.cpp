#include "backends/mpi/operation.h"

#include <sched.h>

#include <algorithm>
#include <set>

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
  session_.check(session_.api().test_all(count, requests.data(), &done), "a collective");
  if (done != 0) requests.clear();
  return done != 0;
}

bool Transfer::done() {
  const bool received = test(receives_);
  return test(sends_) && received;
}

bool Transfer::cancel() {
  for (Request& request : receives_) session_.api().cancel_receive(&request);
  receives_.clear();
  try {
    return test(sends_);
  } catch (const Error&) {
    return false;
  }
}

Engine::~Engine() { give_up(); }

void Engine::give_up() {
  for (const std::shared_ptr<Operation>& operation : operations_) {
    if (operation->transfer.cancel()) continue;
    // MPI cannot take a message back, so what it reads stays for good.
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
  std::set<int> held, waiting;
  for (auto place = operations_.begin(); place != operations_.end();) {
    Operation& operation = **place;
    while (true) {
      if (!operation.arrived) operation.arrived = operation.transfer.done();
      if (!operation.arrived || operation.begun == operation.steps.size()) break;
      if (operation.begun > 0 && held.contains(operation.tag)) break;
      if (operation.begun == 0) {
        if (waiting.contains(operation.tag)) break;
        if (operation.may_begin && !operation.may_begin()) break;
      }
      operation.steps[operation.begun++](operation.transfer);
      operation.arrived = false;
      moved = true;
    }
    if (operation.begun == 0) waiting.insert(operation.tag);
    if (operation.begun < operation.steps.size()) held.insert(operation.tag);
    place = operation.over() ? operations_.erase(place) : std::next(place);
  }
  return moved;
}

void Engine::wait(const std::shared_ptr<Operation>& operation) {
  process::ControlChannel& channel = session_.channel();
  while (!operation->over()) {
    if (channel.failed()) {
      give_up();
      throw to_error(channel.verdict());
    }
    // More ranks than processors: whoever has nothing to do makes room.
    if (!advance() && !operation->over()) sched_yield();
  }
}

}  // namespace shardlab::mpi
