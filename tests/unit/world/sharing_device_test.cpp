#include "sim/world/sharing_device.h"

#include <doctest/doctest.h>

#include <atomic>
#include <vector>

#include "comm/process_group.h"
#include "kernels/cpu_kernels.h"
#include "kernels/kernel_id.h"
#include "sim/world/world.h"
#include "tensor/cpu_device.h"
#include "tests/support/local_tensor.h"

using namespace shardlab;

namespace {

struct SharingSetting {
  SchedulerKind scheduler;
  std::int64_t workers;
};
constexpr SharingSetting kSettings[] = {
    {SchedulerKind::kPool, 1}, {SchedulerKind::kPool, 3}, {SchedulerKind::kThreads, 1}};

// Runs `body` on `ranks` ranks that have one sharing device.
SharingStats stats_of(const SharingSetting& setting, std::int64_t ranks,
                      const std::function<void(RankContext&)>& body) {
  const std::unique_ptr<Device> device = make_cpu_device(cpu_kernel_table());
  SharingDevice sharing(*device, ranks);
  WorldOptions options;
  options.ranks = ranks;
  options.schedule.kind = setting.scheduler;
  options.schedule.workers = setting.workers;
  options.device = [&](std::int64_t) -> Device& { return sharing; };
  run_world(options, body).rethrow();
  return sharing.stats();
}

Tensor run(RankContext& rank, KernelId kernel, std::vector<LocalArg> args, const Dims& shape) {
  ++rank.step;
  const std::vector<Tensor> outputs = {empty(*rank.device, shape, DType::kF32)};
  rank.device->run({.kernel = kernel, .args = args, .outputs = outputs});
  return outputs[0];
}

// The same Buffer on all ranks.
Tensor replica(RankContext& rank, double first) {
  const Tensor x = local_tensor({4}, DType::kF32, {first, 2, 3, 4});
  return rank.world->communicator().broadcast(x, 0, x.meta());
}

const void* address(const Tensor& tensor) { return tensor.storage()->buffer()->data(); }

}  // namespace

TEST_CASE("replicas run a kernel once, and kernels on its result once, too") {
  for (const SharingSetting& setting : kSettings) {
    std::vector<Tensor> results(6);
    const SharingStats stats = stats_of(setting, 6, [&](RankContext& rank) {
      const Tensor x = replica(rank, 1);
      const Tensor y = run(rank, KernelId::kAdd, {x, x, Scalar(1)}, {4});
      const Tensor z = run(rank, KernelId::kAdd, {y, x, Scalar(2)}, {4});
      CHECK(values_of(z) == std::vector<double>{4, 8, 12, 16});
      results[static_cast<std::size_t>(rank.rank)] = z;
      rank.world->barrier();
      CHECK(address(z) == address(results[0]));
      rank.world->barrier();
      results[static_cast<std::size_t>(rank.rank)] = Tensor();
    });
    CHECK(stats.run == 2);
    CHECK(stats.shared == 10);
  }
}

TEST_CASE("a rank that writes to a shared result, or to its input, leaves the others' alone") {
  for (const SharingSetting& setting : kSettings) {
    stats_of(setting, 4, [&](RankContext& rank) {
      const Tensor x = replica(rank, 1);
      const Tensor y = run(rank, KernelId::kAdd, {x, x, Scalar(1)}, {4});
      y.mutable_data<float>()[0] = static_cast<float>(10 + rank.rank);
      x.mutable_data<float>()[0] = static_cast<float>(20 + rank.rank);
      rank.world->barrier();
      CHECK(values_of(y) == std::vector<double>{10.0 + static_cast<double>(rank.rank), 4, 6, 8});
      CHECK(values_of(x) == std::vector<double>{20.0 + static_cast<double>(rank.rank), 2, 3, 4});
    });
  }
}

TEST_CASE("other arguments, other pieces and other draws are not shared") {
  for (const SharingSetting& setting : kSettings) {
    const SharingStats stats = stats_of(setting, 3, [&](RankContext& rank) {
      const Tensor x = replica(rank, 1);
      const auto mine = static_cast<double>(rank.rank + 1);
      const Tensor scaled = run(rank, KernelId::kAdd, {x, x, Scalar(mine)}, {4});
      CHECK(values_of(scaled)[1] == 2 + 2 * mine);
      const Tensor piece = x.narrow(0, rank.rank, 2);
      const Tensor doubled = run(rank, KernelId::kAdd, {piece, piece, Scalar(1)}, {2});
      CHECK(values_of(doubled)[0] == 2 * mine);
    });
    CHECK(stats.run == 6);
    CHECK(stats.shared == 0);
  }
}

TEST_CASE("equal values in Buffers of their own are not compared") {
  const SharingStats stats = stats_of(kSettings[0], 3, [&](RankContext& rank) {
    const Tensor x = local_tensor({2}, DType::kF32, {1, 2});
    run(rank, KernelId::kAdd, {x, x, Scalar(1)}, {2});
  });
  CHECK(stats.run == 3);
  CHECK(stats.shared == 0);
}

TEST_CASE("kernels that write to their inputs run once, and each rank has written") {
  for (const SharingSetting& setting : kSettings) {
    const SharingStats stats = stats_of(setting, 4, [&](RankContext& rank) {
      const Tensor x = replica(rank, 1);
      const Tensor before = x.snapshot();
      const std::uint64_t version = x.storage()->version();
      const auto doubled = [&](double by) {
        ++rank.step;
        const std::vector<LocalArg> args = {x, x, Scalar(by)};
        rank.device->run({.kernel = KernelId::kAdd, .args = args, .outputs = {&x, 1}});
      };
      doubled(1);
      CHECK(values_of(x) == std::vector<double>{2, 4, 6, 8});
      CHECK(values_of(before) == std::vector<double>{1, 2, 3, 4});
      CHECK(x.storage()->version() == version + 1);
      rank.world->barrier();
      doubled(static_cast<double>(rank.rank));  // not the same on any two ranks
      CHECK(values_of(x)[1] == 4 + 4 * static_cast<double>(rank.rank));
    });
    CHECK(stats.run == 5);
    CHECK(stats.shared == 3);
  }
}

TEST_CASE("writes through other views of one memory are not the same") {
  const SharingStats stats = stats_of(kSettings[0], 2, [&](RankContext& rank) {
    const Tensor x = replica(rank, 1);
    const Tensor part = x.narrow(0, rank.rank, 2), first = x.narrow(0, 0, 2);
    ++rank.step;
    const std::vector<LocalArg> args = {first, first, Scalar(1)};
    rank.device->run({.kernel = KernelId::kAdd, .args = args, .outputs = {&part, 1}});
    CHECK(values_of(x)[2] == (rank.rank == 0 ? 3 : 4));
  });
  CHECK(stats.shared == 0);
}

TEST_CASE("an error of a shared kernel is every rank's own") {
  for (const SharingSetting& setting : kSettings) {
    std::atomic<int> failed{0};
    stats_of(setting, 4, [&](RankContext& rank) {
      const Tensor x = replica(rank, 1);
      try {
        run(rank, KernelId::kNone, {x}, {4});
      } catch (const Error& error) {
        if (error.kind() == ErrorKind::kUnsupported) ++failed;
      }
    });
    CHECK(failed.load() == 4);
  }
}

TEST_CASE("results that every rank has passed are let go") {
  std::int64_t held = 0;
  stats_of(kSettings[0], 2, [&](RankContext& rank) {
    const Tensor x = replica(rank, 1);
    for (int i = 0; i < 100; ++i) {
      run(rank, KernelId::kAdd, {x, x, Scalar(i)}, {4});
      rank.world->barrier();
    }
    if (rank.rank == 0) held = rank.device->memory().held_bytes;
  });
  CHECK(held < 100 * 16 / 2);  // of 100 results
}
