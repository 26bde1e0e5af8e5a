// GPipe: two stages over two copies, three micro-batches, by messages.
#include <shardlab/shardlab.h>

#include <cstdio>

using namespace shardlab;

int main(int argc, char** argv) {
  return run_main(argc, argv, {.ranks = 4}, [](RankContext& rank) {
    const MeshLayout* mesh = init_mesh({{"pp", 2}, {"dp", 2}});
    ProcessGroup &pp = get_group(mesh, "pp"), &dp = get_group(mesh, "dp");
    const bool first = get_local_rank(mesh, "pp") == 0;
    Linear layer(8, 8);
    DTensor in[3], out[3];
    double total = 0;
    for (int micro = 0; micro < 3; ++micro) {
      in[micro] = first ? randn({4, 8}) : zeros({4, 8});
      if (!first) recv(in[micro], 0, pp);
      out[micro] = relu(layer.forward(in[micro].requires_grad_()));
      if (first) send(out[micro].detach(), 1, pp);
    }
    for (int micro = 0; micro < 3; ++micro) {
      const DTensor gradient = zeros({4, 8}), loss = mean(out[micro].pow(2)) / 3;
      first ? void(recv(gradient, 1, pp)) : loss.backward();
      first ? backward(out[micro], gradient) : send(in[micro].grad(), 0, pp);
      total += loss.item().to_double();
    }
    const DTensor g = all_reduce(layer.weight.grad(), ReduceOp::kAvg, dp);
    const double norm = g.pow(2).sum().sqrt().item().to_double();
    if (rank.rank == 2) std::printf("stage 1: loss %.4f |g| %.5f\n", total, norm);
  });
}
