// Programs that are wrong, by the name in the first argument; the line of the mistake ends with
// that name.
#include <shardlab/shardlab.h>

#include <cstring>

using namespace shardlab;

namespace {

// The sum of a row-parallel layer is left out.
void missing_sum(RankContext&) {
  const MeshLayout* mesh = init_mesh({{"tp", 4}});
  const DTensor x = distribute_tensor(randn({6, 16}), mesh, "tp=R");
  const DTensor up = distribute_tensor(randn({16, 32}), mesh, "tp=S(1)");
  const DTensor down = distribute_tensor(randn({32, 16}), mesh, "tp=S(0)");
  require_grad(up);
  DTensor h = gelu(matmul(to_local(x), to_local(up)));
  for (int i = 0; i < 3; ++i) h = h * 1.5;
  const DTensor part = matmul(h, to_local(down));  // missing_sum
  backward(mean(pow(from_local(part, mesh, "tp=R"), 2)));
}

// One rank reduces in another way; its numbers are its own.
void mismatch(RankContext& rank) {
  const MeshLayout* mesh = init_mesh({{"dp", 2}, {"tp", 2}});
  DTensor x = tensor({1.0 + static_cast<double>(rank.rank), 2, 3, 4}, {4});
  for (int i = 0; i < 5; ++i) x = x * 2.0;
  const ReduceOp op = rank.rank == 1 ? ReduceOp::kMax : ReduceOp::kSum;
  x = all_reduce(x, op, get_group(mesh, "tp"));  // mismatch
  x = x + 1.0;
}

}  // namespace

int main(int argc, char** argv) {
  const bool sum = argc > 1 && std::strcmp(argv[1], "missing_sum") == 0;
  return run_main(argc, argv, {.ranks = 4}, sum ? missing_sum : mismatch);
}
