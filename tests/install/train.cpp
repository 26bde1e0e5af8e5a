// A model that is trained on whatever the program is started on, as src/api/README.md shows it.
#include <shardlab/shardlab.h>

#include <cstdio>

using namespace shardlab;

struct Mlp : Module {
  Linear up, down;
  Mlp(std::int64_t width, std::int64_t hidden) : up(width, hidden), down(hidden, width) {
    add("up", up);
    add("down", down);
  }
  DTensor forward(Operand x) const { return down.forward(gelu(up.forward(x))); }
};

int main(int argc, char** argv) {
  spmd(options_from(argc, argv, {.ranks = 8}), [](RankContext& rank) {
    const MeshLayout* mesh = init_mesh({{"dp", 2}, {"tp", rank.world_size / 2}});
    Mlp model(16, 64);
    shard(model, mesh,
          {{"up.weight", "[_@tp, _]"}, {"up.bias", "[_@tp]"}, {"down.weight", "[_, _@tp]"}});
    AdamW optimizer(model.parameters(), {.lr = 1e-2});
    const DTensor x = distribute_tensor(randn({32, 16}), mesh, "dp=S(0)");
    for (int step = 0; step <= 40; ++step) {
      optimizer.zero_grad();
      const DTensor loss = mean(pow(model.forward(x) - x, 2));
      loss.backward();
      optimizer.step();
      const double value = loss.item().to_double();  // every rank takes part
      if (rank.rank == 0 && step % 20 == 0) std::printf("step %d: loss %.3f\n", step, value);
    }
  });
}
