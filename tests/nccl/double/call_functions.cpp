// Collectives, sends and receives of the double, and their groups. If communicators block, the end
// of a group waits for the ranks that it reaches for the first time, as NCCL waits where it makes
// connections: for each kind of call, and of collectives for each number of elements, which is as
// often as it could be.
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "tests/nccl/double/deadline.h"
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

// One group per thread; also for a thread that runs while the process ends.
Group& group() {
  static std::mutex& mutex = *new std::mutex;
  static auto& groups = *new std::map<std::thread::id, Group>;
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
  const bool elsewhere =
      operation.kind == Kind::kReduce && operation.peer != call.comm->place->rank;
  if (operation.kind == Kind::kSend || elsewhere) return {};
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

// A group on its way, with the data to detect that its memory is touched meanwhile.
struct Flight {
  std::vector<Call> calls;
  std::vector<GroupedOperation> operations;
  std::vector<Watched> watched;
  bool watched_at_call = false;

  // With calls in flight already, the memory may change under us: then nothing is watched.
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
  const bool needs_to = operation.kind != Kind::kSend &&
                        (operation.kind != Kind::kReduce || operation.peer == comm.place->rank);
  if (operation.count > 0 &&
      ((needs_from && operation.from == nullptr) || (needs_to && operation.to == nullptr))) {
    return refuse(comm, Result::kInvalidArgument, text(operation) + ": null buffer");
  }
  return Result::kSuccess;
}

// Another rank that a call reaches for the first time: it has come as often as this one.
struct Awaited {
  Comm comm;
  int rank;
  const std::atomic<std::uint32_t>* came;
  std::uint32_t times;
};

// Comes to the ranks that a call reaches for the first time.
void come(const Call& call, std::vector<Awaited>& awaited) {
  CommHandle& comm = *call.comm;
  const Operation& operation = call.operation;
  const int me = comm.place->rank, peer = operation.peer;
  if (!comm.blocking) return;
  // A message takes all channels of its peer, whatever its length.
  const std::size_t count = operation.kind >= Kind::kSend ? 0 : operation.count;
  const CommHandle::Reach reach{static_cast<int>(operation.kind), count,
                                static_cast<int>(operation.type), static_cast<int>(operation.op),
                                peer};
  if (!comm.connected.insert(reach).second) return;
  RegionHead& head = comm.place->region.head();
  if (operation.kind == Kind::kSend) {
    awaited.push_back({call.comm, peer, &head.came_to_receive[me][peer],
                       head.came_to_send[me][peer].fetch_add(1) + 1});
  } else if (operation.kind == Kind::kRecv) {
    awaited.push_back({call.comm, peer, &head.came_to_send[peer][me],
                       head.came_to_receive[peer][me].fetch_add(1) + 1});
  } else {
    const std::uint32_t times = head.came[me].fetch_add(1) + 1;
    for (int other = 0; other < comm.place->region.ranks(); ++other) {
      if (other != me) awaited.push_back({call.comm, other, &head.came[other], times});
    }
  }
  comm.place->region.wake_all();
}

// Waits inside of the call until all of them have come, or one of them never will.
Result connect(const std::vector<Call>& calls) {
  std::vector<Awaited> awaited;
  for (const Call& call : calls) come(call, awaited);
  const Deadline deadline;
  while (!awaited.empty()) {
    const Awaited& next = awaited.back();
    const Place& place = *next.comm->place;
    const std::uint32_t bell = place.region.bell(place.rank);
    if (next.came->load() >= next.times) {
      awaited.pop_back();
      continue;
    }
    for (const Awaited& other : awaited) {
      const bool left = other.comm->place->region.has_left(other.rank);
      if (!left || other.came->load() >= other.times) continue;
      return refuse(*other.comm, Result::kRemoteError, fmt::format("rank {} has left", other.rank));
    }
    if (place.region.failed()) {
      return refuse(*next.comm, Result::kRemoteError, place.region.failure());
    }
    if (deadline.passed()) {
      hang(fmt::format("rank {}: a call that blocks waits for rank {} to come", place.rank,
                       next.rank));
    }
    place.region.await_bell(place.rank, bell);
  }
  return Result::kSuccess;
}

Result launch(std::vector<Call> calls) {
  Result result = connect(calls);
  if (result != Result::kSuccess) return result;
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
  if (result == Result::kInProgress) threads_made() += 1;
  calls_in_flight() += static_cast<int>(flight->calls.size());
  StreamState& stream = flight->calls.front().stream->state;
  count_launch();
  stream.push([flight] {
    if (!device_is_broken()) flight->run();
  });
  // CUDA_LAUNCH_BLOCKING=1: a launch returns when it is over.
  if (launches_block()) stream.drain();
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
  const Inside here(comm, "a collective, a send or a receive");
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
  // An exchange of no elements moves nothing, and no rank waits for it.
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
  std::vector<Inside> here;
  for (const Call& call : calls) here.emplace_back(call.comm, "ncclGroupEnd");
  for (const Comm comm : open.ends) here.emplace_back(comm, "ncclGroupEnd with its end");
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

Result ncclReduce(const void* from, void* to, std::size_t count, DataType type, RedOp op, int root,
                  Comm comm, Stream stream) {
  return submit(comm, stream, {Kind::kReduce, from, to, count, type, op, root});
}

Result ncclSend(const void* from, std::size_t count, DataType type, int peer, Comm comm,
                Stream stream) {
  return submit(comm, stream, {Kind::kSend, from, nullptr, count, type, RedOp::kSum, peer});
}

Result ncclRecv(void* to, std::size_t count, DataType type, int peer, Comm comm, Stream stream) {
  return submit(comm, stream, {Kind::kRecv, nullptr, to, count, type, RedOp::kSum, peer});
}

}  // extern "C"
