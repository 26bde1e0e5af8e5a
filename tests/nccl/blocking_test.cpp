// The double's communicators that block: the calls that wait for other ranks, the end of such a
// wait, and the calls that are forbidden meanwhile.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>
#include <cstdint>

#include <atomic>
#include <string>
#include <thread>
#include <utility>

#include "tests/nccl/double_ranks.h"

using namespace shardlab;
using namespace shardlab::nccl;
using namespace shardlab::on_double;

TEST_CASE("the double: a blocking call waits where it reaches the others for the first time") {
  const LongDeadline nobody_waits_for_ever;
  const auto texts = on_ranks_of_double(
      3,
      [](Rank& me) {
        std::string wrong;
        const auto reduce = [&](std::size_t count) {
          wrong += unless(me.all_reduce(count) == Result::kSuccess, "error; ");
          me.common.turn += 1;
        };
        // Rank 2 comes last, and the others have had time to return.
        const auto held_up = [&](int turn, const char* what) {
          await_turn(me.common, turn);
          for (int i = 0; i < 1'000; ++i) std::this_thread::yield();
          wrong += unless(me.common.turn == turn, what);
        };
        if (me.rank == 2) held_up(0, "the first call did not wait; ");
        reduce(4);
        await_turn(me.common, 3);
        if (me.rank == 2) held_up(5, "the second call waited; ");
        reduce(4);
        await_turn(me.common, 6);
        if (me.rank == 2) held_up(6, "the first of another count did not wait; ");
        reduce(5);
        return wrong + unless(me.finish() == Result::kSuccess && me.sums[4] == 3, "sum; ");
      },
      Calls::kBlock);
  CHECK(texts == Texts(3));
}

TEST_CASE("the double: a blocking send waits for its receiver, and for nobody else") {
  const LongDeadline nobody_waits_for_ever;
  const auto texts = on_ranks_of_double(
      3,
      [](Rank& me) {
        std::int32_t x = 7 + me.rank;
        if (me.rank == 2) {
          await_turn(me.common, 2);
          return std::string();
        }
        std::string wrong;
        if (me.rank == 1) {
          for (int i = 0; i < 1'000; ++i) std::this_thread::yield();
          wrong += unless(me.common.turn == 0, "the sender did not wait; ");
          me.api.Recv(&x, 1, DataType::kInt32, 0, me.comm, me.stream);
        } else {
          me.api.Send(&x, 1, DataType::kInt32, 1, me.comm, me.stream);
        }
        me.common.turn += 1;
        return wrong + unless(me.finish() == Result::kSuccess && x == 7, "value; ");
      },
      Calls::kBlock);
  CHECK(texts == Texts(3));
}

TEST_CASE("the double: a blocking call hears of ranks that abort, end or die before they come") {
  for (const std::string how : {"abort", "destroy", "kill"}) {
    const LongDeadline nobody_waits_for_ever;
    const auto texts = on_ranks_of_double(
        2,
        [&](Rank& me) {
          if (me.rank == 0) {
            me.common.turn = 1;
            const Result result = me.all_reduce(4);
            const std::string error = me.error();
            me.api.CommAbort(std::exchange(me.comm, nullptr));
            return unless(result == Result::kRemoteError, "no error; ") + error;
          }
          await_turn(me.common, 1);
          for (int i = 0; i < 1'000; ++i) std::this_thread::yield();
          if (how == "kill") kill(getpid(), SIGKILL);
          (how == "abort" ? me.api.CommAbort : me.api.CommDestroy)(std::exchange(me.comm, nullptr));
          return std::string();
        },
        Calls::kBlock);
    CHECK(texts == Texts{"rank 1 has left", how == "kill" ? "died of signal 9" : ""});
  }
}

TEST_CASE("the double: a blocking split and start hear of ranks that end before they come") {
  const LongDeadline nobody_waits_for_ever;
  const auto split = on_ranks_of_double(
      2,
      [](Rank& me) {
        Comm made = nullptr;
        if (me.rank == 0 && me.api.CommSplit(me.comm, 0, 0, &made, nullptr) == Result::kSuccess) {
          return std::string("it was split");
        }
        const std::string error = me.error();
        me.api.CommAbort(std::exchange(me.comm, nullptr));
        return error;
      },
      Calls::kBlock);
  CHECK(split == Texts{"rank 1 has left", ""});
  Shared& common = shared();
  double_api().GetUniqueId(&common.id);
  const auto start = on_processes(2, [&](int rank) {
    const Api& api = double_api();
    Config config;
    config.blocking = 1;
    Comm comm = nullptr;
    // Rank 2 never comes, and rank 1 dies as soon as it has.
    if (rank == 1) {
      std::thread([&comm] {
        while (std::atomic_ref(comm) == nullptr) std::this_thread::yield();
        kill(getpid(), SIGKILL);
      }).detach();
    }
    api.CommInitRankConfig(&comm, 3, common.id, rank, &config);
    return std::string(api.GetLastError(comm));
  });
  CHECK(start[0] == "rank 1 has left");
  CHECK(start[1] == "died of signal 9");
}

TEST_CASE("the double: no call, and no abort, while another thread is inside of the communicator") {
  const LongDeadline nobody_waits_for_ever;
  using Second = void (*)(Rank&);
  struct Row {
    const char* call;
    Second second;
  };
  const Row rows[] = {
      {"ncclCommAbort", [](Rank& me) { me.api.CommAbort(me.comm); }},
      {"ncclCommDestroy", [](Rank& me) { me.api.CommDestroy(me.comm); }},
      {"ncclCommGetAsyncError", [](Rank& me) { me.poll(); }},
      {"a collective, a send or a receive", [](Rank& me) { me.all_reduce(8); }},
  };
  for (const Row& row : rows) {
    const auto texts = on_ranks_of_double(
        2,
        [&](Rank& me) {
          // The ranks wait for each other crosswise until rank 0 is gone.
          if (me.rank == 1) {
            me.all_reduce(4);
            me.api.CommAbort(std::exchange(me.comm, nullptr));
            return std::string();
          }
          std::thread first([&] {
            me.api.GroupStart();
            me.api.Send(me.ones.data(), 1, DataType::kFloat32, 1, me.comm, me.stream);
            me.common.turn = 1;
            me.api.GroupEnd();
          });
          await_turn(me.common, 1);
          await_call(me.comm);
          row.second(me);
          first.join();
          return std::string("nothing was told");
        },
        Calls::kBlock);
    CHECK(texts[0] == fmt::format("nccl double: rank 0: {} while another thread is in ncclGroupEnd "
                                  "of the same communicator\n",
                                  row.call));
  }
}

TEST_CASE("the double: NCCL makes a thread for each group that does not block, and none else") {
  const auto polled = on_ranks_of_double(2, [](Rank& me) {
    const int before = threads_of_double();
    for (int i = 0; i < 3; ++i) {
      me.all_reduce(4);
      me.finish();
    }
    return unless(before == 1 && threads_of_double() == 4, "not one each");
  });
  CHECK(polled == Texts(2));
  const auto blocking = on_ranks_of_double(
      2,
      [](Rank& me) {
        for (int i = 0; i < 3; ++i) me.all_reduce(4);
        me.finish();
        return unless(threads_of_double() == 0, "one was made");
      },
      Calls::kBlock);
  CHECK(blocking == Texts(2));
}

TEST_CASE("the double: a launch waits for the device where 1,024 are pending") {
  const LongDeadline nobody_waits_for_ever;
  const auto texts = on_ranks_of_double(
      2,
      [](Rank& me) {
        me.all_reduce(4);
        me.finish();
        // Nothing is over before rank 1 calls.
        for (int i = 1; i <= 1'025 && me.rank == 0; ++i) {
          me.all_reduce(4);
          me.common.turn = i;
        }
        if (me.rank == 0) return std::string();
        await_turn(me.common, 1'024);
        for (int i = 0; i < 1'000; ++i) std::this_thread::yield();
        const std::string wrong = unless(me.common.turn == 1'024, "no launch waited");
        for (int i = 0; i < 1'025; ++i) me.all_reduce(4);
        return wrong;
      },
      Calls::kBlock);
  CHECK(texts == Texts(2));
}
