// The door as its users see it (B-1, B-9).
#include <doctest/doctest.h>

#include "backends/threads/threads.h"
#include "comm/device_mesh.h"
#include "mesh/spec.h"
#include "sim/world/backends.h"
#include "tests/support/local_tensor.h"
#include "tests/support/on_ranks.h"

namespace shardlab {
namespace {

using Values = std::vector<double>;

TEST_CASE("B-1 every collective works in a group of some ranks and knows nothing of placements") {
  const MeshLayout* layout = process_arena().layout({.shape = {2, 2}, .names = {"x", "y"}});
  on_ranks(4, [&](RankContext& rank) {
    Communicator& group = rank.meshes->construct(layout).group(0).communicator();
    const std::int64_t me = group.rank(), other = 1 - me;
    const auto own = static_cast<double>(rank.rank),
               far = own + 2 * static_cast<double>(other - me);
    const Values both = me == 0 ? Values{own, far} : Values{far, own};
    const Tensor x = local_tensor({1}, DType::kF32, {own});
    const Tensor pair = local_tensor({2}, DType::kF32, {own, own + 10});
    const std::int64_t ones[] = {1, 1};
    for (const Issue issue : {Issue::kWait, Issue::kAsync}) {
      CHECK(values_of(group.all_reduce(x, ReduceOp::kSum, issue)) == Values{own + far});
      CHECK(values_of(group.all_gather(x, 0, ones, issue)) == both);
      CHECK(values_of(group.reduce_scatter(pair, 0, ones, ReduceOp::kMax, issue)) ==
            Values{std::max(own, far) + (me == 0 ? 0 : 10)});
      CHECK(values_of(group.all_to_all(pair, 0, ones, 0, ones, issue)) ==
            (me == 0 ? Values{both[0], both[1]} : Values{both[0] + 10, both[1] + 10}));
    }
    CHECK(values_of(group.broadcast(x, 1, x.meta())) == Values{both[1]});
    CHECK(values_of(group.scatter(pair, 0, 0, ones, pair.meta())) ==
          Values{both[0] + (me == 0 ? 0 : 10)});
    const SendRecv exchange[] = {{.peer = other, .send = x, .receives = true, .receive = x.meta()}};
    CHECK(values_of(group.batch(exchange)[0]) == Values{far});
    const std::string text = std::to_string(rank.rank);
    CHECK(group.all_gather_bytes(text)[static_cast<std::size_t>(me)] == text);
    group.barrier();
  });
}

TEST_CASE("B-9 a backend from elsewhere is registered by its name, which must be free") {
  register_backend("own", make_threads_backend);
  CHECK(backend_names().back() == "own");
  WorldOptions options = plain_world(3);
  options.backend = "own";
  on_ranks(options, [](RankContext& rank) {
    const Tensor x = local_tensor({1}, DType::kF32, {static_cast<double>(rank.rank)});
    CHECK(values_of(rank.world->all_reduce(x, ReduceOp::kSum)) == Values{3});
  });
  for (const char* name : {"own", "threads", "fake", ""}) {
    CAPTURE(name);
    CHECK_THROWS_WITH_AS(register_backend(name, make_threads_backend),
                         doctest::Contains("is taken or empty"), Error);
  }
}

TEST_CASE(
    "B-9 a backend that this build lacks is called unsupported, and those it has are listed") {
  const std::vector<std::string_view> names = backend_names();
  REQUIRE_FALSE(names.empty());
  CHECK(names[0] == "threads");
  for (const std::string_view name : {"threads", "fake", "mpi", "nccl"}) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    CAPTURE(name);
    try {
      find_backend(name);
      FAIL("found");
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::kUnsupported);
      REQUIRE(error.find("fix") != nullptr);
      CHECK(error.find("fix")->find("threads") != std::string::npos);
    }
  }
}

}  // namespace
}  // namespace shardlab
