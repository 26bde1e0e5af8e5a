// NCCL and CUDA as programs meet them: launches that wait, communicators that do not block, errors
// of the device that stay, libraries that are too old, shapes that are seen once.
#include <doctest/doctest.h>

#include <chrono>
#include <cstdlib>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "backends/nccl/errand.h"
#include "backends/nccl/exchange.h"
#include "backends/nccl/library.h"
#include "tests/unit/nccl/noting_nccl.h"

using namespace shardlab;
using namespace shardlab::nccl;
using namespace shardlab::nccl::noting;

namespace {

GroupCall sum_of(std::size_t count) {
  GroupCall call = kSum;
  call.count = count;
  return call;
}

// Until all communicators but one are aborted, or too long.
void until_the_others_are_aborted() {
  for (const backends::Patience since; library().aborted < 2 && since.waited() < 10 * kLong;) {
    std::this_thread::yield();
  }
}

}  // namespace

TEST_CASE("B-18 a rank that stays inside of a launch is asked for, and the others are aborted") {
  Stage stage(kNewest, kSoon);
  stage.post(stage.world, kSum);
  library().heard.clear();
  library().inside = until_the_others_are_aborted;
  const std::string reason = failure_of([&] { stage.post(stage.world, kSum); });
  CHECK(reason == "the sum: an error");
  CHECK(library().aborted == 3);
  REQUIRE(library().heard.size() > 1);
  CHECK(library().heard[1].starts_with("told: rank 0 has launched work behind collectives for"));
}

TEST_CASE("B-18 a rank that never comes back from a launch ends with its process") {
  CHECK(holds_in_a_child([] {
    Stage stage(kNewest, kSoon / 10);
    stage.peers.ends_well = true;
    stage.post(stage.world, kSum);
    library().inside = [] {
      for (backends::Patience since; since.waited() < 10 * kLong;) since.pause();
    };
    stage.post(stage.world, kSum);
    return false;
  }));
}

TEST_CASE("B-18 calls in progress are polled, by the rank and by the thread of first calls") {
  const Stage stage;
  library().end = Result::kInProgress;
  for (const bool itself : {false, true}) {
    library().polls = 40;
    CHECK(stage.makes_itself(stage.world, {kSum}) == itself);
    CHECK(library().polls == 0);
  }
}

TEST_CASE("B-18 an error of the device that stays is told at once, whatever the patience") {
  const Stage stage(kNewest, std::chrono::minutes(10));
  library().heard.clear();
  library().broken = true;
  for (const backends::Patience since; library().aborted < 3 && since.waited() < 10 * kLong;) {
    std::this_thread::yield();
  }
  CHECK(library().aborted == 3);
  const std::lock_guard lock(library().mutex);
  REQUIRE(!library().heard.empty());
  CHECK(library().heard[0].starts_with("told: rank 0 has launched work behind collectives for"));
  CHECK(library().heard[0].ends_with("and an error"));
}

TEST_CASE("B-18 a process that has left something ends without the destructors of libraries") {
  CHECK(holds_in_a_child([]() -> bool {
    std::atexit([] { _exit(1); });
    keep_for_ever(std::make_shared<int>());
    std::exit(0);
  }));
}

TEST_CASE("B-18 libraries that may hang in an abort beside others are refused by their version") {
  CHECK_THROWS_WITH(check_version(21805), doctest::Contains("version 2.18.5 may hang"));
  CHECK_THROWS_WITH(check_version(21900), doctest::Contains("version 2.19.0 may hang"));
  CHECK_NOTHROW(check_version(21901));
}

TEST_CASE("B-18 shapes that are seen once share a thread, and are forgotten some day") {
  const Stage stage;
  constexpr std::size_t kRemembered = 4096;
  library().callers.clear();
  for (std::size_t i = 0; i < kRemembered; ++i) stage.post(stage.world, sum_of(1 + i));
  const std::set<std::thread::id> threads(library().callers.begin(), library().callers.end());
  CHECK(threads.size() == 1);
  CHECK(stage.makes_itself(stage.world, {sum_of(1)}));
  CHECK_FALSE(stage.makes_itself(stage.world, {sum_of(kRemembered + 1)}));
  CHECK_FALSE(stage.makes_itself(stage.world, {sum_of(1)}));
}

TEST_CASE("B-18 a message to a rank that has had one is no first call, whatever its length") {
  const Stage stage;
  const auto message = [](std::size_t count) {
    return GroupCall{.kind = GroupCall::Kind::kSend, .count = count, .peer = 1};
  };
  CHECK_FALSE(stage.makes_itself(stage.world, {message(4)}));
  CHECK(stage.makes_itself(stage.world, {message(9)}));
}

TEST_CASE("B-18 a reduce to one rank is NCCL's own") {
  const Stage stage;
  const GroupPlace place{{{0, 1}, 0, "world", 0}, stage.world, {0, 0}};
  const Tensor x = empty(*stage.device, Dims{4}, DType::kF32);
  backends::Call call(CollectiveKind::kReduce);
  call.x = &x;
  call.root = 1;
  call.device = stage.device.get();
  const Exchange exchange = plan_exchange(*stage.session, place, call, x.shape());
  REQUIRE(exchange.calls.size() == 1);
  CHECK(exchange.calls[0].kind == GroupCall::Kind::kReduce);
  CHECK(exchange.calls[0].peer == 1);
}
