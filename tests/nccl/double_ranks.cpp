#include "tests/nccl/double_ranks.h"

#include <doctest/doctest.h>
#include <sys/mman.h>

#include <new>
#include <thread>

namespace shardlab::on_double {

Shared& shared() {
  void* memory =
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return *new (memory) Shared{};
}

Rank::Rank(Shared& shared, int ranks, int rank, int device, Calls calls)
    : common(shared), rank(rank), ranks(ranks) {
  api.SetDevice(device);
  api.StreamCreateWithFlags(&stream, nccl::kStreamNonBlocking);
  nccl::Config config;
  config.blocking = calls == Calls::kBlock ? 1 : 0;
  result = api.CommInitRankConfig(&comm, ranks, common.id, rank, &config);
  if (result == Result::kInProgress) result = poll();
}

Rank::~Rank() {
  api.StreamSynchronize(stream);
  if (comm != nullptr && api.CommDestroy(comm) != Result::kSuccess) api.CommAbort(comm);
  api.StreamDestroy(stream);
}

Result Rank::poll(Comm polled) const {
  Result state = Result::kInProgress;
  while (state == Result::kInProgress) api.CommGetAsyncError(polled, &state);
  return state;
}

Result Rank::finish() const {
  api.StreamSynchronize(stream);
  return poll();
}

Result Rank::all_reduce(std::size_t count) {
  return api.AllReduce(ones.data(), sums.data(), count, nccl::DataType::kFloat32, nccl::RedOp::kSum,
                       comm, stream);
}

Texts on_ranks_of_double(int ranks, const std::function<std::string(Rank&)>& body, Calls calls) {
  Shared& common = shared();
  REQUIRE(double_api().GetUniqueId(&common.id) == Result::kSuccess);
  return on_processes(ranks, [&](int rank) {
    Rank me(common, ranks, rank, rank, calls);
    if (me.result != Result::kSuccess) return "start: " + me.error();
    return body(me);
  });
}

void await_turn(const Shared& common, int turn) {
  while (common.turn < turn) std::this_thread::yield();
}

std::string unless(bool right, const char* what) { return right ? "" : what; }

}  // namespace shardlab::on_double
