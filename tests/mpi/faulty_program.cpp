// A program in C++ whose processes fail at places that faults.cpp chooses, or in its body, where
// SHARDLAB_FAULT names the stage "body" and how: throw, throw-int, segfault, sleep.
// SHARDLAB_ROUNDS: its number of collectives.
#include <shardlab/shardlab.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>

using namespace shardlab;

namespace {

void at_body(std::int64_t rank) {
  const char* text = std::getenv("SHARDLAB_FAULT");
  const std::string wanted = text == nullptr ? "" : text;
  const std::string mine = std::to_string(rank) + " body ";
  if (!wanted.starts_with(mine)) return;
  const std::string how = wanted.substr(mine.size());
  if (how == "throw") throw std::runtime_error("the data loader failed");
  if (how == "throw-int") throw 7;
  if (how == "segfault") raise(SIGSEGV);
  if (how == "sleep") sleep(600);
}

}  // namespace

int main(int argc, char** argv) {
  const int code = run_main(argc, argv, {.ranks = 4}, [](RankContext& rank) {
    DTensor x = ones({300});
    const char* rounds = std::getenv("SHARDLAB_ROUNDS");
    for (int i = 0; i < (rounds == nullptr ? 8 : std::atoi(rounds)); ++i) {
      if (i == 4) at_body(rank.rank);
      x = all_reduce(x, ReduceOp::kSum, world_group()) / static_cast<double>(rank.world_size);
    }
    const double total = sum(x).item().to_double();
    if (rank.rank == 0) std::printf("sum %g\n", total);
  });
  const char* text = std::getenv("SHARDLAB_FAULT");
  const char* rank =
      std::getenv("RANK") != nullptr ? std::getenv("RANK") : std::getenv("OMPI_COMM_WORLD_RANK");
  const bool works_on =
      text != nullptr && rank != nullptr && std::string(text) == std::string(rank) + " after sleep";
  if (works_on) sleep(600);
  return code;
}
