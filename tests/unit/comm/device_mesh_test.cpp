#include "comm/device_mesh.h"

#include <doctest/doctest.h>

#include <vector>

#include "comm/forwarding_communicator.h"
#include "comm/observer.h"
#include "comm/process_group.h"
#include "mesh/spec.h"
#include "sim/log/event_log.h"
#include "tests/support/local_tensor.h"
#include "tests/support/on_ranks.h"

using namespace shardlab;

namespace {

using Ranks = std::vector<std::int64_t>;

Ranks ranks_of(const ProcessGroup& group) { return {group.ranks().begin(), group.ranks().end()}; }

class Recorder final : public Observer {
 public:
  void op_begins(const OpSchema&, const OutputSharding&) override {}
  void op_ends() override {}
  void redistribution(const RedistributionRecord&) override {}
  void collective(const CollectiveRecord& record) override { records.push_back(record); }
  std::vector<CollectiveRecord> records;
};

}  // namespace

TEST_CASE("M-6 a mesh has one group per mesh dim, in coordinate order") {
  const MeshLayout* layout = process_arena().layout({.shape = {2, 3}, .names = {"x", "y"}});
  on_ranks(6, [&](RankContext& rank) {
    const DeviceMesh& mesh = rank.meshes->construct(layout);
    const std::int64_t x = rank.rank / 3;
    const std::int64_t y = rank.rank % 3;
    CHECK(mesh.layout() == layout);
    REQUIRE(mesh.participates());
    CHECK(*mesh.coordinate() == Coordinate{x, y});
    CHECK(mesh.group(0).name() == "x");
    CHECK(mesh.group(1).name() == "y");
    CHECK(ranks_of(mesh.group(0)) == Ranks{y, y + 3});
    CHECK(ranks_of(mesh.group(1)) == Ranks{3 * x, 3 * x + 1, 3 * x + 2});
    CHECK(mesh.group(0).rank() == x);
    CHECK(mesh.group(1).rank() == y);
    CHECK(&device_mesh(layout) == &mesh);
    CHECK(&rank.meshes->construct(layout) == &mesh);
  });
}

TEST_CASE("B-16 meshes go in the order against that of their construction") {
  class Named final : public ForwardingCommunicator {
   public:
    Named(std::unique_ptr<Communicator> real, std::vector<std::string>& ended)
        : ForwardingCommunicator(std::move(real)), ended_(ended) {}
    ~Named() override { ended_.push_back(name()); }

   protected:
    std::unique_ptr<Communicator> wrap(std::unique_ptr<Communicator> part) override {
      return std::make_unique<Named>(std::move(part), ended_);
    }

   private:
    std::vector<std::string>& ended_;
  };
  std::vector<std::string> ended, expected{"world"};
  WorldOptions options = plain_world(1);
  options.communicator = [&](std::unique_ptr<Communicator> real) {
    return std::make_unique<Named>(std::move(real), ended);
  };
  on_ranks(options, [&](RankContext& rank) {
    for (int i = 0; i < 12; ++i) {
      const std::string name = "m" + std::to_string(i);
      rank.meshes->construct(process_arena().layout({.shape = {1}, .names = {name}}));
      expected.insert(expected.begin(), name);
    }
  });
  CHECK(ended == expected);
}

TEST_CASE("X-43 the order of the rank array is the order of the group") {
  const MeshLayout* layout =
      process_arena().layout({.shape = {3}, .names = {"x"}, .ranks = {4, 0, 2}});
  on_ranks(5, [&](RankContext& rank) {
    const DeviceMesh& mesh = rank.meshes->construct(layout);
    if (rank.rank % 2 == 1) {
      // B-11: outsiders took part in making the groups and have none.
      CHECK_FALSE(mesh.participates());
      CHECK_THROWS_AS(mesh.group(0), Error);
      return;
    }
    CHECK(ranks_of(mesh.group(0)) == Ranks{4, 0, 2});
    const Tensor mine = local_tensor({1}, DType::kI64, {static_cast<double>(rank.rank)});
    CHECK(values_of(mesh.group(0).all_gather(mine, 0, Ranks{1, 1, 1})) ==
          std::vector<double>{4, 0, 2});
  });
}

TEST_CASE("a mesh that was never made, or names ranks outside the world, is refused") {
  const MeshLayout* absent = process_arena().layout({.shape = {2}, .names = {"nowhere"}});
  const MeshLayout* large = process_arena().layout({.shape = {8}, .names = {"x"}});
  on_ranks(2, [&](RankContext& rank) {
    CHECK_THROWS_AS(rank.meshes->find(absent), Error);
    try {
      rank.meshes->construct(large);
      FAIL("accepted");
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::kValue);
      CHECK(error.summary() == "a mesh names rank 2 in a world of 2 ranks");
    }
    CHECK_THROWS_AS(rank.meshes->find(large), Error);
  });
}

TEST_CASE("B-12 groups of one rank communicate with nobody and tell nobody") {
  const MeshLayout* layout = process_arena().layout({.shape = {1, 2}, .names = {"one", "two"}});
  on_ranks(2, [&](RankContext& rank) {
    const DeviceMesh& mesh = rank.meshes->construct(layout);
    Recorder recorder;
    rank.observer = &recorder;
    rank.mode |= kModeObserve;
    ProcessGroup& group = mesh.group(0);
    CHECK(group.size() == 1);
    const Tensor x = local_tensor({2}, DType::kF32, {3, 4});
    // Ranks call different collectives: nothing meets.
    const Tensor y =
        rank.rank == 0 ? group.all_reduce(x, ReduceOp::kAvg) : group.all_gather(x, 0, Ranks{2});
    CHECK(values_of(y) == std::vector<double>{3, 4});
    group.barrier();
    CHECK(recorder.records.empty());
    // The result is a value of its own.
    y.mutable_data<float>()[0] = 9;
    CHECK(values_of(x) == std::vector<double>{3, 4});
  });
}

TEST_CASE("the observer is told what a ring would send") {
  on_ranks(4, [](RankContext& rank) {
    Recorder recorder;
    ProcessGroup& group = *rank.world;
    const Tensor x = local_tensor({8}, DType::kF32, std::vector<double>(8, 1));
    group.all_reduce(x, ReduceOp::kSum);  // before there is an observer
    rank.observer = &recorder;
    rank.mode |= kModeObserve;
    rank.position = {"a.toml", 4, 2};
    const Ranks eight(4, 8);
    const Ranks two(4, 2);
    group.all_reduce(x, ReduceOp::kMax);
    group.all_gather(x, 0, eight);
    group.reduce_scatter(x, 0, two, ReduceOp::kSum);
    group.all_to_all(x, 0, two, 0, two);
    group.broadcast(x, 1, x.meta());
    group.permute(x, (rank.rank + 1) % 4, (rank.rank + 3) % 4, x.meta());
    group.communicator().all_reduce(x, ReduceOp::kSum, Issue::kWait);  // uncounted
    REQUIRE(recorder.records.size() == 6);
    const double bytes[] = {
        2 * 0.75 * 32,  // all_reduce: 2 (n - 1) / n of the tensor
        0.75 * 128,     // all_gather: (n - 1) / n of the whole
        0.75 * 32,      // reduce_scatter: (n - 1) / n of the whole
        0.75 * 32,      // all_to_all: (n - 1) / n of the local piece
        0.75 * 32,      // broadcast
        32,             // permute: the bytes sent
    };
    for (std::size_t i = 0; i < 6; ++i) {
      const CollectiveRecord& record = recorder.records[i];
      CHECK(record.sent_bytes == bytes[i]);
      CHECK(record.group.name == "world");
      CHECK(record.group.size == 4);
      CHECK(record.dtype == DType::kF32);
      CHECK(record.input_shape == Dims{8});
      CHECK(record.position.line == 4);
    }
    CHECK(recorder.records[0].kind == CollectiveKind::kAllReduce);
    CHECK(recorder.records[0].op == ReduceOp::kMax);
    CHECK(recorder.records[5].kind == CollectiveKind::kPermute);
  });
}

TEST_CASE("a record names its group by layout, mesh dims and ranks, and its place in the group") {
  const MeshLayout* layout =
      process_arena().layout({{2, 3}, {"x", "y"}, {6, 5, 4, 2, 1, 0}});  // rank 3 is outside
  on_ranks(7, [&](RankContext& rank) {
    const DeviceMesh& mesh = rank.meshes->construct(layout);
    if (!mesh.participates()) return;
    const std::int64_t y = (*mesh.coordinate())[1];
    Recorder recorder;
    rank.observer = &recorder;
    const Tensor x = local_tensor({2}, DType::kF32, {1, 2});
    mesh.group(0).all_reduce(x, ReduceOp::kSum);  // counted, though no observer is called
    rank.mode |= kModeObserve;
    mesh.group(0).all_reduce(x, ReduceOp::kSum, Issue::kAsync).wait();
    mesh.group(1).barrier();
    rank.mode &= ~static_cast<std::uint32_t>(kModeObserve);
    REQUIRE(recorder.records.size() == 2);
    const CollectiveRecord& reduced = recorder.records[0];
    CHECK(reduced.group.layout == layout);
    CHECK(reduced.group.mesh_dims == InlineVector<std::size_t, 4>{0});
    CHECK(reduced.group.ranks() == Ranks{6 - y, 2 - y});
    CHECK(reduced.sequence == 1);
    CHECK(reduced.issue == Issue::kAsync);
    CHECK(reduced.bytes == 8);
    CHECK(recorder.records[1].sequence == 0);
    CHECK(recorder.records[1].group.name == "y");
    CHECK_FALSE(recorder.records[1].group == reduced.group);
  });
}

TEST_CASE("K-20 the observer hears once when an asynchronous result is waited for") {
  on_ranks(3, [](RankContext& rank) {
    Trace trace(TraceDetail::kEvents);
    rank.observer = &trace;
    rank.mode |= kModeObserve;
    rank.position = {"a.toml", 4, 1};
    const Ranks lengths{2, 0, 1};
    const auto own = static_cast<double>(rank.rank);
    const auto mine = lengths[static_cast<std::size_t>(rank.rank)];
    const Tensor piece =
        local_tensor({mine}, DType::kF32, std::vector<double>(static_cast<std::size_t>(mine), own));
    const Tensor gathered = rank.world->all_gather(piece, 0, lengths, Issue::kAsync);
    const Tensor reduced = rank.world->all_reduce(local_tensor({3}, DType::kF32, {own, 5, -own}),
                                                  ReduceOp::kMax, Issue::kAsync);
    CHECK(gathered.pending());
    CHECK(gathered.shape() == Dims{3});
    rank.position.line = 5;
    CHECK(values_of(reduced) == std::vector<double>{2, 5, 0});  // the second one first
    rank.position.line = 6;
    gathered.wait();
    CHECK_FALSE(gathered.pending());
    gathered.wait();
    CHECK(values_of(gathered) == std::vector<double>{0, 0, 2});
    rank.world->all_reduce(reduced, ReduceOp::kMin);  // waits as it is entered
    rank.mode &= ~static_cast<std::uint32_t>(kModeObserve);
    CHECK(collective_log(trace.events()) ==
          fmt::format("forward line 4 depth 0: all_gather sum over world of 3 ranks, f32[{}], "
                      "8 bytes\n"
                      "forward line 4 depth 0: all_reduce max over world of 3 ranks, f32[3], "
                      "16 bytes\n"
                      "forward line 5 depth 0: wait for all_reduce 1 over world\n"
                      "forward line 6 depth 0: wait for all_gather 0 over world\n"
                      "forward line 6 depth 0: all_reduce min over world of 3 ranks, f32[3], "
                      "16 bytes\n",
                      mine));
    REQUIRE(trace.events().size() == 5);
    CHECK(trace.events()[3].collective.position.line == 4);  // of the call, not of the wait
    CHECK(trace.events()[3].collective.group.ranks() == Ranks{0, 1, 2});
  });
}

TEST_CASE("flattened dims have a group of their own, row-major in ascending dim order") {
  const MeshLayout* layout = process_arena().layout({.shape = {2, 2, 2}, .names = {"x", "y", "z"}});
  on_ranks(9, [&](RankContext& rank) {
    const std::size_t dims[] = {2, 0};
    const DeviceMesh& mesh = rank.meshes->flatten(layout, dims);
    CHECK(mesh.flattened() == FlattenedDims{0b101});
    if (!mesh.participates()) return;
    const std::int64_t y = rank.rank / 2 % 2 * 2;
    CHECK(ranks_of(mesh.group(dims)) == Ranks{y, y + 1, y + 4, y + 5});
    CHECK(mesh.group(dims).name() == "x_z");
    CHECK(ranks_of(*mesh.everyone()) == Ranks{0, 1, 2, 3, 4, 5, 6, 7});
    const std::size_t others[] = {0, 1};
    CHECK_THROWS_AS(mesh.group(others), Error);
  });
  on_ranks(8, [&](RankContext& rank) {
    const std::size_t twice[] = {1, 1};
    CHECK_THROWS_AS(rank.meshes->flatten(layout, twice), Error);
    CHECK(rank.meshes->construct(layout).everyone() == rank.world);
  });
}
