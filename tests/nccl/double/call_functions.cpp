// Collectives, sends and receives of the double, and their groups.
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "tests/nccl/double/handles.h"
#include "tests/nccl/double/values.h"

namespace shardlab::nccl_double {

using nccl::Comm;
using nccl::CommHandle;
using nccl::DataType;
using nccl::RedOp;
using nccl::Result;
using nccl::Stream;
using State = CommHandle::State;

namespace {

struct Call {
  Comm comm;
  Stream stream;
  Operation operation;
};

struct Group {
  int depth = 0;
  Result error = Result::kSuccess;  // of a call in it
  std::vector<Call> calls;
  std::vector<Comm> ends;
};

// Since then ncclCommDestroy and ncclCommAbort belong to the group that they are called in.
constexpr int kEndsAreGrouped = 22403;

// One group per thread.
Group& group() {
  static std::mutex mutex;
  static std::map<std::thread::id, Group> groups;
  const std::lock_guard lock(mutex);
  return groups[std::this_thread::get_id()];
}

struct Bytes {
  const std::byte* data = nullptr;
  std::size_t size = 0;
};

std::size_t ranks_of(const Call& call) {
  return static_cast<std::size_t>(call.comm->place->region.ranks());
}

Bytes input_of(const Call& call) {
  const Operation& operation = call.operation;
  const bool reads = operation.kind != Kind::kRecv && (operation.kind != Kind::kBroadcast ||
                                                       operation.peer == call.comm->place->rank);
  const std::size_t bytes = operation.count * bytes_of(operation.type);
  if (!reads) return {};
  return {static_cast<const std::byte*>(operation.from),
          operation.kind == Kind::kReduceScatter ? bytes * ranks_of(call) : bytes};
}

Bytes output_of(const Call& call) {
  const Operation& operation = call.operation;
  const std::size_t bytes = operation.count * bytes_of(operation.type);
  if (operation.kind == Kind::kSend) return {};
  return {static_cast<const std::byte*>(operation.to),
          operation.kind == Kind::kAllGather ? bytes * ranks_of(call) : bytes};
}

bool overlap(Bytes a, Bytes b) {
  return a.size > 0 && b.size > 0 && a.data < b.data + b.size && b.data < a.data + a.size;
}

std::uint64_t digest(Bytes bytes) {
  std::uint64_t hash = 1469598103934665603ull;
  for (std::size_t i = 0; i < bytes.size; ++i) {
    hash = (hash ^ static_cast<std::uint64_t>(bytes.data[i])) * 1099511628211ull;
  }
  return hash;
}

// Inputs that must not change before the group is over: those that it does not write itself.
struct Watched {
  Bytes bytes;
  std::uint64_t digest;
  const Operation* operation;
  std::shared_ptr<Place> place;
};

std::atomic<int>& calls_in_flight() {
  static std::atomic<int> count{0};
  return count;
}

// A group on its way, with what it takes to see that nobody touches its memory meanwhile.
struct Flight {
  std::vector<Call> calls;
  std::vector<GroupedOperation> operations;
  std::vector<Watched> watched;
  bool watched_at_call = false;

  // The memory of what is in flight already may change under us: then nothing is watched.
  void watch() {
    for (const Call& call : calls) {
      const Bytes input = input_of(call);
      bool own = false;
      for (const Call& other : calls) own = own || overlap(input, output_of(other));
      if (!own && input.size > 0) {
        watched.push_back({input, digest(input), &call.operation, call.comm->place});
      }
    }
    // Results hold a pattern until they arrive, so that a rank that reads one too early is noticed.
    for (const Call& call : calls) {
      const Bytes output = output_of(call);
      bool read = false;
      for (const Call& other : calls) read = read || overlap(output, input_of(other));
      if (!read && output.size > 0) std::memset(call.operation.to, 0xA5, output.size);
    }
  }

  void run() {
    if (!watched_at_call) watch();
    run_operations(operations);
    for (const Watched& input : watched) {
      if (digest(input.bytes) == input.digest) continue;
      input.place->region.fail(fmt::format("rank {} wrote to the input of {} in flight",
                                           input.place->rank, text(*input.operation)));
    }
    for (const Call& call : calls) call.comm->in_flight -= 1;
    calls_in_flight() -= static_cast<int>(calls.size());
  }
};

Result check(const Call& call) {
  CommHandle& comm = *call.comm;
  const Operation& operation = call.operation;
  if (comm.state == State::kAborted || comm.state == State::kDestroyed) {
    return refuse(comm, Result::kInvalidUsage, text(operation) + ": the communicator has ended");
  }
  if (comm.place->region.failed()) {
    return refuse(comm, Result::kRemoteError, comm.place->region.failure());
  }
  if (comm.state != State::kReady) {
    return refuse(comm, Result::kInvalidUsage,
                  text(operation) + ": the communicator is not ready; poll ncclCommGetAsyncError");
  }
  const bool has_peer = operation.kind >= Kind::kBroadcast;
  if (bytes_of(operation.type) == 0 || call.stream == nullptr ||
      (has_peer && (operation.peer < 0 || operation.peer >= comm.place->region.ranks()))) {
    return refuse(comm, Result::kInvalidArgument, text(operation) + ": invalid argument");
  }
  const bool needs_from = operation.kind != Kind::kRecv && (operation.kind != Kind::kBroadcast ||
                                                            operation.peer == comm.place->rank);
  if (operation.count > 0 && ((needs_from && operation.from == nullptr) ||
                              (operation.kind != Kind::kSend && operation.to == nullptr))) {
    return refuse(comm, Result::kInvalidArgument, text(operation) + ": null buffer");
  }
  return Result::kSuccess;
}

Result launch(std::vector<Call> calls) {
  Result result = Result::kSuccess;
  for (const Call& call : calls) {
    if (call.stream != calls.front().stream) {
      return refuse(*call.comm, Result::kInvalidUsage, "the double takes one stream in a group");
    }
  }
  auto flight = std::make_shared<Flight>();
  flight->calls = std::move(calls);
  flight->watched_at_call = !work_pending();
  if (flight->watched_at_call && calls_in_flight() == 0) flight->watch();
  for (Call& call : flight->calls) {
    flight->operations.push_back({call.comm->place, call.operation});
    call.comm->in_flight += 1;
    const std::lock_guard lock(call.comm->mutex);
    if (call.comm->blocking) continue;
    call.comm->state = State::kMustBePolled;
    result = Result::kInProgress;
  }
  calls_in_flight() += static_cast<int>(flight->calls.size());
  flight->calls.front().stream->state.push([flight] { flight->run(); });
  return result;
}

}  // namespace

bool end_with_group(Comm comm) {
  Group& open = group();
  if (open.depth == 0 || version() < kEndsAreGrouped) return false;
  open.ends.push_back(comm);
  return true;
}

Result submit(Comm comm, Stream stream, const Operation& operation) {
  if (comm == nullptr) return Result::kInvalidArgument;
  Call call{comm, stream, operation};
  Group& open = group();
  {
    const std::lock_guard lock(comm->mutex);
    const Result result = check(call);
    if (result != Result::kSuccess) {
      if (open.depth > 0) open.error = result;
      return result;
    }
    call.operation.sequence = ++comm->sequence;
  }
  if (open.depth > 0) {
    open.calls.push_back(call);
    return Result::kSuccess;
  }
  // An exchange of no elements moves nothing, and nobody waits for it.
  if (operation.count == 0 && operation.kind < Kind::kSend) return Result::kSuccess;
  return launch({call});
}

}  // namespace shardlab::nccl_double

using namespace shardlab::nccl_double;

extern "C" {

Result ncclGroupStart() {
  group().depth += 1;
  return Result::kSuccess;
}

Result ncclGroupEnd() {
  Group& open = group();
  if (open.depth == 0) return Result::kInvalidUsage;
  if (--open.depth > 0) return Result::kSuccess;
  std::vector<Call> calls = std::exchange(open.calls, {});
  const Result error = std::exchange(open.error, Result::kSuccess);
  finish_ends(std::exchange(open.ends, {}));
  if (error != Result::kSuccess) return error;
  std::erase_if(calls, [](const Call& call) {
    return call.operation.count == 0 && call.operation.kind < Kind::kSend;
  });
  return calls.empty() ? Result::kSuccess : launch(std::move(calls));
}

Result ncclAllReduce(const void* from, void* to, std::size_t count, DataType type, RedOp op,
                     Comm comm, Stream stream) {
  return submit(comm, stream, {Kind::kAllReduce, from, to, count, type, op});
}

Result ncclAllGather(const void* from, void* to, std::size_t count, DataType type, Comm comm,
                     Stream stream) {
  return submit(comm, stream, {Kind::kAllGather, from, to, count, type});
}

Result ncclReduceScatter(const void* from, void* to, std::size_t count, DataType type, RedOp op,
                         Comm comm, Stream stream) {
  return submit(comm, stream, {Kind::kReduceScatter, from, to, count, type, op});
}

Result ncclBroadcast(const void* from, void* to, std::size_t count, DataType type, int root,
                     Comm comm, Stream stream) {
  return submit(comm, stream, {Kind::kBroadcast, from, to, count, type, RedOp::kSum, root});
}

Result ncclSend(const void* from, std::size_t count, DataType type, int peer, Comm comm,
                Stream stream) {
  return submit(comm, stream, {Kind::kSend, from, nullptr, count, type, RedOp::kSum, peer});
}

Result ncclRecv(void* to, std::size_t count, DataType type, int peer, Comm comm, Stream stream) {
  return submit(comm, stream, {Kind::kRecv, nullptr, to, count, type, RedOp::kSum, peer});
}

}  // extern "C"
