// A user's program: two shards of a matrix product, added up.
#include <shardlab/checkpoint.h>
#include <shardlab/trace.h>

#include <cstdio>
#include <filesystem>

using namespace shardlab;

int main() {
  spmd(4, [](RankContext& rank) {
    const MeshLayout* mesh = init_mesh({{"tp", 4}});
    const DTensor x = make_input("x", "f32[3, 10@tp]", mesh, {"ones", {}, 1, {}});
    const DTensor w = distribute_tensor(ones({10, 2}), mesh, "tp=S(0)");
    const DTensor pending = matmul(x, w);
    const DTensor y = redistribute(pending, "tp=R");
    const auto saved = std::filesystem::temp_directory_path() / "shardlab_installed";
    save({{"y", y}}, saved.string());
    if (rank.rank != 0) return;
    std::printf("%s -> %s, %g\n", type_string(pending).c_str(), type_string(y).c_str(),
                read_doubles(load(saved.string(), "y", mesh, {Placement::replicate()}).local())[5]);
  });
}
