#include "api/groups.h"

#include <doctest/doctest.h>

#include "api/debug_mode.h"
#include "api/shardlab.h"
#include "autograd/tape.h"
#include "sim/world/spmd.h"
#include "tests/unit/dispatch/op_mesh.h"

using namespace shardlab;

namespace {

using test::whole;
using Ranks = std::vector<std::int64_t>;

}  // namespace

// The answers of torch's DeviceMesh over [[0, 1, 3], [4, 5, 6]] in a world of 8.
TEST_CASE("T-32 to T-35, T-42 places in a mesh and groups, outside of it too") {
  spmd(8, [](RankContext& rank) {
    const MeshLayout* mesh = init_mesh({{"tp", 2}, {"dp", 3}}, {0, 1, 3, 4, 5, 6});
    CHECK(get_process_group_ranks() == Ranks{0, 1, 2, 3, 4, 5, 6, 7});
    CHECK(rank_not_in_group(nullptr));
    if (rank.rank == 2) {
      CHECK(!get_coordinate(mesh));
      CHECK_THROWS_WITH_AS(get_local_rank(mesh, "dp"), doctest::Contains("rank 2 is not in"),
                           Error);
    }
    if (rank.rank != 3) return;
    CHECK(get_coordinate(mesh) == Coordinate{0, 2});
    CHECK(get_local_rank(mesh, "dp") == 2);
    const ProcessGroup& group = get_group(mesh, "dp");
    CHECK((group.rank() == 2 && group.size() == 3 && !rank_not_in_group(&group)));
    CHECK(get_process_group_ranks(&group) == Ranks{0, 1, 3});
    CHECK(get_group_size_by_name(mesh, "dp") == 3);
    CHECK(get_group_size_by_name(mesh, "world") == 8);
    CHECK(resolve_group_name_by_ranks_and_tag(mesh, Ranks{3, 0, 1}, "") == "dp");
    CHECK(resolve_group_name_by_ranks_and_tag(mesh, Ranks{6, 3}, "ptd:tp") == "tp");
    CHECK_THROWS_WITH_AS(resolve_group_name_by_ranks_and_tag(mesh, Ranks{0, 1}, ""),
                         doctest::Contains("has the ranks [0, 1]"), Error);
    CHECK_THROWS_WITH_AS(get_group_size_by_name(mesh, "dq"),
                         doctest::Contains("no process group is called 'dq'"), Error);
    CHECK_THROWS_WITH_AS(get_group(mesh), doctest::Contains("2 dims, and none is named"), Error);
  });
}

TEST_CASE("T-38 a flattened mesh has groups and holds tensors") {
  spmd(6, [](RankContext& rank) {
    const MeshLayout* mesh = init_mesh({{"tp", 2}, {"dp", 3}});
    const MeshLayout* flat = flattened_mesh(mesh, {"tp", "dp"}, "all");
    CHECK(get_local_rank(flat) == rank.rank);
    CHECK(get_process_group_ranks(&get_group(flat)) == Ranks{0, 1, 2, 3, 4, 5});
    const DTensor x = distribute_tensor(arange(7), flat, {Placement::shard(0)});
    CHECK(x.local().numel() == Ranks{2, 2, 2, 1, 0, 0}[static_cast<std::size_t>(rank.rank)]);
    CHECK(whole(x) == std::vector<double>{0, 1, 2, 3, 4, 5, 6});
  });
}

TEST_CASE("a debug mode counts on its rank what a part of the program communicates") {
  spmd(2, [](RankContext&) {
    const MeshLayout* mesh = init_mesh({{"tp", 2}});
    const DTensor x = distribute_tensor(tensor({1, 2, 3}, {3}), mesh, {Placement::shard(0)});
    require_grad(x);
    CommDebugMode comm;
    comm.enter();
    CHECK_THROWS_WITH_AS(comm.enter(), doctest::Contains("counts already"), Error);
    backward(sum(redistribute(x, "tp=R")));
    comm.leave();
    redistribute(x, "tp=R");
    CHECK(comm.count(CollectiveKind::kAllGather) == 1);
    CHECK(comm.total() == 1);
  });
}

TEST_CASE("calls are not recorded while gradients are off; hooks see and change gradients") {
  spmd(2, [](RankContext&) {
    const MeshLayout* mesh = init_mesh({{"tp", 2}});
    const DTensor x = distribute_tensor(tensor({1, 2, 3}, {3}), mesh, {Placement::shard(0)});
    require_grad(x);
    {
      const GradModeScope off(false);
      CHECK(!requires_grad(x + x));
    }
    int calls = 0;
    HookHandle handle = register_hook(x, [&](const DTensor& gradient) {
      ++calls;
      return gradient * 2.0;
    });
    backward(sum(x + x));
    CHECK(whole(grad_of(x)) == std::vector<double>{4, 4, 4});
    handle.remove();
    backward(sum(x));
    CHECK(whole(grad_of(x)) == std::vector<double>{5, 5, 5});
    CHECK(calls == 1);
  });
}

TEST_CASE("around a part of a program") {
  spmd(2, [](RankContext&) {
    const MeshLayout* mesh = init_mesh({{"tp", 2}});
    const DTensor w = distribute_tensor(tensor({1, 2, 3}, {3}), mesh, {Placement::shard(0)});
    require_grad(w);
    const DTensor loss = sum(redistribute(w, "tp=R"));
    // Counts the communication that follows.
    CommDebugMode comm;
    comm.enter();
    // Sees each gradient of w, and changes it.
    HookHandle handle = register_hook(w, [](const DTensor& gradient) { return gradient * 0.5; });
    backward(loss);
    comm.leave();
    const std::int64_t gathers = comm.count(CollectiveKind::kAllGather);
    // Nothing is recorded while it lives.
    const NoGradGuard guard;
    CHECK(gathers == 0);
    CHECK(whole(grad_of(w)) == std::vector<double>{0.5, 0.5, 0.5});
    CHECK(!requires_grad(w * 2.0));
  });
}
