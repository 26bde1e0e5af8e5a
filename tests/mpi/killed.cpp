// One process of a job is killed between two collectives; the others print what they learn, and
// when: mpirun passes on output at times of its own. Driven by failures_test.py.
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "comm/process_group.h"
#include "tests/support/local_tensor.h"
#include "tests/support/on_ranks.h"

using namespace shardlab;

namespace {

// Processes of one machine read the same clock.
long long nanoseconds() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

int main(int count, char** arguments) {
  const std::int64_t victim = count > 1 ? std::atoll(arguments[1]) : 0;
  WorldOptions world = plain_world(4);
  world.backend = "mpi";
  try {
    run_world(world, [&](RankContext& rank) {
      const Tensor x = local_tensor({1000}, DType::kF32, std::vector<double>(1000, 1));
      for (int i = 0; i < 1'000'000; ++i) {
        if (i == 100 && rank.rank == victim) {
          std::printf("%lld killed\n", nanoseconds());
          std::fflush(stdout);
          std::raise(SIGKILL);
        }
        rank.world->all_reduce(x, ReduceOp::kSum);
      }
    }).rethrow();
  } catch (const Error& error) {
    std::printf("%lld %s\n", nanoseconds(), error.summary().c_str());
    std::fflush(stdout);
    return 1;
  }
  return 0;
}
