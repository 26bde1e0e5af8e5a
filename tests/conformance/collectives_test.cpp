// Reductions, and the collectives that wait for nothing but each other. Expected values are written
// down element by element here, from the input of each rank.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "comm/process_group.h"
#include "tests/conformance/setting.h"
#include "tests/support/local_tensor.h"
#include "tests/support/on_ranks.h"

using namespace shardlab;

namespace {

using Values = std::vector<double>;

bool is_bit_op(ReduceOp op) { return op >= ReduceOp::kBitAnd; }

double brought_as(DType dtype, ReduceOp op, std::int64_t rank, std::int64_t index) {
  const double value = brought(rank, index);
  if (dtype == DType::kBool) return value > 2 ? 1 : 0;
  // Products of eight terms must stay exact in the narrowest dtype.
  return op == ReduceOp::kProduct ? 1 + std::fmod(value, 2) : value;
}

// The combined value of element `index` over all ranks, in double; small integers, so exact but for
// avg.
double combined(const Seat& seat, DType dtype, ReduceOp op, std::int64_t index) {
  double result = brought_as(dtype, op, seat.ranks[0], index);
  for (const std::int64_t rank : seat.ranks.subspan(1)) {
    const double term = brought_as(dtype, op, rank, index);
    const auto a = static_cast<std::int64_t>(result);
    const auto b = static_cast<std::int64_t>(term);
    if (op == ReduceOp::kSum || op == ReduceOp::kAvg) result += term;
    if (op == ReduceOp::kProduct) result *= term;
    if (op == ReduceOp::kMax) result = std::max(result, term);
    if (op == ReduceOp::kMin) result = std::min(result, term);
    if (op == ReduceOp::kBitAnd) result = static_cast<double>(a & b);
    if (op == ReduceOp::kBitOr) result = static_cast<double>(a | b);
    if (op == ReduceOp::kBitXor) result = static_cast<double>(a ^ b);
  }
  if (op == ReduceOp::kAvg) result /= static_cast<double>(seat.size);
  if (dtype == DType::kBool) result = result != 0 ? 1 : 0;
  return result;
}

// The ranks' elements `indices` reduced, rounded once to the dtype, as the reduction rounds.
Values reduced(const Seat& seat, DType dtype, ReduceOp op,
               const std::vector<std::int64_t>& indices) {
  Values exact;
  exact.reserve(indices.size());
  for (const std::int64_t index : indices) exact.push_back(combined(seat, dtype, op, index));
  return values_of(local_tensor({static_cast<std::int64_t>(exact.size())}, dtype, exact));
}

bool takes(DType dtype, ReduceOp op) {
  if (is_bit_op(op) || op == ReduceOp::kAvg) return is_integral(dtype) == is_bit_op(op);
  if (op == ReduceOp::kMax || op == ReduceOp::kMin) return !is_complex(dtype);
  return true;
}

Tensor brought_tensor(const Seat& seat, const Dims& shape, DType dtype, ReduceOp op) {
  Values values(static_cast<std::size_t>(product(shape)));
  const std::int64_t me = seat.ranks[static_cast<std::size_t>(seat.rank)];
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = brought_as(dtype, op, me, static_cast<std::int64_t>(i));
  }
  return local_tensor(shape, dtype, values);
}

void check_all_reduce(const Seat& seat, const Dims& shape, DType dtype, ReduceOp op) {
  const Tensor x = brought_tensor(seat, shape, dtype, op);
  const Tensor y = seat.group.all_reduce(x, op);
  CHECK(y.shape() == shape);
  CHECK(y.dtype() == dtype);
  std::vector<std::int64_t> indices(static_cast<std::size_t>(y.numel()));
  std::iota(indices.begin(), indices.end(), 0);
  const Values expected = reduced(seat, dtype, op, indices);
  const bool right = values_of(y) == expected;
  CHECK(right);
  const std::int64_t root = seat.size - 1;
  const Tensor own = seat.group.reduce(x, root, op);
  REQUIRE(own.defined() == (seat.rank == root));
  if (!own.defined()) return;
  const bool right_at_root = own.shape() == shape && values_of(own) == expected;
  CHECK(right_at_root);
}

void check_reduce_scatter(const Seat& seat, std::string_view kind, std::int64_t dim, DType dtype,
                          ReduceOp op) {
  const std::vector<std::int64_t> lengths = lengths_of(kind, seat.size);
  std::int64_t total = 0;
  std::int64_t offset = 0;
  for (std::int64_t i = 0; i < seat.size; ++i) {
    if (i < seat.rank) offset += lengths[static_cast<std::size_t>(i)];
    total += lengths[static_cast<std::size_t>(i)];
  }
  Dims shape{2, 3, 2};
  shape[static_cast<std::size_t>(dim)] = total;
  const Tensor y =
      seat.group.reduce_scatter(brought_tensor(seat, shape, dtype, op), dim, lengths, op);
  Dims piece = shape;
  piece[static_cast<std::size_t>(dim)] = lengths[static_cast<std::size_t>(seat.rank)];
  CHECK(y.shape() == piece);
  std::vector<std::int64_t> indices;
  for (std::int64_t a = 0; a < piece[0]; ++a) {
    for (std::int64_t b = 0; b < piece[1]; ++b) {
      for (std::int64_t c = 0; c < piece[2]; ++c) {
        Dims place{a, b, c};
        place[static_cast<std::size_t>(dim)] += offset;
        indices.push_back((place[0] * shape[1] + place[1]) * shape[2] + place[2]);
      }
    }
  }
  const bool right = values_of(y) == reduced(seat, dtype, op, indices);
  CHECK(right);
}

constexpr DType kDTypes[] = {DType::kBool, DType::kU8,  DType::kU64, DType::kI8,   DType::kI16,
                             DType::kI32,  DType::kI64, DType::kF16, DType::kBF16, DType::kF32,
                             DType::kF64,  DType::kC64, DType::kC128};

template <typename Body>
void for_each_reduction(const Body& body) {
  for (const DType dtype : kDTypes) {
    for (int op = 0; op < kReduceOpCount; ++op) {
      if (takes(dtype, static_cast<ReduceOp>(op))) body(dtype, static_cast<ReduceOp>(op));
    }
  }
}

void all_reduce_case() {
  for_each_reduction([&](DType dtype, ReduceOp op) {
    CAPTURE(to_string(dtype));
    CAPTURE(to_string(op));
    on_all_groups([&](const Seat& seat) {
      // Nothing, a number, one element, an uneven count, more than a block of the reduction.
      for (const Dims& shape : {Dims{0, 3}, Dims{}, Dims{1}, Dims{7, 3}, Dims{1500}}) {
        check_all_reduce(seat, shape, dtype, op);
      }
    });
  });
}

void reduce_scatter_case() {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kI64, DType::kBool}) {
    on_all_groups([&](const Seat& seat) {
      for (const std::string_view kind : kLengthKinds) {
        for (std::int64_t dim = 0; dim < 3; ++dim) {
          check_reduce_scatter(seat, kind, dim, dtype, ReduceOp::kSum);
          check_reduce_scatter(seat, kind, dim, dtype, ReduceOp::kMax);
        }
      }
    });
  }
}

void rank_order_case() {
  // In f32, ascending: ((1e8 + 1) - 1e8) + 1 = 1, every other order gives 2 or 0.
  const Values terms{1e8, 1, -1e8, 1};
  on_world_of(4, [&](RankContext& rank) {
    const Tensor x = local_tensor({1}, DType::kF32, {terms[static_cast<std::size_t>(rank.rank)]});
    CHECK(values_of(rank.world->all_reduce(x, ReduceOp::kSum)) == Values{1});
  });
}

// More ranks than are combined in registers at a time.
void many_ranks_order_case() {
  on_world_of(21, [&](RankContext& rank) {
    float expected = 0;
    for (int i = 0; i < 21; ++i)
      expected = i == 0 ? 0.1f : expected + 0.1f * static_cast<float>(i + 1);
    const float mine = 0.1f * static_cast<float>(rank.rank + 1);
    const Tensor x = local_tensor({3}, DType::kF32, Values(3, rank.rank == 0 ? 0.1f : mine));
    CHECK(values_of(rank.world->all_reduce(x, ReduceOp::kSum)) == Values(3, expected));
  });
}

void rounding_case() {
  // 256 + 1 is not a bf16 number: rounded after every term the sum would stay 256; rounded once it
  // is 264.
  on_world_of(8, [&](RankContext& rank) {
    const Tensor x = local_tensor({1}, DType::kBF16, {rank.rank == 0 ? 256.0 : 1.0});
    CHECK(values_of(rank.world->all_reduce(x, ReduceOp::kSum)) == Values{264});
    // 60000 * 8 overflows f16, the mean does not.
    const Tensor y = local_tensor({1}, DType::kF16, {60000});
    CHECK(values_of(rank.world->all_reduce(y, ReduceOp::kAvg)) == Values{60000});
  });
}

void strided_case() {
  on_all_groups([](const Seat& seat) {
    const auto n = static_cast<double>(seat.size);
    const Tensor x = local_tensor({2, 3}, DType::kF32, {0, 1, 2, 3, 4, 5});
    const Tensor transposed = x.as_view({{3, 2}, {1, 3}, DType::kF32}, 0);
    const Tensor y = seat.group.all_reduce(transposed, ReduceOp::kSum);
    CHECK(y.contiguous());
    CHECK(values_of(y) == Values{0, 3 * n, n, 4 * n, 2 * n, 5 * n});
    const Tensor column = x.narrow(1, 2, 1);
    CHECK(values_of(seat.group.all_reduce(column, ReduceOp::kMax)) == Values{2, 5});
  });
}

void own_value_case() {
  // One Buffer for all ranks, but a value of each rank's own.
  on_all_groups([](const Seat& seat) {
    const Tensor x = local_tensor({4}, DType::kF32, Values(4, 1));
    const Tensor y = seat.group.all_reduce(x, ReduceOp::kSum);
    y.mutable_data<float>()[0] = -static_cast<float>(seat.rank);
    seat.group.barrier();
    const auto n = static_cast<double>(seat.size);
    CHECK(values_of(y) == Values{-static_cast<double>(seat.rank), n, n, n});
    CHECK(values_of(x) == Values(4, 1));
  });
}

void async_case() {
  on_all_groups([](const Seat& seat) {
    const auto n = static_cast<double>(seat.size);
    std::vector<Tensor> pending;
    const Tensor x = local_tensor({4}, DType::kF32, Values(4, 1));
    for (int i = 0; i < 5; ++i) {
      pending.push_back(seat.group.all_reduce(x, ReduceOp::kSum, Issue::kAsync));
      CHECK(pending.back().shape() == Dims{4});  // K-20: known before the data is there
      // The value that is sent is that of the time of the call.
      for (int k = 0; k < 4; ++k) x.mutable_data<float>()[k] += 1;
    }
    const std::vector<std::int64_t> ones(static_cast<std::size_t>(seat.size), 1);
    const Tensor mine = local_tensor({1}, DType::kI32, {static_cast<double>(seat.rank)});
    const Tensor all = seat.group.all_gather(mine, 0, ones, Issue::kAsync);
    // Waited for in another order than they were issued, twice, and by use of the data.
    for (int i = 4; i >= 0; --i) {
      const Tensor& y = pending[static_cast<std::size_t>(i)];
      if (i % 2 == 0) y.wait();
      CHECK(values_of(y) == Values(4, n * (i + 1)));
      y.wait();
    }
    CHECK(values_of(all.narrow(0, seat.size - 1, 1)) == Values{n - 1});
    // Dropped without being looked at.
    seat.group.all_reduce(x, ReduceOp::kSum, Issue::kAsync);
  });
}

// Ranks on threads share a device, which the last one needs for the tensor that the others wait
// for.
void late_rank_case() {
  on_all_worlds([](RankContext& rank) {
    const auto n = static_cast<double>(rank.world_size);
    if (rank.rank == rank.world_size - 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    const Tensor one = local_tensor({3}, DType::kF32, Values(3, 1));
    const Tensor sum = rank.world->all_reduce(one, ReduceOp::kSum, Issue::kAsync);
    CHECK(values_of(sum) == Values(3, n));
  });
}

// NCCL itself forbids this: only where calls are compared are they put in one order.
void async_crosswise_case() {
  if (!calls_are_compared()) return;
  on_all_worlds([](RankContext& rank) {
    const auto turned = rank.world->communicator().split(0, -rank.rank, "turned");
    Communicator* const first = rank.rank % 2 == 0 ? &rank.world->communicator() : turned.get();
    Communicator* const second = rank.rank % 2 == 0 ? turned.get() : &rank.world->communicator();
    const auto n = static_cast<double>(rank.world_size);
    const Tensor one = local_tensor({3}, DType::kF32, Values(3, 1));
    for (int round = 0; round < 4; ++round) {
      const Tensor a = first->all_reduce(one, ReduceOp::kSum, Issue::kAsync);
      const Tensor b = second->all_reduce(one, ReduceOp::kSum, Issue::kAsync);
      const Tensor c = turned->all_reduce(one, ReduceOp::kMax, Issue::kAsync);
      const bool turn = round % 2 == rank.rank % 2;
      CHECK(values_of(turn ? b : a) == Values(3, n));
      CHECK(values_of(turn ? a : b) == Values(3, n));
      if (round > 1) CHECK(values_of(c) == Values(3, 1));
    }
  });
}

}  // namespace

TEST_CASE("all_reduce, every dtype and op") { all_reduce_case(); }
TEST_CASE("reduce_scatter along any dim, uneven and empty") { reduce_scatter_case(); }
TEST_CASE("K-21 terms are combined in ascending group rank") { rank_order_case(); }
TEST_CASE("K-21 also those of many ranks") { many_ranks_order_case(); }
TEST_CASE("16-bit floats accumulate in f32 and round once") { rounding_case(); }
TEST_CASE("inputs of any strides") { strided_case(); }
TEST_CASE("a result may be written to") { own_value_case(); }
TEST_CASE("K-20 asynchronous results") { async_case(); }
TEST_CASE("a pending result keeps no rank from the device") { late_rank_case(); }
TEST_CASE("K-20 asynchronous calls on two groups in another order on each rank") {
  async_crosswise_case();
}
