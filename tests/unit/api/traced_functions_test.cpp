#include "api/traced_functions.h"

#include "api/groups.h"
#include "api/mesh.h"
#include "autograd/autograd.h"
#include "sim/world/spmd.h"
#include "tests/unit/trace/traced.h"

using namespace shardlab;

namespace {

using FromLocal = DTensor (*)(const DTensor&, const MeshLayout*, const Placements&,
                              const std::optional<TensorMeta>&);
using ToLocal = DTensor (*)(const DTensor&, const std::optional<Placements>&);

// A function with the type of one that is recognised.
std::string no_tag(const ProcessGroup&) { return ""; }

}  // namespace

TEST_CASE("T-12 T-13 from_local is recognised by identity, on a rank") {
  CHECK_FALSE(is_from_local(static_cast<FromLocal>(&from_local)));
  CHECK_FALSE(is_constant_group_function(&get_group_tag));
  spmd(2, [](RankContext&) {
    CHECK(is_from_local(static_cast<FromLocal>(&from_local)));
    CHECK_FALSE(is_from_local(static_cast<ToLocal>(&to_local)));
    CHECK_FALSE(is_from_local(std::string("from_local")));
    const FromLocal other = [](const DTensor& x, const MeshLayout*, const Placements&,
                               const std::optional<TensorMeta>&) { return x; };
    CHECK_FALSE(is_from_local(other));
  });
}

// torch's functions answer so on [[0, 1, 3], [4, 5, 6]] in a world of 8; names are ours.
TEST_CASE("T-14 five group functions run at capture and become constants") {
  spmd(8, [](RankContext& rank) {
    const MeshLayout* layout = init_mesh({{"tp", 2}, {"dp", 3}}, {0, 1, 3, 4, 5, 6});
    CHECK_FALSE(is_constant_group_function(&no_tag));
    CHECK_FALSE(is_constant_group_function(&get_coordinate));
    for (const HostObject& function :
         {HostObject(&get_group_size_by_name), HostObject(&get_group_tag),
          HostObject(&rank_not_in_group), HostObject(&get_process_group_ranks),
          HostObject(&resolve_group_name_by_ranks_and_tag)}) {
      CHECK(is_constant_group_function(function));
    }
    if (rank.rank != 3) return;
    Tracing tracing;
    const TracedValue mesh = tracing.wrap(layout);
    const TracedValue group = mesh.call_method("get_group", {{tracing.constant("dp")}, {}});
    const auto call = [&](const HostObject& function, std::vector<TracedValue> given) {
      const TracedValue answer = call_group_function(tracing, function, {std::move(given), {}});
      CHECK(answer.kind() == TracedKind::kConstant);
      return test::text(answer);
    };
    CHECK(call(&get_group_size_by_name, {mesh, tracing.constant("dp")}) == "3");
    CHECK(call(&get_group_tag, {group}) == "\"ptd:dp\"");
    CHECK(call(&rank_not_in_group, {group}) == "False");
    CHECK(call(&rank_not_in_group, {tracing.wrap(EnumConstant())}) == "True");
    CHECK(call(&get_process_group_ranks, {group}) == "[0, 1, 3]");
    CHECK(call(&get_process_group_ranks, {tracing.constant({})}) == "[0, 1, 2, 3, 4, 5, 6, 7]");
    CHECK(call(&resolve_group_name_by_ranks_and_tag,
               {mesh, tracing.constant(Dims{3, 0, 1}), tracing.constant("")}) == "\"dp\"");
    std::vector<bool> by_rank;
    for (const Fold& fold : tracing.folds()) {
      if (fold.object == "function") by_rank.push_back(fold.by_rank);
    }
    CHECK(by_rank == std::vector<bool>{false, false, true, true, true, true, true});
    CHECK_THROWS_AS(call(&get_group_tag, {}), Error);
    CHECK_THROWS_AS(call(&get_group_tag, {tracing.constant({})}), Error);
    CHECK_THROWS_WITH_AS(call(&get_group_tag, {tracing.wrap(WorldMeta::kGroup)}),
                         doctest::Contains("a value that is not a constant"), Error);
  });
}
