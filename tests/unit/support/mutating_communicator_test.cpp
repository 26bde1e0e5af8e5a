#include "tests/support/mutating_communicator.h"

#include <doctest/doctest.h>

#include <functional>

#include "comm/process_group.h"
#include "tests/support/local_tensor.h"
#include "tests/support/on_ranks.h"

namespace shardlab {
namespace {

using Numbers = std::vector<double>;
using Collective = std::function<Tensor(ProcessGroup&)>;

constexpr std::int64_t kLengths[] = {2, 0, 1};

/// Results of three observed ranks, and the number of wrong ones.
struct Planted {
  Planted(const Mutation& mutation, const Collective& collective) {
    WorldOptions options = plain_world(3);
    options.communicator = plant(mutation, effect);
    on_ranks(options, [&](RankContext& rank) {
      rank.mode |= kModeObserve;
      got[static_cast<std::size_t>(rank.rank)] = values_of(collective(*rank.world));
    });
  }

  std::shared_ptr<MutationEffect> effect = std::make_shared<MutationEffect>();
  std::vector<Numbers> got = std::vector<Numbers>(3);
};

/// Rank i brings 10 (i + 1) and 10 (i + 1) + 1, and 0 as third.
Tensor terms(const ProcessGroup& group) {
  const double first = 10.0 * static_cast<double>(group.rank() + 1);
  return local_tensor({3}, DType::kF32, {first, first + 1, 0});
}

Tensor sum(ProcessGroup& group) { return group.all_reduce(terms(group), ReduceOp::kSum); }

Tensor scattered_sum(ProcessGroup& group) {
  return group.reduce_scatter(terms(group), 0, kLengths, ReduceOp::kSum);
}

/// 1 and 2 of rank 0, nothing of rank 1, 3 of rank 2.
Tensor gathered(ProcessGroup& group) {
  const Numbers pieces[] = {{1, 2}, {}, {3}};
  const auto own = static_cast<std::size_t>(group.rank());
  return group.all_gather(local_tensor({kLengths[own]}, DType::kF32, pieces[own]), 0, kLengths);
}

TEST_CASE("a dropped reduction gives the own term, or the own slice of it") {
  const Planted whole({MutationKind::kDropReduction, 0, {}}, sum);
  CHECK(whole.got == std::vector<Numbers>{{10, 11, 0}, {20, 21, 0}, {30, 31, 0}});
  CHECK(whole.effect->changed == 3);
  const Planted slices({MutationKind::kDropReduction, 0, {}}, scattered_sum);
  CHECK(slices.got == std::vector<Numbers>{{10, 11}, {}, {0}});
  CHECK(slices.effect->changed == 1);
}

TEST_CASE("a result divided twice is a third on three ranks") {
  const Planted whole({MutationKind::kDivideTwice, 0, {}}, sum);
  CHECK(whole.got == std::vector<Numbers>{{20, 21, 0}, {20, 21, 0}, {20, 21, 0}});
  const Planted slices({MutationKind::kDivideTwice, 0, {}}, scattered_sum);
  CHECK(slices.got == std::vector<Numbers>{{20, 21}, {}, {0}});
}

TEST_CASE("complex numbers are divided and multiplied in both parts") {
  const auto complex_sum = [](ProcessGroup& group) {
    return group.all_reduce(local_tensor({2}, DType::kC64, {3, -6}), ReduceOp::kSum);
  };
  CHECK(Planted({MutationKind::kDivideTwice, 0, {}}, complex_sum).got ==
        std::vector<Numbers>(3, {3, -6}));
  CHECK(Planted({MutationKind::kReduceTwice, 0, {}}, complex_sum).got ==
        std::vector<Numbers>(3, {27, -54}));
}

TEST_CASE(
    "a shifted chunk is rotated by one, pieces of two ranks change places; empty ones don't") {
  const Planted shifted({MutationKind::kShiftChunk, 0, {}}, gathered);
  CHECK(shifted.got == std::vector<Numbers>{{3, 1, 2}, {3, 1, 2}, {3, 1, 2}});
  const Planted swapped({MutationKind::kSwapRanks, 0, {}}, gathered);
  CHECK(swapped.got == std::vector<Numbers>{{3, 1, 2}, {3, 1, 2}, {3, 1, 2}});
  const Planted slices({MutationKind::kShiftChunk, 0, {}}, scattered_sum);
  CHECK(slices.got == std::vector<Numbers>{{63, 60}, {}, {0}});
}

TEST_CASE("a sum reduced again is three times as large, a maximum stays") {
  const Planted whole({MutationKind::kReduceTwice, 0, {}}, sum);
  CHECK(whole.got == std::vector<Numbers>(3, {180, 189, 0}));
  const Planted most({MutationKind::kReduceTwice, 0, {}}, [](ProcessGroup& group) {
    return group.all_reduce(terms(group), ReduceOp::kMax);
  });
  CHECK(most.got == std::vector<Numbers>(3, {30, 31, 0}));
  CHECK(most.effect->changed == 0);
}

TEST_CASE("the piece of the next rank is taken where it is as long") {
  const auto even = [](ProcessGroup& group) {
    constexpr std::int64_t kOne[] = {1, 1, 1};
    return group.reduce_scatter(terms(group), 0, kOne, ReduceOp::kSum);
  };
  const Planted one({MutationKind::kForeignPiece, 0, 1}, even);
  CHECK(one.got == std::vector<Numbers>{{60}, {0}, {0}});
  CHECK(one.effect->changed == 1);
  const Planted uneven({MutationKind::kForeignPiece, 0, {}}, scattered_sum);
  CHECK(uneven.got == std::vector<Numbers>{{60, 63}, {}, {0}});
}

TEST_CASE("one rank, one collective of all its groups; others stay right") {
  const auto twice = [](ProcessGroup& group) {
    ProcessGroup part(group.communicator().split(0, group.rank(), "part"));
    sum(part);
    return sum(group);
  };
  const Planted second({MutationKind::kDropReduction, 1, 2}, twice);
  CHECK(second.got == std::vector<Numbers>{{60, 63, 0}, {60, 63, 0}, {30, 31, 0}});
  CHECK(second.effect->changed == 1);
  const Planted first({MutationKind::kDropReduction, 0, {}}, twice);
  CHECK(first.got == std::vector<Numbers>{{60, 63, 0}, {60, 63, 0}, {60, 63, 0}});
  CHECK(first.effect->changed == 3);
}

}  // namespace
}  // namespace shardlab
