#include "tests/support/mutating_device.h"

#include <doctest/doctest.h>

#include "kernels/kernel_id.h"
#include "sim/world/devices.h"
#include "tests/support/local_tensor.h"
#include "tests/support/on_ranks.h"

namespace shardlab {
namespace {

using Numbers = std::vector<double>;

/// Results of three observed ranks for launches on a device that is wrong.
struct PlantedLaunches {
  explicit PlantedLaunches(WrongLaunch wrong) : device(plant_launch(*real, 3, wrong, log)) {}

  /// The outputs of the last launch, by rank.
  void run(const std::function<std::vector<Tensor>(Device&)>& launches) {
    on_ranks(3, [&](RankContext& rank) {
      rank.mode |= kModeObserve;
      for (const Tensor& output : launches(*device)) {
        got[static_cast<std::size_t>(rank.rank)].push_back(values_of(output));
      }
    });
  }

  std::unique_ptr<Device> real = make_device({}, "threads");
  std::shared_ptr<LaunchLog> log = std::make_shared<LaunchLog>();
  std::unique_ptr<Device> device;
  std::vector<std::vector<Numbers>> got = std::vector<std::vector<Numbers>>(3);
};

/// -1, -2, -3 and then -4, -5, -6, of which the latter is returned.
std::vector<Tensor> two_negations(Device& device) {
  Tensor output;
  for (const Numbers& numbers : {Numbers{1, 2, 3}, Numbers{4, 5, 6}}) {
    output = empty(device, Dims{3}, DType::kF32);
    const LocalArg args[] = {local_tensor({3}, DType::kF32, numbers)};
    device.run({.kernel = KernelId::kNeg, .args = args, .outputs = {&output, 1}});
  }
  return {output};
}

/// Entries 0, 2, 4 and 3 of a table of 5 whose entries 2 and 3 are here: 20 and 30. The values
/// found, and the mask.
std::vector<Tensor> lookup(Device& device) {
  LocalView view{{5, 1}, {}};
  view.dims.push_back({{{2, 2}}});
  view.dims.push_back({{{0, 1}}});
  const LocalArg args[] = {local_tensor({2, 1}, DType::kF32, {20, 30}),
                           local_tensor({4}, DType::kI64, {0, 2, 4, 3})};
  const Tensor outputs[] = {empty(device, Dims{4, 1}, DType::kF32),
                            empty(device, Dims{4}, DType::kBool)};
  device.run(
      {.kernel = KernelId::kEmbeddingMasked, .args = args, .outputs = outputs, .view = &view});
  return {outputs[0], outputs[1]};
}

TEST_CASE("the second launch of a kernel is wrong on one rank, and right on the others") {
  PlantedLaunches swapped({KernelMistake::kSwappedHalves, KernelId::kNeg, 1, 2});
  swapped.run(two_negations);
  CHECK(swapped.got ==
        std::vector<std::vector<Numbers>>{{{-4, -5, -6}}, {{-4, -5, -6}}, {{-6, -5, -4}}});
  CHECK(swapped.log->changed == 1);
  CHECK(swapped.log->by_rank[0].size() == 2);
  PlantedLaunches stale({KernelMistake::kStaleResult, KernelId::kNeg, 1, {}});
  stale.run(two_negations);
  CHECK(stale.got == std::vector<std::vector<Numbers>>(3, {{-1, -2, -3}}));
  CHECK(stale.log->changed == 3);
}

TEST_CASE("the first result of a shape has no stale one: it is zero") {
  PlantedLaunches stale({KernelMistake::kStaleResult, KernelId::kEmbeddingMasked, 0, 0});
  stale.run(lookup);
  CHECK(stale.got[0][0] == Numbers{0, 0, 0, 0});
  CHECK(stale.got[1][0] == Numbers{0, 20, 0, 30});
}

TEST_CASE("a lookup without a mask finds the first entry, one elsewhere takes its neighbours") {
  PlantedLaunches unmasked({KernelMistake::kNoMask, KernelId::kEmbeddingMasked, 0, 1});
  unmasked.run(lookup);
  CHECK(unmasked.got[0] == std::vector<Numbers>{{0, 20, 0, 30}, {1, 0, 1, 0}});
  CHECK(unmasked.got[1] == std::vector<Numbers>{{20, 20, 20, 30}, {0, 0, 0, 0}});
  PlantedLaunches moved({KernelMistake::kWrongOffset, KernelId::kEmbeddingMasked, 0, 1});
  moved.run(lookup);
  CHECK(moved.got[1] == std::vector<Numbers>{{0, 0, 30, 20}, {1, 1, 0, 0}});
}

TEST_CASE("masks and positions are asked of launches that have them") {
  PlantedLaunches none({KernelMistake::kNoMask, KernelId::kNeg, 0, {}});
  none.run(two_negations);
  none.run(lookup);
  CHECK(none.log->changed == 0);
  const Launch negation = none.log->by_rank[0][0], masked = none.log->by_rank[0][2];
  CHECK_FALSE(applies(KernelMistake::kNoMask, negation));
  CHECK_FALSE(applies(KernelMistake::kWrongOffset, negation));
  CHECK(applies(KernelMistake::kSwappedHalves, negation));
  CHECK(applies(KernelMistake::kNoMask, masked));
  CHECK(applies(KernelMistake::kWrongOffset, masked));
}

}  // namespace
}  // namespace shardlab
