// Data of the program in and out, without a way over doubles.
#include <shardlab/shardlab.h>

#include <cstdio>
#include <numeric>
#include <vector>

using namespace shardlab;

int main(int argc, char** argv) {
  std::vector<float> data(12 * 8);
  std::iota(data.begin(), data.end(), 0.f);
  return run_main(argc, argv, {.ranks = 4}, [&](RankContext& rank) {
    const MeshLayout* mesh = init_mesh({{"dp", 4}});
    const DTensor x = distribute_tensor(from_span(data, {12, 8}), mesh, "dp=S(0)");
    const DTensor y = x.matmul(x.transpose(0, 1)).full_tensor();
    const std::span<const float> numbers = as_span<float>(y);
    if (rank.rank == 0) std::printf("%zu %g\n", numbers.size(), numbers[13]);
  });
}
