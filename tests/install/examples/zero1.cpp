// ZeRO-1: each rank updates its part of every parameter. With clipping by the global norm, a
// learning rate that decays, and a checkpoint.
#include <shardlab/shardlab.h>

#include <cstdio>
#include <deque>

using namespace shardlab;

struct Block : Module {
  Linear up, down;
  LayerNorm norm;
  explicit Block(std::int64_t d) : up(d, 4 * d), down(4 * d, d), norm(d) {
    add("up", up), add("down", down), add("norm", norm);
  }
  DTensor forward(Operand x) const {
    return x.tensor + down.forward(gelu(up.forward(norm.forward(x))));
  }
};

int main(int argc, char** argv) {
  return run_main(argc, argv, {.ranks = 4}, [](RankContext& rank) {
    const MeshLayout* mesh = init_mesh({{"dp", rank.world_size}});
    Block net(16);
    shard(net, mesh, {});  // replicas: their gradients are sums over dp
    const DTensor x = distribute_tensor(randn({32, 16}), mesh, "dp=S(0)");
    double rate = 1e-2;
    for (int step = 0; step < 5; ++step, rate *= 0.9) {
      net.zero_grad();
      const DTensor loss = mean(pow(net.forward(x) - x, 2));
      loss.backward();
      const double norm = clip_grad_norm_(net.parameters(), 1.0);
      const NoGradGuard guard;
      for (const DTensor& w : net.parameters()) {
        w -= redistribute(rate * redistribute(w.grad(), "dp=S(0)"), "dp=R");
      }
      const double value = loss.item().to_double();
      if (rank.rank == 0) std::printf("step %d: loss %.4f, norm %.4f\n", step, value, norm);
    }
    save("zero1.safetensors", net.named_parameters());
    net.replace(load("zero1.safetensors"));
  });
}
