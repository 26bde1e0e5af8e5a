// The double's functions with counters around them, and a session for each process.
#include "tests/nccl/nccl_ranks.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <new>
#include <thread>
#include <utility>

#include "backends/nccl/library.h"
#include "backends/nccl/local_side.h"
#include "tensor/cpu_device.h"
#include "tests/support/local_tensor.h"
#include "tests/support/on_ranks.h"

namespace shardlab::nccl {

namespace {

void count_extremum(DataType type, RedOp op) {
  const bool floats = type >= DataType::kFloat16;
  if (floats && (op == RedOp::kMax || op == RedOp::kMin)) counts().float_extrema += 1;
}

}  // namespace

Shared& shared() {
  void* memory =
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return *new (memory) Shared{};
}

SharedPeers::SharedPeers(const Shared& common)
    : common_(common),
      rank_(current_rank_or_null() == nullptr ? 0 : static_cast<int>(current_rank().rank)) {}

std::optional<Error> SharedPeers::failure() const {
  if (common_.failed_rank == 0) return std::nullopt;
  return Error(ErrorKind::kRuntime, fmt::format("rank {} failed", common_.failed_rank - 1));
}

void SharedPeers::tell(const Error&) const {
  int none = 0;
  common_.failed_rank.compare_exchange_strong(none, rank_ + 1);
}

void SharedPeers::end_process(const std::string& what) const {
  fmt::print(stderr, "{}: {}", failure() ? failure()->summary() : "no failure", what);
  std::fflush(stderr);
  _exit(4);
}

Counts& counts() {
  static Counts made;
  return made;
}

std::function<void()>& on_all_reduce() {
  static std::function<void()> function = [] {};
  return function;
}

Api counting_api() {
  Api api = double_api();
  api.AllReduce = [](const void* from, void* to, std::size_t count, DataType type, RedOp op,
                     Comm comm, Stream stream) {
    counts().all_reduce += 1;
    counts().elsewhere += current_rank_or_null() == nullptr ? 1 : 0;
    on_all_reduce()();
    count_extremum(type, op);
    if (std::exchange(counts().refused, 0) > 0) return Result::kInvalidUsage;
    return double_api().AllReduce(from, to, count, type, op, comm, stream);
  };
  api.AllGather = [](const void* from, void* to, std::size_t count, DataType type, Comm comm,
                     Stream stream) {
    counts().all_gather += 1;
    return double_api().AllGather(from, to, count, type, comm, stream);
  };
  api.ReduceScatter = [](const void* from, void* to, std::size_t count, DataType type, RedOp op,
                         Comm comm, Stream stream) {
    counts().reduce_scatter += 1;
    count_extremum(type, op);
    return double_api().ReduceScatter(from, to, count, type, op, comm, stream);
  };
  api.Send = [](const void* from, std::size_t count, DataType type, int peer, Comm comm,
                Stream stream) {
    counts().send += 1;
    counts().sent_elsewhere += current_rank_or_null() == nullptr ? 1 : 0;
    return double_api().Send(from, count, type, peer, comm, stream);
  };
  return api;
}

void Rank::check(bool right, std::string_view what) {
  if (!right) wrong += fmt::format("{}; ", what);
}

Texts on_nccl_ranks(int ranks, Lengths64 hosts, const std::function<void(Rank&)>& body) {
  Shared& common = shared();
  REQUIRE(double_api().GetUniqueId(&common.id) == Result::kSuccess);
  return on_processes(ranks, [&](int rank) {
    RankContext context;
    context.rank = rank;
    context.world_size = ranks;
    context.device = &plain_device();
    set_current_rank(&context);
    const Api api = counting_api();
    const SharedPeers peers(common);
    const auto side = std::make_unique<LocalSide>(plain_device());
    const auto session =
        std::make_shared<Session>(api, *side, peers, rank, rank, std::chrono::milliseconds(500));
    GroupPlace place;
    place.comm = session->join(common.id, ranks, rank);
    for (int i = 0; i < ranks; ++i) place.ranks.push_back(i);
    place.hosts = hosts;
    place.rank = rank;
    place.name = "world";
    const auto world =
        make_communicator(session, place, [&](const Error&) { common.failed_rank = rank + 1; });
    Rank me{common, rank, ranks, *world, place.comm, *session, ""};
    try {
      body(me);
    } catch (const Error& error) {
      me.wrong += error.summary();
    }
    return me.wrong;
  });
}

Texts on_nccl_ranks(int ranks, const std::function<void(Rank&)>& body) {
  return on_nccl_ranks(ranks, Lengths64(static_cast<std::size_t>(ranks), 0), body);
}

UniqueId double_id() {
  UniqueId id;
  REQUIRE(double_api().GetUniqueId(&id) == Result::kSuccess);
  return id;
}

void reduce_ones(Communicator& group) {
  group.all_reduce(local_tensor({4}, DType::kF32, Values(4, 1)), ReduceOp::kSum, Issue::kWait);
}

void await_turn(const Rank& me, int turn) {
  while (me.common.turn < turn) std::this_thread::yield();
}

std::string joined(const Texts& texts) {
  std::string all;
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    if (!texts[rank].empty()) all += fmt::format("rank {}: {}\n", rank, texts[rank]);
  }
  return all;
}

}  // namespace shardlab::nccl
