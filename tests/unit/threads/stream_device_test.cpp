// Collectives of ranks whose memory is a device's own, with a stream: backend threads lines pieces
// up on the device and combines them there. Values against loops over ranks, even, uneven and
// empty, in every dtype that is reduced on such a device.
#include <doctest/doctest.h>

#include <numeric>

#include "backends/cuda/cuda.h"
#include "comm/process_group.h"
#include "sim/world/world.h"
#include "tensor/host.h"
#include "tests/support/host_table.h"

namespace shardlab {
namespace {

using Values = std::vector<double>;
using Pieces = std::vector<std::int64_t>;

constexpr std::int64_t kRanks = 3;

void on_stream_ranks(const std::function<void(RankContext&, ProcessGroup&)>& body) {
  const auto device = cuda::make_cuda_device(cuda::host_table(), 0, cuda::HostFallback::kRefuse);
  WorldOptions options;
  options.ranks = kRanks;
  options.device = [&](std::int64_t) -> Device& { return *device; };
  run_world(options, [&](RankContext& rank) { body(rank, *rank.world); }).rethrow();
}

double value_at(std::int64_t rank, std::int64_t i) {
  return static_cast<double>((rank * 5 + i * 3) % 7 - 2);
}

Tensor own_tensor(RankContext& rank, const Dims& shape, DType dtype) {
  const Tensor x = empty(*rank.device, shape, dtype);
  Values values;
  for (std::int64_t i = 0; i < x.numel(); ++i) values.push_back(value_at(rank.rank, i));
  write_doubles(x, values);
  return x;
}

double reduced_by_loop(ReduceOp op, std::int64_t i) {
  double value = value_at(0, i);
  for (std::int64_t rank = 1; rank < kRanks; ++rank) {
    const double other = value_at(rank, i);
    if (op == ReduceOp::kSum || op == ReduceOp::kAvg) value += other;
    if (op == ReduceOp::kMax) value = std::max(value, other);
    if (op == ReduceOp::kMin) value = std::min(value, other);
    if (op == ReduceOp::kProduct) value *= other;
  }
  return op == ReduceOp::kAvg ? value / kRanks : value;
}

Values rows_of_loop(ReduceOp op, std::int64_t from, std::int64_t to) {
  Values values;
  for (std::int64_t i = from; i < to; ++i) values.push_back(reduced_by_loop(op, i));
  return values;
}

}  // namespace

TEST_CASE("K-21 reductions on a device with a stream are those of a loop over ranks") {
  const ReduceOp ops[] = {ReduceOp::kSum, ReduceOp::kMax, ReduceOp::kMin, ReduceOp::kProduct};
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kI32, DType::kI64}) {
    on_stream_ranks([&](RankContext& rank, ProcessGroup& world) {
      for (const ReduceOp op : ops) {
        CAPTURE(to_string(dtype));
        CAPTURE(to_string(op));
        for (const std::int64_t rows : {5, 1, 0}) {
          const Tensor x = own_tensor(rank, {rows, 2}, dtype);
          CHECK(read_doubles(world.all_reduce(x, op)) == rows_of_loop(op, 0, 2 * rows));
        }
        const Tensor number = own_tensor(rank, {}, dtype);
        CHECK(read_doubles(world.all_reduce(number, op)) == rows_of_loop(op, 0, 1));
        // 3 + 2 + 0 of 5 rows.
        const Pieces lengths{3, 2, 0};
        const std::int64_t from[] = {0, 6, 10}, to[] = {6, 10, 10};
        const Tensor x = own_tensor(rank, {5, 2}, dtype);
        CHECK(read_doubles(world.reduce_scatter(x, 0, lengths, op)) ==
              rows_of_loop(op, from[rank.rank], to[rank.rank]));
      }
    });
  }
  on_stream_ranks([](RankContext& rank, ProcessGroup& world) {
    const Tensor x = own_tensor(rank, {4}, DType::kF64);
    CHECK(read_doubles(world.all_reduce(x, ReduceOp::kAvg)) == rows_of_loop(ReduceOp::kAvg, 0, 4));
  });
}

TEST_CASE("K-7 K-10 moves on a device with a stream put elements where a loop puts them") {
  on_stream_ranks([](RankContext& rank, ProcessGroup& world) {
    // Rank r brings r + 1 columns of 2 rows; columns come one after the other.
    const Tensor mine = own_tensor(rank, {2, rank.rank + 1}, DType::kF32);
    const Pieces columns{1, 2, 3};
    Values gathered;
    for (std::int64_t row = 0; row < 2; ++row) {
      for (std::int64_t other = 0; other < kRanks; ++other) {
        for (std::int64_t column = 0; column <= other; ++column) {
          gathered.push_back(value_at(other, row * (other + 1) + column));
        }
      }
    }
    CHECK(read_doubles(world.all_gather(mine, 1, columns)) == gathered);
    // Rows 2, 1, 0 of 3 to the ranks, which join them along the other dim.
    const Pieces rows{2, 1, 0}, widths{1, 1, 1};
    const Tensor column = own_tensor(rank, {3, 1}, DType::kF32);
    const std::int64_t from[] = {0, 2, 3}, to[] = {2, 3, 3};
    Values exchanged;
    for (std::int64_t row = from[rank.rank]; row < to[rank.rank]; ++row) {
      for (std::int64_t other = 0; other < kRanks; ++other)
        exchanged.push_back(value_at(other, row));
    }
    CHECK(read_doubles(world.all_to_all(column, 0, rows, 1, widths)) == exchanged);
    const Tensor told = world.broadcast(column, 2, column.meta());
    CHECK(read_doubles(told) == Values{value_at(2, 0), value_at(2, 1), value_at(2, 2)});
    const std::int64_t next = (rank.rank + 1) % kRanks, before = (rank.rank + 2) % kRanks;
    const Tensor passed = world.permute(column, next, before, column.meta());
    CHECK(read_doubles(passed) ==
          Values{value_at(before, 0), value_at(before, 1), value_at(before, 2)});
  });
}

TEST_CASE("K-20 an asynchronous reduction on a device with a stream is there when it is used") {
  on_stream_ranks([](RankContext& rank, ProcessGroup& world) {
    const Tensor x = own_tensor(rank, {4}, DType::kF32);
    const Tensor a = world.all_reduce(x, ReduceOp::kSum, Issue::kAsync);
    const Tensor b = world.all_reduce(x, ReduceOp::kMax, Issue::kAsync);
    CHECK(read_doubles(b) == rows_of_loop(ReduceOp::kMax, 0, 4));
    CHECK(read_doubles(a) == rows_of_loop(ReduceOp::kSum, 0, 4));
  });
}

}  // namespace shardlab
