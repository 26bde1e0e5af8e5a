// The double itself: it computes the results of NCCL, and reports calls that NCCL forbids.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/nccl/double_ranks.h"

using namespace shardlab;
using namespace shardlab::nccl;
using namespace shardlab::on_double;

TEST_CASE("the double: sums, maxima and products of all ranks, in rank order") {
  const auto texts = on_ranks_of_double(3, [](Rank& me) {
    // ((1e8 + 1) - 1e8) is 0 in f32, 1 in another order.
    const float terms[] = {1e8f, 1.0f, -1e8f};
    float x[2] = {terms[me.rank], static_cast<float>(me.rank)};
    float y[2];
    std::string wrong;
    me.api.AllReduce(x, y, 2, DataType::kFloat32, RedOp::kSum, me.comm, me.stream);
    wrong += unless(me.finish() == Result::kSuccess && y[0] == 0 && y[1] == 3, "sum ");
    me.api.AllReduce(x, y, 2, DataType::kFloat32, RedOp::kAvg, me.comm, me.stream);
    wrong += unless(me.finish() == Result::kSuccess && y[1] == 1, "avg ");
    const std::int64_t a[1] = {me.rank + 2};
    std::int64_t b[1];
    me.api.AllReduce(a, b, 1, DataType::kInt64, RedOp::kProd, me.comm, me.stream);
    wrong += unless(me.finish() == Result::kSuccess && b[0] == 24, "product ");
    return wrong;
  });
  CHECK(texts == Texts(3));
}

TEST_CASE("the double: a maximum leaves NaN out, as NCCL's does") {
  const auto texts = on_ranks_of_double(2, [](Rank& me) {
    const float x = me.rank == 0 ? NAN : 1.0f;
    float y = 0;
    me.api.AllReduce(&x, &y, 1, DataType::kFloat32, RedOp::kMax, me.comm, me.stream);
    return unless(me.finish() == Result::kSuccess && y == 1, "NaN came through");
  });
  CHECK(texts == Texts(2));
}

TEST_CASE("the double: gathers, scatters and broadcasts more than a ring holds") {
  const auto texts = on_ranks_of_double(3, [](Rank& me) {
    constexpr std::size_t kCount = 100'000;
    std::vector<std::int32_t> x(kCount), all(3 * kCount), part(kCount);
    for (std::size_t i = 0; i < kCount; ++i) x[i] = static_cast<std::int32_t>(i) * 3 + me.rank;
    me.api.AllGather(x.data(), all.data(), kCount, DataType::kInt32, me.comm, me.stream);
    if (me.finish() != Result::kSuccess) return me.error();
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
      wrong += all[i] != static_cast<std::int32_t>(i % kCount * 3 + i / kCount);
    }
    me.api.ReduceScatter(all.data(), part.data(), kCount, DataType::kInt32, RedOp::kSum, me.comm,
                         me.stream);
    if (me.finish() != Result::kSuccess) return me.error();
    for (std::size_t i = 0; i < kCount; ++i) {
      wrong += part[i] != static_cast<std::int32_t>(i * 9) + 3 * me.rank;
    }
    me.api.Broadcast(x.data(), x.data(), kCount, DataType::kInt32, 2, me.comm, me.stream);
    if (me.finish() != Result::kSuccess) return me.error();
    for (std::size_t i = 0; i < kCount; ++i) wrong += x[i] != static_cast<std::int32_t>(i * 3 + 2);
    return unless(wrong == 0, "values");
  });
  CHECK(texts == Texts(3));
}

TEST_CASE("the double: sends and receives of one group meet, without a group they do not") {
  const auto exchange = [](Rank& me) {
    const int peer = 1 - me.rank;
    const std::int32_t x = 10 + me.rank;
    std::int32_t y = 0;
    me.api.Send(&x, 1, DataType::kInt32, peer, me.comm, me.stream);
    me.poll();
    me.api.Recv(&y, 1, DataType::kInt32, peer, me.comm, me.stream);
    return me.finish() == Result::kSuccess && y == 10 + peer ? "" : me.error();
  };
  const auto grouped = on_ranks_of_double(2, [&](Rank& me) {
    const std::int32_t x = 10 + me.rank;
    std::int32_t y = 0;
    me.api.GroupStart();
    me.api.Send(&x, 1, DataType::kInt32, 1 - me.rank, me.comm, me.stream);
    me.api.Recv(&y, 1, DataType::kInt32, 1 - me.rank, me.comm, me.stream);
    if (me.api.GroupEnd() != Result::kInProgress) return std::string("not in progress");
    return me.finish() == Result::kSuccess && y == 11 - me.rank ? "" : me.error();
  });
  CHECK(grouped == Texts(2));
  const auto alone = on_ranks_of_double(2, exchange);
  for (const std::string& text : alone) {
    CHECK(text.find("waits in ncclSend(1 x ncclInt32, to rank") != std::string::npos);
    CHECK(text.find("nothing moved for") != std::string::npos);
  }
}

TEST_CASE("the double: other counts, dtypes, ops, roots and calls are reported on both ends") {
  using Body = Result (*)(Rank&, float*, float*);
  struct Row {
    const char* expected;
    Body body;
  };
  const Row rows[] = {
      {"ncclAllReduce(2 x ncclFloat32, ncclSum), call 1",
       [](Rank& me, float* x, float* y) {
         return me.api.AllReduce(x, y, me.rank == 0 ? 1 : 2, DataType::kFloat32, RedOp::kSum,
                                 me.comm, me.stream);
       }},
      {"ncclAllReduce(1 x ncclInt32, ncclSum), call 1",
       [](Rank& me, float* x, float* y) {
         return me.api.AllReduce(x, y, 1, me.rank == 0 ? DataType::kFloat32 : DataType::kInt32,
                                 RedOp::kSum, me.comm, me.stream);
       }},
      {"ncclAllReduce(1 x ncclFloat32, ncclMax), call 1",
       [](Rank& me, float* x, float* y) {
         return me.api.AllReduce(x, y, 1, DataType::kFloat32,
                                 me.rank == 0 ? RedOp::kSum : RedOp::kMax, me.comm, me.stream);
       }},
      {"ncclAllGather(1 x ncclFloat32), call 1",
       [](Rank& me, float* x, float* y) {
         return me.rank == 0
                    ? me.api.AllReduce(x, y, 1, DataType::kFloat32, RedOp::kSum, me.comm, me.stream)
                    : me.api.AllGather(x, y, 1, DataType::kFloat32, me.comm, me.stream);
       }},
  };
  for (const Row& row : rows) {
    const auto texts = on_ranks_of_double(2, [&](Rank& me) {
      float x[2] = {1, 2};
      float y[4];
      row.body(me, x, y);
      return me.finish() == Result::kRemoteError ? me.error() : "no error";
    });
    for (const std::string& text : texts) CHECK(text.find(row.expected) != std::string::npos);
  }
}

TEST_CASE("the double: calls out of turn are refused") {
  const auto texts = on_ranks_of_double(2, [](Rank& me) {
    float x = 1;
    float y = 0;
    std::string wrong;
    const auto reduce = [&] {
      return me.api.AllReduce(&x, &y, 1, DataType::kFloat32, RedOp::kSum, me.comm, me.stream);
    };
    wrong += unless(me.api.GroupEnd() == Result::kInvalidUsage, "end without start; ");
    wrong += unless(reduce() == Result::kInProgress, "in progress; ");
    wrong += unless(reduce() == Result::kInvalidUsage, "not polled; ");
    Comm made = nullptr;
    wrong += unless(me.finish() == Result::kSuccess && y == 2, "sum; ");
    wrong += unless(me.api.AllReduce(&x, &y, 1, DataType::kFloat32, RedOp::kSum, me.comm,
                                     nullptr) == Result::kInvalidArgument,
                    "no stream; ");
    wrong += unless(
        me.api.Send(&x, 1, DataType::kFloat32, 2, me.comm, me.stream) == Result::kInvalidArgument,
        "no such peer; ");
    wrong += unless(me.api.Send(nullptr, 1, DataType::kFloat32, 0, me.comm, me.stream) ==
                        Result::kInvalidArgument,
                    "null; ");
    me.api.GroupStart();
    wrong += unless(me.api.AllReduce(&x, nullptr, 1, DataType::kFloat32, RedOp::kSum, me.comm,
                                     me.stream) == Result::kInvalidArgument,
                    "null in group; ");
    wrong += unless(me.api.GroupEnd() == Result::kInvalidArgument, "the group knows; ");
    wrong += unless(me.api.CommAbort(me.comm) == Result::kSuccess, "abort; ");
    wrong += unless(reduce() == Result::kInvalidUsage, "after abort; ");
    wrong += unless(me.api.CommSplit(me.comm, 0, 0, &made, nullptr) == Result::kInvalidUsage,
                    "split after abort; ");
    me.comm = nullptr;
    return wrong;
  });
  CHECK(texts == Texts(2));
}

TEST_CASE("the double: two communicators in another order on one stream do not end") {
  const auto texts = on_ranks_of_double(2, [](Rank& me) {
    Comm other = nullptr;
    me.api.CommSplit(me.comm, 0, 0, &other, nullptr);
    if (me.poll() != Result::kSuccess || me.poll(other) != Result::kSuccess) return me.error();
    const Comm order[] = {me.rank == 0 ? me.comm : other, me.rank == 0 ? other : me.comm};
    float x = 1;
    float y[2];
    for (int i = 0; i < 2; ++i) {
      me.api.AllReduce(&x, &y[i], 1, DataType::kFloat32, RedOp::kSum, order[i], me.stream);
      me.poll(order[i]);
    }
    me.api.StreamSynchronize(me.stream);
    std::string text;
    for (const Comm comm : order) {
      if (me.poll(comm) == Result::kRemoteError) text += me.api.GetLastError(comm);
    }
    me.api.CommAbort(other);
    return text;
  });
  for (const std::string& text : texts) {
    CHECK(text.find("waits in ncclAllReduce(1 x ncclFloat32, ncclSum), call 1 for rank") !=
          std::string::npos);
  }
}

TEST_CASE("the double: split by colour and key; no colour, no communicator; not with calls on") {
  const auto texts = on_ranks_of_double(4, [](Rank& me) {
    std::string wrong;
    const int colors[] = {0, 1, kNoColor, 0};
    Comm half = nullptr;
    wrong += unless(
        me.api.CommSplit(me.comm, colors[me.rank], -me.rank, &half, nullptr) == Result::kInProgress,
        "in progress; ");
    wrong += unless(me.poll() == Result::kSuccess, "split; ");
    wrong += unless((half == nullptr) == (me.rank == 2), "members; ");
    if (half == nullptr) return wrong;
    wrong += unless(me.poll(half) == Result::kSuccess, "start; ");
    const std::int32_t mine = me.rank;
    std::int32_t all[2] = {-1, -1};
    me.api.AllGather(&mine, all, 1, DataType::kInt32, half, me.stream);
    me.api.StreamSynchronize(me.stream);
    wrong += unless(me.poll(half) == Result::kSuccess, "gather; ");
    // Ordered by key, which is against the order of ranks.
    wrong += me.rank == 1 ? unless(all[0] == 1, "alone; ")
                          : unless(all[0] == 3 && all[1] == 0, "order; ");
    wrong += unless(me.api.CommFinalize(half) == Result::kInProgress, "finalize; ");
    wrong += unless(me.poll(half) == Result::kSuccess, "finalized; ");
    wrong += unless(me.api.CommDestroy(half) == Result::kSuccess, "destroy; ");
    wrong += unless(me.api.CommDestroy(half) == Result::kInvalidUsage, "destroyed twice; ");
    return wrong;
  });
  CHECK(texts == Texts(4));
}

TEST_CASE("the double: a missing rank and two ranks on one device are named at the start") {
  Shared& common = shared();
  double_api().GetUniqueId(&common.id);
  const auto missing = on_processes(2, [&](int rank) {
    Rank me(common, 3, rank, rank);
    return std::string("no end");
  });
  for (const std::string& text : missing) {
    CHECK(text.find("ranks 2 of 3 have not come; NCCL would wait for ever") != std::string::npos);
  }
  double_api().GetUniqueId(&common.id);
  const auto doubled = on_processes(2, [&](int rank) {
    Rank me(common, 2, rank, 5);
    return me.result == Result::kSuccess ? "no error" : me.error();
  });
  CHECK(doubled == Texts(2, "ranks 0 and 1 are both on device 5"));
}

TEST_CASE("the double: results come late, and an input may not be touched before they do") {
  const auto texts = on_ranks_of_double(2, [](Rank& me) {
    std::vector<float> x(1 << 18, 1.0f);
    std::vector<float> y(1 << 18, 7.0f);
    Event done = nullptr;
    me.api.EventCreateWithFlags(&done, kEventDisableTiming);
    // Nothing is over before rank 1 has come, which is after rank 0 has touched its input.
    while (me.rank == 1 && me.common.turn == 0) continue;
    me.api.AllReduce(x.data(), y.data(), x.size(), DataType::kFloat32, RedOp::kSum, me.comm,
                     me.stream);
    me.api.EventRecord(done, me.stream);
    // Neither the old value nor the result may be relied upon.
    if (y.back() == 7.0f) return std::string("the old value is still there");
    if (me.rank == 0) x[0] = 5;
    me.common.turn = 1;
    me.api.StreamSynchronize(me.stream);
    const bool reached = me.api.EventQuery(done) == CudaError::kSuccess;
    me.api.EventDestroy(done);
    if (!reached) return std::string("the event was not reached");
    return me.poll() == Result::kRemoteError ? me.error() : "no error";
  });
  CAPTURE(texts[0]);
  CHECK(texts[0].find("rank 0 wrote to the input of ncclAllReduce(262144 x ncclFloat32, ncclSum), "
                      "call 1 in flight") != std::string::npos);
}

TEST_CASE("the double: who aborts waits for the ranks of its node, which wait on, as with NCCL") {
  const auto texts = on_ranks_of_double(2, [](Rank& me) {
    float x = 1;
    float y = 0;
    if (me.rank == 1) {
      me.api.CommAbort(std::exchange(me.comm, nullptr));
      me.common.turn = 1;
      return std::string();
    }
    me.api.AllReduce(&x, &y, 1, DataType::kFloat32, RedOp::kSum, me.comm, me.stream);
    for (int i = 0; i < 1'000; ++i) std::this_thread::yield();
    if (me.common.turn != 0) return std::string("it did not wait");
    me.finish();
    return std::string("no end");
  });
  CHECK(texts[0].find("waits in ncclAllReduce(1 x ncclFloat32, ncclSum), call 1 for rank 1") !=
        std::string::npos);
}

TEST_CASE("the double: destroying waits for the ranks of the node, and for no others") {
  const LongDeadline nobody_waits_for_ever;
  const auto together = on_ranks_of_double(2, [](Rank& me) {
    std::string wrong;
    if (me.rank == 0) {
      for (int i = 0; i < 1'000; ++i) std::this_thread::yield();
      wrong = unless(me.common.turn == 0, "the other did not wait");
    }
    me.api.CommDestroy(std::exchange(me.comm, nullptr));
    me.common.turn = 1;
    return wrong;
  });
  CHECK(together == Texts(2));
  Shared& common = shared();
  double_api().GetUniqueId(&common.id);
  const auto apart = on_processes(2, [&](int rank) {
    setenv("SHARDLAB_HOST", rank == 0 ? "one" : "other", 1);
    Rank me(common, 2, rank, rank);
    while (rank == 0 && common.turn == 0) continue;
    me.api.CommDestroy(std::exchange(me.comm, nullptr));
    common.turn = 1;
    return std::string();
  });
  CHECK(apart == Texts(2));
}

TEST_CASE("the double: aborting waits for the work of other communicators, unless all are told") {
  const auto aborted = [](Rank& me, bool grouped) {
    Comm other = nullptr;
    me.api.CommSplit(me.comm, 0, 0, &other, nullptr);
    if (me.poll() != Result::kSuccess || me.poll(other) != Result::kSuccess) return me.error();
    float x = 1;
    float y = 0;
    if (me.rank == 0) {
      me.api.AllReduce(&x, &y, 1, DataType::kFloat32, RedOp::kSum, other, me.stream);
    }
    if (grouped) me.api.GroupStart();
    me.api.CommAbort(std::exchange(me.comm, nullptr));
    me.api.CommAbort(other);
    if (grouped) me.api.GroupEnd();
    return std::string();
  };
  const auto alone = on_ranks_of_double(2, [&](Rank& me) { return aborted(me, false); });
  // The double ends the process for the abort, or for the call that it waits for.
  CHECK(alone[0].find("NCCL would wait for ever") != std::string::npos);
  {
    const LongDeadline nobody_waits_for_ever;
    const auto grouped = on_ranks_of_double(2, [&](Rank& me) { return aborted(me, true); });
    CHECK(grouped == Texts(2));
  }
  setenv("SHARDLAB_NCCL_DOUBLE_VERSION", "22304", 1);
  const auto older = on_ranks_of_double(2, [&](Rank& me) { return aborted(me, true); });
  unsetenv("SHARDLAB_NCCL_DOUBLE_VERSION");
  CHECK(older[0].find("NCCL would wait for ever") != std::string::npos);
}

TEST_CASE("the double: a group that is left open only queues what comes later") {
  const auto texts = on_ranks_of_double(2, [](Rank& me) {
    float x = 1;
    float y = 0;
    me.api.GroupStart();
    me.api.GroupStart();
    me.api.AllReduce(&x, &y, 1, DataType::kFloat32, RedOp::kSum, me.comm, me.stream);
    me.api.GroupEnd();
    const std::string wrong = unless(me.finish() == Result::kSuccess && y == 0, "it was called");
    me.api.GroupEnd();
    return wrong + unless(me.finish() == Result::kSuccess && y == 2, "it was not called");
  });
  CHECK(texts == Texts(2));
}
