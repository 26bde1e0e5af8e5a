// The communicator over the double, in processes that have only each other's NCCL: routes, ops that
// NCCL lacks, groups, failures. The promises of every backend are tested in tests/conformance.
#include <doctest/doctest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backends/nccl/local_side.h"
#include "backends/shared/reduce.h"
#include "tensor/cpu_device.h"
#include "tests/nccl/nccl_ranks.h"
#include "tests/support/local_tensor.h"
#include "tests/support/on_ranks.h"

using namespace shardlab;
using namespace shardlab::nccl;

TEST_CASE("nccl: even pieces by the collective, uneven ones by the route that moves less") {
  const auto gathered = [](Rank& me) {
    const Lengths64 lengths{4, 4, 4, me.size == 4 ? 3 : 4};
    const auto mine = lengths[static_cast<std::size_t>(me.rank)];
    const Tensor x =
        local_tensor({2, mine}, DType::kF32,
                     Values(static_cast<std::size_t>(2 * mine), static_cast<double>(me.rank)));
    const Tensor y = me.world.all_gather(x, 1, lengths, Issue::kWait);
    const Values row{0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3};
    Values expected = row;
    expected.insert(expected.end(), row.begin(), row.end());
    me.check(values_of(y) == expected, "gathered values");
    // Rank r keeps lengths[r] columns of a sum over ranks: column c brings rank * 100 + c.
    Values columns;
    for (int r = 0; r < 2; ++r) {
      for (int c = 0; c < 15; ++c) columns.push_back(static_cast<double>(me.rank * 100 + c));
    }
    const Tensor z = me.world.reduce_scatter(local_tensor({2, 15}, DType::kF32, columns), 1,
                                             lengths, ReduceOp::kSum, Issue::kWait);
    Values kept;
    for (int r = 0; r < 2; ++r) {
      for (int c = 0; c < mine; ++c) {
        kept.push_back(600.0 + 4.0 * static_cast<double>(me.rank * 4 + c));
      }
    }
    me.check(values_of(z) == kept, "scattered sums");
  };
  const auto one_host = on_nccl_ranks(4, [&](Rank& me) {
    gathered(me);
    me.check(counts().all_gather == 0 && counts().reduce_scatter == 0, "no collective");
    me.check(counts().send == 6, "three sends each");
  });
  CHECK(joined(one_host) == "");
  const auto two_hosts = on_nccl_ranks(4, {0, 0, 1, 1}, [&](Rank& me) {
    gathered(me);
    me.check(counts().all_gather == 1 && counts().reduce_scatter == 1, "padded collectives");
    me.check(counts().send == 0, "no sends");
  });
  CHECK(joined(two_hosts) == "");
}

TEST_CASE("nccl: even pieces by NCCL's own collectives, straight into the result") {
  const auto texts = on_nccl_ranks(3, [](Rank& me) {
    const Lengths64 lengths(3, 2);
    const auto value = static_cast<double>(me.rank);
    const Tensor x = local_tensor({2, 2}, DType::kI16, Values(4, value));
    const Tensor y = me.world.all_gather(x, 0, lengths, Issue::kWait);
    me.check(values_of(y) == Values{0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2}, "values");
    me.check(counts().all_gather == 1 && counts().send == 0, "one collective");
    const Tensor z = me.world.reduce_scatter(y, 0, lengths, ReduceOp::kSum, Issue::kWait);
    me.check(values_of(z) == Values(4, 3 * value), "sums of i16, which NCCL lacks");
    me.check(counts().reduce_scatter == 0 && counts().send == 2, "sent and reduced here");
    const Tensor w = local_tensor({6}, DType::kBF16, {1, 2, 3, 4, 5, 6});
    const Tensor v = me.world.reduce_scatter(w, 0, lengths, ReduceOp::kSum, Issue::kWait);
    me.check(values_of(v) == Values{6 * value + 3, 6 * value + 6}, "sums of bf16");
    me.check(counts().reduce_scatter == 1, "by NCCL");
  });
  CHECK(joined(texts) == "");
}

namespace {

constexpr DType kFloats[] = {DType::kF8E4M3FN, DType::kF16, DType::kBF16, DType::kF32, DType::kF64};

// NaN, infinities, zeros and ones of both signs, and the ends of the dtypes' ranges.
Values telling_numbers() {
  Values numbers;
  for (const double x : {std::nan(""), std::numeric_limits<double>::infinity(), 0.0, 1.0, 448.0,
                         65504.0, 3.0e38, 0x1p-9, 0x1p-24, 0x1p-133, 0x1p-149, 0x1p-1074}) {
    numbers.push_back(x);
    numbers.push_back(-x);
  }
  return numbers;
}

// The input of a rank: for two ranks, every pair of numbers.
Tensor every_pair(std::int64_t rank, DType dtype) {
  const Values numbers = telling_numbers();
  Values brought;
  for (std::size_t i = 0; i < numbers.size() * numbers.size(); ++i) {
    brought.push_back(numbers[(rank == 0 ? i : i / numbers.size()) % numbers.size()]);
  }
  return local_tensor({static_cast<std::int64_t>(brought.size())}, dtype, brought);
}

// Reduces in the order of ranks that share their memory.
Values by_hand(const std::vector<Tensor>& terms, ReduceOp op) {
  const Tensor out = empty(plain_device(), terms[0].shape(), terms[0].dtype());
  std::vector<const void*> inputs;
  for (const Tensor& term : terms) inputs.push_back(term.storage()->buffer()->data());
  backends::reduce({.dtype = out.dtype(),
                    .op = op,
                    .inputs = inputs,
                    .output = out.storage()->writable()->data(),
                    .rows = 1,
                    .row_elements = out.numel(),
                    .row_stride = out.numel()});
  return values_of(out);
}

bool same(const Values& a, const Values& b) {
  return std::ranges::equal(
      a, b, [](double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); });
}

}  // namespace

TEST_CASE("K-14 nccl: extrema of floats are those of ranks that share memory, NaN included") {
  const auto texts = on_nccl_ranks(2, [](Rank& me) {
    int reductions = 0;
    for (const DType dtype : kFloats) {
      const std::vector<Tensor> terms{every_pair(0, dtype), every_pair(1, dtype)};
      const Tensor& mine = terms[static_cast<std::size_t>(me.rank)];
      for (const ReduceOp op : {ReduceOp::kMax, ReduceOp::kMin}) {
        const Values expected = by_hand(terms, op);
        const auto what = fmt::format("{} of {}", to_string(op), to_string(dtype));
        me.check(same(values_of(me.world.all_reduce(mine, op, Issue::kWait)), expected), what);
        me.check(same(values_of(me.world.all_reduce(mine, op, Issue::kAsync)), expected), what);
        const std::int64_t half = mine.numel() / 2;
        const Values kept =
            values_of(me.world.reduce_scatter(mine, 0, Lengths64{half, half}, op, Issue::kWait));
        const auto from = expected.begin() + me.rank * half;
        me.check(same(kept, Values(from, from + half)), what + " scattered");
        reductions += 1;
      }
    }
    me.check(counts().all_reduce == 2 * reductions && counts().reduce_scatter == reductions,
             "by NCCL");
    me.check(counts().all_gather + counts().send == 0, "not by all terms");
    me.check(counts().float_extrema == 0, "not as floats");
  });
  CHECK(joined(texts) == "");
}

TEST_CASE("K-14 nccl: extrema of uneven and empty floats") {
  for (const Lengths64& hosts : {Lengths64{0, 0, 0}, Lengths64{0, 0, 1}}) {
    const auto texts = on_nccl_ranks(3, hosts, [](Rank& me) {
      // The first are padded to 20 columns; of the others rank 1 keeps none.
      for (const Lengths64& lengths : {Lengths64{20, 20, 19}, Lengths64{3, 0, 1}}) {
        const std::int64_t width = lengths[0] + lengths[1] + lengths[2];
        Values values, expected;
        for (std::int64_t i = 0; i < 2 * width; ++i) {
          values.push_back(static_cast<double>((i + me.rank) % 3) - 5);
        }
        const auto mine = lengths[static_cast<std::size_t>(me.rank)];
        values[0] = me.rank == 2 ? std::nan("") : 1;
        const Tensor x = local_tensor({2, width}, DType::kBF16, values);
        const Values kept =
            values_of(me.world.reduce_scatter(x, 1, lengths, ReduceOp::kMin, Issue::kWait));
        // One of three neighbours is -5.
        Values smallest(static_cast<std::size_t>(2 * mine), -5);
        if (me.rank == 0) smallest[0] = std::nan("");
        me.check(same(kept, smallest), "smallest");
      }
      const Tensor none = local_tensor({0, 3}, DType::kF64, {});
      me.check(values_of(me.world.all_reduce(none, ReduceOp::kMax, Issue::kWait)).empty(), "none");
      me.check(counts().float_extrema == 0, "not as floats");
    });
    CHECK(joined(texts) == "");
  }
}

TEST_CASE("nccl: two groups at once, asynchronous, waited for in any order") {
  const auto texts = on_nccl_ranks(4, [](Rank& me) {
    const auto row = me.world.split(me.rank / 2, me.rank, "row");
    const auto column = me.world.split(me.rank % 2, -me.rank, "column");
    me.check(column->rank() == 1 - me.rank / 2, "ordered by key");
    const Tensor x =
        local_tensor({1000}, DType::kF64, Values(1000, 1.0 + static_cast<double>(me.rank)));
    const Tensor a = row->all_reduce(x, ReduceOp::kSum, Issue::kAsync);
    const Tensor b = column->all_reduce(x, ReduceOp::kSum, Issue::kAsync);
    const Tensor c = me.world.all_reduce(x, ReduceOp::kProduct, Issue::kAsync);
    x.mutable_data<double>()[0] = -1;  // a copy: the sent value stays
    const double row_sum = me.rank < 2 ? 3 : 7;
    const double column_sum = me.rank % 2 == 0 ? 4 : 6;
    me.check(values_of(c) == Values(1000, 24), "product of all");
    me.check(values_of(b) == Values(1000, column_sum), "sum of a column");
    me.check(values_of(a) == Values(1000, row_sum), "sum of a row");
    // Dropped on its way.
    row->all_reduce(x, ReduceOp::kSum, Issue::kAsync);
  });
  CHECK(joined(texts) == "");
}

TEST_CASE("nccl: outsiders of a split get no group, and groups of one move nothing") {
  const auto texts = on_nccl_ranks(3, [](Rank& me) {
    const auto group = me.world.split(me.rank == 1 ? -1 : 7, 0, "pair");
    me.check((group == nullptr) == (me.rank == 1), "outsider");
    const auto alone = me.world.split(1000 + me.rank, 0, "alone");
    const Counts before = counts();
    const Tensor x = local_tensor({2}, DType::kF32, {1, 2});
    me.check(values_of(alone->all_reduce(x, ReduceOp::kSum, Issue::kWait)) == Values{1, 2}, "sum");
    alone->barrier();
    me.check(counts().all_reduce == before.all_reduce, "nothing moved");
    if (group) group->barrier();
    me.world.barrier();
    const auto bytes =
        me.world.all_gather_bytes(std::string(static_cast<std::size_t>(me.rank), 'x'));
    me.check(bytes == std::vector<std::string>{"", "x", "xx"}, "bytes");
  });
  CHECK(joined(texts) == "");
}

TEST_CASE("nccl: a rank that gives up releases the others, with its name") {
  const auto texts = on_nccl_ranks(3, [](Rank& me) {
    if (me.rank == 2) {
      me.world.abort(Error(ErrorKind::kValue, "a fault"));
      return;
    }
    const Tensor x = local_tensor({4}, DType::kF32, Values(4, 1));
    me.world.all_reduce(x, ReduceOp::kSum, Issue::kWait);
  });
  CHECK(joined(texts) == joined({"rank 2 failed", "rank 2 failed", ""}));
}

TEST_CASE("nccl: calls that do not fit are NCCL's failure, told with both calls") {
  const auto texts = on_nccl_ranks(2, [](Rank& me) {
    const Tensor x =
        local_tensor({me.rank + 2}, DType::kF32, Values(static_cast<std::size_t>(me.rank + 2), 1));
    me.world.all_reduce(x, ReduceOp::kSum, Issue::kWait);
  });
  // The first rank to fail informs the other.
  const std::string all = joined(texts);
  CAPTURE(all);
  CHECK(all.find("on group world: remote error (rank ") != std::string::npos);
  CHECK(all.find("ncclAllReduce(2 x ncclFloat32, ncclSum), call 1") != std::string::npos);
  CHECK(all.find("ncclAllReduce(3 x ncclFloat32, ncclSum), call 1") != std::string::npos);
  CHECK_FALSE(texts[0].empty());
  CHECK_FALSE(texts[1].empty());
}

TEST_CASE("B-16 nccl: a call that nobody answers ends with the session's patience") {
  const auto texts = on_nccl_ranks(2, [](Rank& me) {
    reduce_ones(me.world);
    if (me.rank == 0) return reduce_ones(me.world);
    // The end of rank 1 has a patience, too, which must not be over first.
    while (me.common.failed_rank == 0) std::this_thread::yield();
  });
  CHECK(texts[0] == "rank 0 has waited 0.5 s for all_reduce(f32[4], sum) on group world");
  CHECK(texts[1].empty());
}

TEST_CASE(
    "B-16 nccl: all communicators are aborted at once, since each waits for the others' work") {
  // Before 2.24 aborts do not belong to a group.
  for (const char* version : {"22809", "22304"}) {
    setenv("SHARDLAB_NCCL_DOUBLE_VERSION", version, 1);
    const auto texts = on_nccl_ranks(2, [](Rank& me) {
      const auto pair = me.world.split(0, me.rank, "pair");
      const Tensor x = local_tensor({4}, DType::kF32, Values(4, 1));
      reduce_ones(*pair);
      if (me.rank == 0) {
        const Tensor sum = pair->all_reduce(x, ReduceOp::kSum, Issue::kAsync);
        me.common.turn = 1;
        sum.wait();
      }
      while (me.common.turn == 0) continue;
      me.world.abort(Error(ErrorKind::kValue, "a fault"));
    });
    CHECK(joined(texts) == joined({"rank 1 failed", ""}));
  }
  unsetenv("SHARDLAB_NCCL_DOUBLE_VERSION");
}

TEST_CASE("B-16 nccl: a call that NCCL refuses leaves no group open") {
  const auto texts = on_nccl_ranks(2, [](Rank& me) {
    const Tensor x = local_tensor({4}, DType::kF32, Values(4, 1));
    if (me.rank == 0) counts().refused = 1;
    try {
      me.world.all_reduce(x, ReduceOp::kSum, Issue::kWait);
    } catch (const Error& error) {
      me.wrong += error.summary();
    }
    me.check(double_api().GroupEnd() == Result::kInvalidUsage, ": a group is open");
  });
  CHECK(joined(texts) == joined({"ncclAllReduce on rank 0: invalid usage", "rank 0 failed"}));
}

TEST_CASE("B-16 nccl: ranks that let groups go in another order end them in one") {
  const auto texts = on_nccl_ranks(2, [](Rank& me) {
    auto first = me.world.split(0, me.rank, "first");
    auto second = me.world.split(0, me.rank, "second");
    if (me.rank == 0) std::swap(first, second);
    first.reset();
    second.reset();
    me.world.barrier();
  });
  CHECK(joined(texts).empty());
}

TEST_CASE("nccl: a killed process is reported by whoever watches it") {
  const auto texts = on_nccl_ranks(2, [](Rank& me) {
    if (me.rank == 1) {
      // The control channel does this when its end of the connection closes.
      me.common.failed_rank = 2;
      kill(getpid(), SIGKILL);
    }
    const Tensor x = local_tensor({4}, DType::kF32, Values(4, 1));
    me.world.all_reduce(x, ReduceOp::kSum, Issue::kWait);
  });
  CHECK(joined(texts) == joined({"rank 1 failed", "died of signal 9"}));
}

TEST_CASE("nccl: two ranks that see one device are told to take one each") {
  const auto texts = on_processes(2, [id = double_id()](int rank) {
    setenv("CUDA_VISIBLE_DEVICES", "3", 1);
    RankContext context;
    context.rank = rank;
    context.device = &plain_device();
    set_current_rank(&context);
    const SharedPeers peers(shared());
    const auto side = std::make_unique<LocalSide>(plain_device());
    Session session(double_api(), *side, peers, rank, 0, std::chrono::milliseconds(500));
    try {
      session.join(id, 2, rank);
    } catch (const Error& error) {
      return error.text();
    }
    return std::string("no error");
  });
  for (const std::string& text : texts) {
    CAPTURE(text);
    CHECK(text.find("ranks 0 and 1 are both on device 3") != std::string::npos);
    CHECK(text.find("SHARDLAB_DEVICE_ORDINAL") != std::string::npos);
  }
}

TEST_CASE("nccl: more ranks than devices are refused") {
  Shared& common = shared();
  const auto texts = on_processes(1, [&](int) {
    const Api api = counting_api();
    const SharedPeers peers(common);
    const auto side = std::make_unique<LocalSide>(plain_device());
    Session session(api, *side, peers, 9, 8);
    return std::string("no error");
  });
  CHECK(texts[0].starts_with("rank 9 wants device 8 of 8 on its host"));
}
