// The session over functions that only note their callers: the order of NCCL's calls when a rank
// ends, fails or is refused. NCCL's reaction is in tests/nccl.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "backends/cuda/cuda.h"
#include "tests/support/host_table.h"
#include "tests/unit/nccl/noting_nccl.h"

using namespace shardlab;
using namespace shardlab::nccl;
using namespace shardlab::nccl::noting;

TEST_CASE("B-16 without a failure communicators are destroyed, the newest first") {
  Stage stage;
  stage.session->end();
  CHECK(library().heard == Heard{"destroy 3", "destroy 2", "destroy 1"});
  stage.session.reset();
  CHECK(library().heard.size() == 3);
}

TEST_CASE("B-16 after a failure all are aborted in one group, and none is destroyed") {
  Stage stage;
  stage.peers.failed = true;
  stage.session->end();
  CHECK(library().heard == kAbortedAtOnce);
}

TEST_CASE("B-16 B-18 before NCCL 2.24.3 each abort has a thread, and no group") {
  Stage stage(22304);
  library().together = true;
  stage.session->abort();
  std::ranges::sort(library().heard);
  CHECK(library().heard == Heard{"abort 1", "abort 2", "abort 3"});
}

TEST_CASE("B-16 a rank that fails of its own tells the others before it aborts") {
  Stage stage;
  library().state = Result::kSystemError;
  CHECK(failure_of([&] { stage.session->drain("the sum"); }) == "the sum: an error");
  CHECK(library().heard == with_first("told: the sum: an error", kAbortedAtOnce));
}

TEST_CASE("B-16 a wait lasts no longer than the patience, and says for what it was") {
  Stage stage(kNewest, kSoon);
  library().over = false;
  const std::string reason = "rank 0 has waited 0.3 s for the sum";
  CHECK(failure_of([&] { stage.session->drain("the sum"); }) == reason);
  CHECK(library().heard == with_first("told: " + reason, kAbortedAtOnce));
}

TEST_CASE("B-16 a rank that is blocked inside of a launch is asked for by its session") {
  Stage stage(kNewest, kSoon);
  library().busy = true;
  for (backends::Patience since; library().aborted < 3 && since.waited() < 20 * kLong;)
    since.pause();
  library().busy = false;
  CHECK(library().aborted == 3);
  const std::lock_guard lock(library().mutex);
  REQUIRE(!library().heard.empty());
  CHECK(library().heard[0].starts_with("told: rank 0 has launched work behind collectives for"));
}

TEST_CASE("B-16 a call that NCCL refuses closes its group, is told and aborts") {
  Stage stage;
  library().answer = Result::kInvalidUsage;
  const std::string refused = "ncclAllReduce on rank 0: an error";
  CHECK(failure_of([&] { stage.post(stage.world, kSum); }) == refused);
  Heard expected{"group", "end of group", "told: " + refused};
  expected.insert(expected.end(), kAbortedAtOnce.begin(), kAbortedAtOnce.end());
  CHECK(library().heard == expected);
}

TEST_CASE("B-16 after a cut no communicator is made") {
  Stage stage;
  stage.session->cut();
  stage.session->abort();
  CHECK(library().heard == kAbortedAtOnce);
  CHECK(failure_of([&] { stage.session->join({}, 2, 0); }) == "ncclCommInitRankConfig: an error");
  CHECK(library().communicators == 3);
}

TEST_CASE("B-18 a rank makes a group itself whose signature its communicator has completed") {
  const Stage stage;
  const Comm pair = reinterpret_cast<Comm>(2);
  using Kind = GroupCall::Kind;
  const GroupCall more{.count = 5, .type = DataType::kFloat32};
  const GroupCall integers{.count = 4, .type = DataType::kInt32};
  const GroupCall largest{.count = 4, .type = DataType::kFloat32, .op = RedOp::kMax};
  const GroupCall from_0{.kind = Kind::kBroadcast, .count = 4, .peer = 0};
  const GroupCall from_1{.kind = Kind::kBroadcast, .count = 4, .peer = 1};
  const GroupCall to_0{.kind = Kind::kSend, .count = 4, .peer = 0};
  const std::vector<std::vector<GroupCall>> groups{
      {kSum},   {more}, {integers},     {largest},      {from_0},
      {from_1}, {to_0}, {kSum, from_0}, {from_0, kSum}, {kSum, kSum}};
  for (const Comm comm : {stage.world, pair}) {
    for (const auto& calls : groups) CHECK_FALSE(stage.makes_itself(comm, calls));
    for (const auto& calls : groups) CHECK(stage.makes_itself(comm, calls));
  }
  GroupCall elsewhere = kSum;
  elsewhere.from = &elsewhere;
  CHECK(stage.makes_itself(pair, {elsewhere}));
}

TEST_CASE("B-18 a group of more calls than may be in flight is never made by the rank itself") {
  const Stage stage;
  const std::vector<GroupCall> few(kMostInFlight, kSum), many(kMostInFlight + 1, kSum);
  for (const auto* calls : {&few, &many}) stage.makes_itself(stage.world, *calls);
  CHECK(stage.makes_itself(stage.world, few));
  CHECK_FALSE(stage.makes_itself(stage.world, many));
}

TEST_CASE("B-18 a rank that is far ahead of its device waits for it, and fails of its patience") {
  const Stage stage(kNewest, kSoon);
  stage.post(stage.world, kSum);
  library().over = false;
  const auto post_many = [&](std::uint64_t calls) {
    for (std::uint64_t i = 0; i < calls; ++i) stage.post(stage.world, kSum);
  };
  CHECK(failure_of([&] { post_many(kMostInFlight); }) == "nothing failed");
  library().over = true;
  CHECK(failure_of([&] { post_many(1); }) == "nothing failed");
  library().over = false;
  CHECK(failure_of([&] { post_many(2 * kMostInFlight); }) == "rank 0 has waited 0.3 s for the sum");
}

TEST_CASE("B-18 communicators block, so that NCCL makes no thread for a group of calls") {
  const Stage stage;
  CHECK(library().blocking);
}

TEST_CASE("B-18 nothing is aborted while a first call is inside of NCCL, and all after it") {
  Stage stage;
  library().heard.clear();
  library().inside = [&] {
    stage.session->cut();
    stage.peers.failed = true;
    const backends::Patience since;
    while (since.waited() < kSoon / 3 && library().aborted == 0) std::this_thread::yield();
  };
  CHECK(failure_of([&] { stage.post(stage.world, kSum); }) == "rank 1 failed");
  Heard expected{"group", "end of group"};
  expected.insert(expected.end(), kAbortedAtOnce.begin(), kAbortedAtOnce.end());
  CHECK(library().heard == expected);
}

TEST_CASE("B-18 a failure that is heard while a first call is inside ends the call after it") {
  Stage stage;
  library().inside = [&] { stage.session->cut(); };
  CHECK(failure_of([&] { stage.post(stage.world, kSum); }) == "the sum: an error");
  CHECK(library().aborted == 3);
}

TEST_CASE("B-18 a first call that does not come back is freed by aborting the rest") {
  Stage stage(kNewest, kSoon);
  library().heard.clear();
  library().inside = [rank = std::this_thread::get_id()] {
    while (std::this_thread::get_id() != rank && library().aborted < 2) std::this_thread::yield();
  };
  const Comm pair = reinterpret_cast<Comm>(2);
  const std::string reason = "rank 0 has waited 0.3 s for the sum";
  CHECK(failure_of([&] { stage.post(pair, kSum); }) == reason);
  std::ranges::sort(library().heard);
  CHECK(library().heard == Heard{"abort 1", "abort 2", "abort 3", "end of group", "end of group",
                                 "end of group", "group", "group", "group", "told: " + reason});
}

TEST_CASE(
    "B-18 a call that never comes back is left behind, and its process runs no other session") {
  CHECK(holds_in_a_child([] {
    Stage stage(kNewest, kSoon);
    library().heard.clear();
    library().inside = [rank = std::this_thread::get_id()] {
      while (std::this_thread::get_id() != rank) std::this_thread::yield();
    };
    const std::string reason = failure_of([&] { stage.post(stage.world, kSum); });
    stage.session.reset();
    const Heard expected{"group", "told: " + reason, "group", "abort 2", "abort 3", "end of group"};
    return reason == "rank 0 has waited 0.3 s for the sum" && library().heard == expected &&
           failure_of([&] { const Session another(stage.api, *stage.side, stage.peers, 0, 0); }) ==
               "rank 0 is still inside of NCCL, since an earlier run failed";
  }));
  CHECK(holds_in_a_child([] { return failure_of([] { const Stage first; }) == "nothing failed"; }));
}

TEST_CASE(
    "B-18 the thread that orders a device's stream ends after its callers have forgotten NCCL") {
  const auto device = cuda::make_cuda_device(cuda::host_table(), 0, cuda::HostFallback::kRefuse);
  auto side = std::make_unique<LocalSide>(*device);
  static int destroyed = 0;
  destroyed = 0;
  Api api = noting_api();
  api.EventCreateWithFlags = [](Event* event, unsigned int) {
    *event = reinterpret_cast<Event>(1);
    return CudaError::kSuccess;
  };
  api.StreamWaitEvent = [](Stream, Event, unsigned int) { return CudaError::kSuccess; };
  api.EventDestroy = [](Event) {
    ++destroyed;
    return CudaError::kSuccess;
  };
  side->order_before(api, nullptr);
  api = Api{};
  side.reset();
  CHECK(destroyed == 1);
}
