// Worlds over the double of NCCL, one rank a process (tests/support/ranks.py), on host memory and
// on device cuda with its kernels on the host: the errors of all ranks when one of them fails,
// under NCCL's rules. A rank that hangs is ended by the double, and the job fails.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "backends/process/control_channel.h"
#include "comm/device_mesh.h"
#include "comm/process_group.h"
#include "comm/verdict.h"
#include "mesh/spec.h"
#include "sim/world/backends.h"
#include "tensor/host.h"
#include "tests/nccl/processes.h"
#include "tests/support/on_ranks.h"

using namespace shardlab;

namespace {

WorldOptions over_nccl() {
  WorldOptions options = plain_world(find_backend("nccl").processes->join().size());
  options.backend = "nccl";
  return options;
}

Tensor ones(std::int64_t count) {
  const Tensor x = empty(plain_device(), Dims{count}, DType::kF32);
  write_doubles(x, std::vector<double>(static_cast<std::size_t>(count), 1));
  return x;
}

bool is_last(const RankContext& rank) { return rank.rank == rank.world_size - 1; }

// The failures of a world, after which the next one is sound.
std::vector<RankFailure> failures_of(const std::function<void(RankContext&)>& body) {
  std::vector<RankFailure> failures = run_world(over_nccl(), body).failures;
  on_ranks(over_nccl(), [](RankContext& rank) {
    CHECK(read_doubles(rank.world->all_reduce(ones(3), ReduceOp::kSum))[0] ==
          static_cast<double>(rank.world_size));
  });
  return failures;
}

std::string texts_of(const std::vector<RankFailure>& failures) {
  std::string all;
  for (const RankFailure& failure : failures) all += failure.error.text();
  return all;
}

void check_reported(const std::vector<RankFailure>& failures, const std::string& reason) {
  REQUIRE(failures.size() == static_cast<std::size_t>(over_nccl().ranks));
  CHECK(failures.back().error.summary() == reason);
  for (const RankFailure& failure : failures) {
    CAPTURE(failure.error.text());
    CHECK(failure.consequence == (failure.rank != failures.back().rank));
    CHECK(failure.error.text().find(reason) != std::string::npos);
  }
}

}  // namespace

TEST_CASE("B-16 the others hear of a rank that throws while its communicators are alive") {
  const MeshLayout* mesh = process_arena().layout({.shape = {over_nccl().ranks}, .names = {"x"}});
  const auto failures = failures_of([&](RankContext& rank) {
    ProcessGroup& group = rank.meshes->construct(mesh).group(0);
    rank.world->all_reduce(ones(2), ReduceOp::kSum);
    if (is_last(rank)) throw std::runtime_error("the data loader failed");
    // The world is idle, and the mesh's group has a call in flight, on one stream.
    read_doubles(group.all_reduce(ones(2), ReduceOp::kSum));
  });
  check_reported(failures, "the data loader failed");
}

TEST_CASE("B-16 an exception passes groups and pending results without waiting for anybody") {
  const auto failures = failures_of([](RankContext& rank) {
    const auto group = rank.world->communicator().split(0, rank.rank, "own");
    // The first call of a group waits for all of its ranks.
    group->all_reduce(ones(2), ReduceOp::kSum, Issue::kWait);
    if (is_last(rank)) {
      const Tensor pending = group->all_reduce(ones(2), ReduceOp::kSum, Issue::kAsync);
      throw std::runtime_error("no memory left");
    }
    rank.world->barrier();
  });
  check_reported(failures, "no memory left");
}

TEST_CASE("B-16 a result that a failure cut short is never read") {
  bool read = false;
  const auto failures = failures_of([&](RankContext& rank) {
    const Tensor y =
        is_last(rank) ? Tensor() : rank.world->all_reduce(ones(2), ReduceOp::kSum, Issue::kAsync);
    if (is_last(rank)) throw std::runtime_error("gone before the sum");
    read_doubles(y);
    read = true;
  });
  CHECK_FALSE(read);
  check_reported(failures, "gone before the sum");
}

TEST_CASE("B-16 a call that a rank has ended without ends with its name") {
  std::int64_t last = 0;
  const auto failures = failures_of([&](RankContext& rank) {
    last = rank.world_size - 1;
    rank.world->all_reduce(ones(4), ReduceOp::kSum);
    if (is_last(rank)) return;
    read_doubles(rank.world->all_reduce(ones(4), ReduceOp::kSum));
  });
  const std::string all = texts_of(failures);
  CAPTURE(all);
  CHECK(all.find(fmt::format("deadlock: no rank can advance, rank {} missing", last)) !=
        std::string::npos);
  CHECK(all.find(fmt::format("rank {}: ended", last)) != std::string::npos);
}

TEST_CASE("B-18 a first call hears at once that another rank has ended") {
  const auto failures = failures_of([](RankContext& rank) {
    if (!is_last(rank)) rank.world->all_reduce(ones(4), ReduceOp::kSum);
  });
  const std::string all = texts_of(failures);
  CAPTURE(all);
  CHECK(all.find("remote error (rank ") != std::string::npos);
}

TEST_CASE("B-18 ranks whose first calls wait for each other crosswise end with the report") {
  const LongDeadline until_the_rest_is_aborted;
  const auto failures = failures_of([](RankContext& rank) {
    const auto group = rank.world->communicator().split(0, rank.rank, "own");
    if (is_last(rank)) {
      group->all_reduce(ones(2), ReduceOp::kSum, Issue::kWait);
    } else {
      rank.world->barrier();
    }
  });
  REQUIRE(failures.size() == static_cast<std::size_t>(over_nccl().ranks));
  const std::string all = texts_of(failures);
  CAPTURE(all);
  CHECK(all.find(" waited 0.5") != std::string::npos);
  CHECK(all.find("SHARDLAB_PATIENCE=SECONDS waits longer") != std::string::npos);
}

TEST_CASE("B-16 an error that NCCL reports later ends the wait for the device") {
  const auto failures = failures_of([](RankContext& rank) {
    read_doubles(rank.world->all_reduce(ones(is_last(rank) ? 3 : 2), ReduceOp::kSum));
  });
  const std::string all = texts_of(failures);
  CAPTURE(all);
  CHECK(all.find("remote error (rank ") != std::string::npos);
  CHECK(all.find("ncclAllReduce(3 x ncclFloat32, ncclSum)") != std::string::npos);
}

TEST_CASE("K-14 a maximum of floats over ranks is NaN where that of one rank is") {
  on_ranks(over_nccl(), [](RankContext& rank) {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const double infinity = std::numeric_limits<double>::infinity();
    const Tensor x = empty(plain_device(), Dims{3}, DType::kF32);
    const auto mine = static_cast<double>(rank.rank);
    write_doubles(x, std::vector<double>{is_last(rank) ? nan : 1, -mine, -infinity});
    for (const Issue issue : {Issue::kWait, Issue::kAsync}) {
      const auto y = read_doubles(rank.world->all_reduce(x, ReduceOp::kMax, issue));
      CHECK(std::isnan(y[0]));
      CHECK(y[1] == 0);
      CHECK(y[2] == -infinity);
    }
  });
}

TEST_CASE("B-16 communicators end in one order, however the program holds them") {
  on_ranks(over_nccl(), [](RankContext& rank) {
    std::vector<std::unique_ptr<Communicator>> groups;
    for (int i = 0; i < 4; ++i) {
      groups.push_back(
          rank.world->communicator().split(0, rank.rank, "group " + std::to_string(i)));
    }
    if (rank.rank % 2 == 1) std::swap(groups[0], groups[3]);
    while (!groups.empty()) groups.pop_back();
    rank.world->barrier();
  });
}
