// Calls that the session leaves to a thread of its own, since they may wait for other ranks inside
// of NCCL: over the double, which waits there and ends a process that breaks the rules.
#include <doctest/doctest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

#include "backends/nccl/errand.h"
#include "backends/nccl/local_side.h"
#include "tensor/cpu_device.h"
#include "tests/nccl/nccl_ranks.h"
#include "tests/support/local_tensor.h"
#include "tests/support/on_ranks.h"

using namespace shardlab;
using namespace shardlab::nccl;

TEST_CASE("B-18 nccl: equal small calls make one thread altogether, for the first of them") {
  const LongDeadline nobody_waits_for_ever;
  const auto texts = on_nccl_ranks(2, [](Rank& me) {
    for (int i = 0; i < 100; ++i) reduce_ones(me.world);
    me.check(counts().all_reduce == 100 && counts().elsewhere == 1, "threads of the session");
    me.check(threads_of_double() == 0, "threads of NCCL");
  });
  CHECK(joined(texts) == "");
}

TEST_CASE("B-18 nccl: a rank that fails before its first call frees those that wait in theirs") {
  const LongDeadline nobody_waits_for_ever;
  for (const char* version : {"22809", "22304"}) {
    setenv("SHARDLAB_NCCL_DOUBLE_VERSION", version, 1);
    const auto texts = on_nccl_ranks(3, [](Rank& me) {
      const auto other = me.world.split(0, me.rank, "other");
      on_all_reduce() = [&] { me.common.turn += 1; };
      if (me.rank < 2) return reduce_ones(*other);
      await_turn(me, 2);
      me.world.abort(Error(ErrorKind::kValue, "a fault"));
    });
    CHECK(joined(texts) == joined({"rank 2 failed", "rank 2 failed", ""}));
  }
  unsetenv("SHARDLAB_NCCL_DOUBLE_VERSION");
}

TEST_CASE("B-18 nccl: a first call that nobody answers ends with the session's patience") {
  const auto texts = on_nccl_ranks(2, [](Rank& me) {
    if (me.rank == 0) return reduce_ones(me.world);
    // It computes, and its session hears meanwhile.
    me.session.bell()->ring();
    while (me.common.failed_rank == 0) std::this_thread::yield();
  });
  CHECK(joined(texts) ==
        joined({"rank 0 has waited 0.5 s for all_reduce(f32[4], sum) on group world", ""}));
}

namespace {

// The error of a process that has left something behind.
std::string second_session(const Rank& me) {
  const SharedPeers peers(me.common);
  const auto side = std::make_unique<LocalSide>(plain_device());
  try {
    const Session session(double_api(), *side, peers, me.rank, static_cast<int>(me.rank));
  } catch (const Error& error) {
    return error.text();
  }
  return "a second session";
}

// Two ranks, each in a first call that waits for the other: on two groups, in another order.
Texts crosswise(const std::function<void(Rank&, Communicator&)>& body) {
  const LongDeadline nobody_ends_the_process;
  return on_nccl_ranks(2, [&](Rank& me) {
    const auto a = me.world.split(0, me.rank, "a");
    const auto b = me.world.split(0, me.rank, "b");
    on_all_reduce() = [&] { me.common.turn += 1; };
    body(me, me.rank == 0 ? *a : *b);
  });
}

}  // namespace

TEST_CASE(
    "B-18 nccl: first calls that wait for each other crosswise are ended by aborting the rest") {
  const auto texts = crosswise([](Rank& me, Communicator& group) {
    try {
      reduce_ones(group);
    } catch (const Error& error) {
      me.wrong += error.summary() + "; " + second_session(me);
    }
  });
  for (std::size_t rank = 0; rank < 2; ++rank) {
    CAPTURE(texts[rank]);
    const auto waited = fmt::format(
        "rank {} has waited 0.5 s for all_reduce(f32[4], sum) on group {}; a second session", rank,
        rank == 0 ? "a" : "b");
    const auto told = fmt::format("rank {} failed; a second session", 1 - rank);
    CHECK((texts[rank] == waited || texts[rank] == told));
  }
}

TEST_CASE("B-18 nccl: a first call that never comes back is left behind, and the process ends") {
  const LongDeadline nobody_ends_the_process;
  const auto texts = on_nccl_ranks(2, [](Rank& me) {
    if (me.rank == 1) {
      // It neither calls nor hears before the other rank has failed.
      await_turn(me, 1);
      return;
    }
    const auto told = [&] {
      try {
        reduce_ones(me.world);
      } catch (const Error& error) {
        return error.summary();
      }
      return std::string("no failure");
    };
    me.wrong = told() + "; ";
    me.check(told() == "rank 0 failed", "the session goes on");
    me.wrong += second_session(me);
    me.common.turn = 1;
  });
  CHECK(texts[0] ==
        "rank 0 has waited 0.5 s for all_reduce(f32[4], sum) on group world; rank 0 is still "
        "inside of NCCL, since an earlier run failed\n  fix         end the process, which frees "
        "the other ranks, and start the job again");
  CHECK(texts[1] == "");
}

TEST_CASE("B-18 nccl: a process that dies in its first call frees the one that waits crosswise") {
  const auto texts = crosswise([](Rank& me, Communicator& group) {
    std::thread killer;
    if (me.rank == 1) {
      killer = std::thread([&] {
        await_turn(me, 2);
        me.common.failed_rank = 2;
        kill(getpid(), SIGKILL);
      });
    }
    reduce_ones(group);
  });
  CHECK(joined(texts) == joined({"rank 1 failed", "died of signal 9"}));
}

TEST_CASE("B-18 nccl: a failure ends calls in flight that the rank has made itself") {
  const LongDeadline nobody_waits_for_ever;
  const auto texts = on_nccl_ranks(2, [](Rank& me) {
    reduce_ones(me.world);
    me.session.bell()->ring();
    if (me.rank == 1) {
      await_turn(me, 1);
      return me.world.abort(Error(ErrorKind::kValue, "a fault"));
    }
    const Tensor x = local_tensor({4}, DType::kF32, Values(4, 1));
    // The news may come in the middle of any of them.
    while (true) {
      me.world.all_reduce(x, ReduceOp::kSum, Issue::kAsync);
      me.common.turn = 1;
    }
  });
  CHECK(joined(texts) == joined({"rank 1 failed", ""}));
}

TEST_CASE("B-18 nccl: a rank that is far ahead of the others never waits inside of a launch") {
  const auto texts = on_nccl_ranks(2, [](Rank& me) {
    reduce_ones(me.world);
    if (me.rank == 1) {
      me.session.bell()->ring();
      while (me.common.failed_rank == 0) std::this_thread::yield();
      return;
    }
    const Tensor x = local_tensor({4}, DType::kF32, Values(4, 1));
    for (int i = 0; i < 2'000; ++i) me.world.all_reduce(x, ReduceOp::kSum, Issue::kAsync);
  });
  CHECK(joined(texts) ==
        joined({"rank 0 has waited 0.5 s for all_reduce(f32[4], sum) on group world", ""}));
}

TEST_CASE("B-18 nccl: a split that another rank does not come to is cut") {
  const auto texts = on_nccl_ranks(2, [](Rank& me) {
    if (me.rank == 1) {
      await_turn(me, 1);
      return me.world.abort(Error(ErrorKind::kValue, "a fault"));
    }
    me.common.turn = 1;
    me.session.split(me.comm, 0, 0);
  });
  CHECK(joined(texts) == joined({"rank 1 failed", ""}));
}

TEST_CASE("B-18 nccl: a start that another rank does not come to is left behind") {
  const LongDeadline nobody_ends_the_process;
  Shared& common = shared();
  const auto texts = on_processes(2, [&, id = double_id()](int rank) {
    if (rank == 1) return std::string();
    RankContext context;
    context.device = &plain_device();
    set_current_rank(&context);
    const SharedPeers peers(common);
    const auto side = std::make_unique<LocalSide>(plain_device());
    std::string told;
    {
      Session session(double_api(), *side, peers, rank, 0, std::chrono::milliseconds(100));
      try {
        session.join(id, 2, rank);
      } catch (const Error& error) {
        told = error.summary();
      }
    }
    return told + (something_is_left() ? "; left" : "; nothing is left");
  });
  CHECK(texts == Texts{"rank 0 has waited 0.1 s for ncclCommInitRankConfig; left", ""});
}
