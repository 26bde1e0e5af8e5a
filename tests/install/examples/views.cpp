// Several meshes over the same ranks: dense weights on dp x tp, a bias on a slice, experts on efsdp
// x ep, the loss over one flattened dim; one norm clips the gradients of all.
#include <shardlab/shardlab.h>

#include <cstdio>

using namespace shardlab;

int main(int argc, char** argv) {
  return run_main(argc, argv, {.ranks = 4}, [](RankContext& rank) {
    const std::int64_t half = rank.world_size > 1 ? 2 : 1, rest = rank.world_size / half;
    const MeshLayout* mesh = init_mesh({{"dp", half}, {"tp", rest}});
    const MeshLayout* tp = submesh(mesh, {"tp"});
    const MeshLayout* all = flattened_mesh(mesh, {"dp", "tp"}, "loss");
    const MeshLayout* sparse = unflatten_mesh(all, "loss", {{"efsdp", rest}, {"ep", half}});
    const DTensor x = distribute_tensor(randn({7, 6}), mesh, "dp=S(0)");
    const DTensor up = distribute_tensor(randn({6, 10}), mesh, "dp=S(0), tp=S(1)");
    const DTensor bias = distribute_tensor(randn({10}), tp, "tp=S(0)");
    const DTensor experts = distribute_tensor(randn({4, 10, 6}), sparse, "efsdp=S(1), ep=S(0)");
    for (const DTensor& leaf : {up, bias, experts}) require_grad(leaf);

    const DTensor added = redistribute(bias, mesh, Placements{Replicate(), Shard(0)});
    const DTensor h = gelu(matmul(x, redistribute(up, "dp=R")) + added);
    const DTensor tokens = redistribute(h, sparse, Placements{Replicate(), Replicate()});
    const DTensor mixed = sum(matmul(tokens, redistribute(experts, "efsdp=R")), {0});
    const DTensor y = redistribute(mixed, all, Placements{Shard(0)});
    const DTensor loss = mean(pow(y, 2));
    backward(loss);
    const double before = clip_grad_norm_({up, bias, experts}, 0.5);
    const double after = clip_grad_norm_({up, bias, experts}, 0.5);
    const double value = loss.item().to_double();
    if (rank.rank == 0) std::printf("loss %.4f, norms %.4f %.4f\n", value, before, after);
  });
}
