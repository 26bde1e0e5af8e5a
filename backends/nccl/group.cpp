// The addresses of a group's calls are left out of its signature, since NCCL uses them only for
// memory that was registered, and nothing here is.
#include "backends/nccl/group.h"

#include <thread>
#include <utility>

#include "backends/nccl/library.h"
#include "backends/shared/patience.h"
#include "base/hash.h"

namespace shardlab::nccl {

namespace {

// From this version on aborts belong to the group that they are made in, and run at once.
constexpr int kAbortsAreGrouped = 22403;

constexpr const char* kNamesOfCalls[] = {"ncclAllReduce", "ncclAllGather", "ncclReduceScatter",
                                         "ncclBroadcast", "ncclSend",      "ncclRecv",
                                         "ncclReduce"};

// NCCL's group of this thread. One that is left open would only queue all later calls, aborts among
// them.
class Group {
 public:
  explicit Group(const Api& api) : api_(api), open_(api.GroupStart() == Result::kSuccess) {}
  ~Group() {
    if (open_) api_.GroupEnd();
  }
  Group& operator=(Group&&) = delete;

  Result end() {
    if (!std::exchange(open_, false)) return Result::kInternalError;
    return api_.GroupEnd();
  }

 private:
  const Api& api_;
  bool open_;
};

Result made(const Lane& lane, Comm comm, const GroupCall& call) {
  using Kind = GroupCall::Kind;
  const Api& api = lane.api;
  switch (call.kind) {
    case Kind::kAllReduce:
      return api.AllReduce(call.from, call.to, call.count, call.type, call.op, comm, lane.stream);
    case Kind::kAllGather:
      return api.AllGather(call.from, call.to, call.count, call.type, comm, lane.stream);
    case Kind::kReduceScatter:
      return api.ReduceScatter(call.from, call.to, call.count, call.type, call.op, comm,
                               lane.stream);
    case Kind::kBroadcast:
      return api.Broadcast(call.from, call.to, call.count, call.type, call.peer, comm, lane.stream);
    case Kind::kReduce:
      return api.Reduce(call.from, call.to, call.count, call.type, call.op, call.peer, comm,
                        lane.stream);
    case Kind::kSend:
      return api.Send(call.from, call.count, call.type, call.peer, comm, lane.stream);
    case Kind::kRecv:
      return api.Recv(call.to, call.count, call.type, call.peer, comm, lane.stream);
  }
  return Result::kInvalidUsage;
}

bool is_message(const GroupCall& call) {
  return call.kind == GroupCall::Kind::kSend || call.kind == GroupCall::Kind::kRecv;
}

Signature signature_of(const GroupCall& call) {
  return {static_cast<std::int64_t>(call.kind),
          is_message(call) ? 0 : static_cast<std::int64_t>(call.count),
          static_cast<std::int64_t>(call.type), static_cast<std::int64_t>(call.op),
          std::int64_t{call.peer}};
}

}  // namespace

std::vector<Signature> signatures_of(std::span<const GroupCall> calls) {
  std::vector<Signature> all;
  std::uint64_t together = 0;
  std::int64_t collectives = 0;
  for (const GroupCall& call : calls) {
    all.push_back(signature_of(call));
    if (is_message(call)) continue;
    together = hash_range(together, all.back());
    ++collectives;
  }
  if (collectives > 1) all.push_back({-1, collectives, static_cast<std::int64_t>(together), 0, 0});
  return all;
}

Result settled(const Lane& lane, Comm comm, Result result) {
  backends::Patience patience;
  while (result == Result::kInProgress && comm != nullptr && !*lane.cut) {
    patience.pause();
    const Result asked = lane.api.CommGetAsyncError(comm, &result);
    if (asked != Result::kSuccess) return asked;
  }
  return result;
}

Outcome make_group(const Lane& lane, Comm comm, std::span<const GroupCall> calls) noexcept {
  try {
    Group group(lane.api);
    for (const GroupCall& call : calls) {
      const Result result = made(lane, comm, call);
      if (result == Result::kInProgress) continue;
      check(lane.api, result, kNamesOfCalls[static_cast<int>(call.kind)], lane.rank, comm);
    }
    return {group.end(), std::nullopt};
  } catch (const Error& error) {
    return {Result::kInvalidUsage, error};
  }
}

void abort_together(const Lane& lane, std::span<const Comm> comms) noexcept {
  lane.api.SetDevice(lane.device);
  if (lane.version >= kAbortsAreGrouped) {
    Group group(lane.api);
    for (const Comm comm : comms) lane.api.CommAbort(comm);
    return;
  }
  std::vector<std::thread> aborts;
  for (const Comm comm : comms) aborts.emplace_back([&lane, comm] { lane.api.CommAbort(comm); });
  for (std::thread& abort : aborts) abort.join();
}

}  // namespace shardlab::nccl
