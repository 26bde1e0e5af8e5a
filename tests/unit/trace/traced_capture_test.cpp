// Functions that ask meshes, groups and placements: their graphs depend on the answers.
#include "trace/traced_capture.h"

#include <doctest/doctest.h>

#include <optional>

#include "api/shardlab.h"
#include "autograd/program.h"
#include "comm/device_mesh.h"
#include "mesh/type_string.h"
#include "propagate/propagator.h"
#include "schema/op_schema.h"
#include "tests/unit/dispatch/op_mesh.h"

namespace shardlab {
namespace {

using test::OpMesh;

// The refusal of a replay on `x`, or "runs".
std::string refused_on(const TracedFunction& f, const DTensor& x) {
  try {
    f.replay({x});
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kValue);
    return error.text();
  }
  return "runs";
}

TEST_CASE(
    "T-16 T-56 X-60 a graph rests on the meshes, placements, groups and numbers that it asked") {
  OpMesh mesh({3});
  OpMesh other({3});  // an arena of its own: equal, and another object
  mesh.run([&](RankContext& rank) {
    const auto asks = [](Tracing& tracing, const std::vector<DTensor>& in) {
      const Source arg = Source::input("arg0");
      const TracedValue m = tracing.wrap(in[0].spec()->layout(), arg.attribute("mesh"));
      const auto size = m.call_method("size", {}).as_argument().to_double();
      const TracedValue p =
          tracing.wrap(in[0].spec()->placements()[0], arg.attribute("placements[0]"));
      CHECK(p.call_method("is_shard", {}).as_argument().to_bool());
      tracing.wrap(WorldMeta::kGroup, Source::global("group")).get_attr("WORLD");
      return std::vector<DTensor>{mul(in[0], size)};
    };
    const TracedFunction f = capture_traced(asks, {mesh.place("S(0)", {4}, {1, 2, 3, 4})});
    std::vector<std::string> asked;
    for (const Guard& guard : f.guards()) {
      const bool of_inputs = guard.kind == Guard::Kind::kType || guard.source == "arg0.mesh";
      if (!of_inputs && guard.source.find('.') != std::string::npos) {
        asked.push_back(guard.source + " " + guard.expected);
      }
    }
    CHECK(asked == std::vector<std::string>{"arg0.mesh.device_type cpu",
                                            "arg0.placements[0] Shard(0)",
                                            "global.group.WORLD world on ranks 0,1,2"});
    CHECK(refused_on(f, mesh.place("S(0)", {4}, {5, 6, 7, 8})) == "runs");
    CHECK(refused_on(f, mesh.place("R", {4}, {5, 6, 7, 8})).starts_with("the graph does not fit"));
    // Each of them, changed: the first guard that does not hold is named.
    for (const auto& [source, expected] : std::vector<std::pair<std::string, std::string>>{
             {"arg0.mesh.device_type", "cuda"},
             {"arg0.placements[0]", "Shard(1)"},
             {"global.group.WORLD", "world on ranks 0,1"},
             {"global.GroupMember.WORLD", "world on ranks 0,1"},
             {"arg9.mesh", "{m0:3} on ranks 0-2"}}) {
      const TracedFunction changed = capture_traced(
          [&source = source, &expected = expected](Tracing& tracing,
                                                   const std::vector<DTensor>& in) {
            const auto kind = source.find("WORLD") != std::string::npos || source == "arg9.mesh"
                                  ? Guard::Kind::kIdentity
                                  : Guard::Kind::kEquality;
            tracing.guard({.kind = kind, .source = source, .expected = expected, .line = 7});
            return std::vector<DTensor>{in[0]};
          },
          {mesh.place("S(0)", {4}, {1, 2, 3, 4})});
      const std::string refusal = refused_on(changed, mesh.place("S(0)", {4}, {1, 2, 3, 4}));
      CHECK(refusal.starts_with("the graph does not fit: " + source + " is "));
      CHECK(refusal.find(", and was " + expected) != std::string::npos);
      CHECK(refusal.find("line 7 needed it") != std::string::npos);
    }
    // Layouts are values: an equal mesh is the same mesh (X-60).
    rank.meshes->construct(other.layout());
    CHECK(refused_on(f, other.place("S(0)", {4}, {5, 6, 7, 8})) == "runs");
  });
}

TEST_CASE("T-41 T-57 a graph that folded what depends on the rank is refused on another one") {
  OpMesh mesh({3});
  std::optional<TracedFunction> of_rank_1, of_all;
  mesh.run([&](RankContext& rank) {
    const auto asks = [](const char* method) {
      return [method](Tracing& tracing, const std::vector<DTensor>& in) {
        current_rank().position.line = 4;
        const TracedValue m =
            tracing.wrap(in[0].spec()->layout(), Source::input("arg0").attribute("mesh"));
        m.call_method(method, {});
        return std::vector<DTensor>{mul(in[0], 2.0)};
      };
    };
    const TracedFunction by_rank =
        capture_traced(asks("get_coordinate"), {mesh.place("S(0)", {4}, {1, 2, 3, 4})});
    const TracedFunction alike =
        capture_traced(asks("size"), {mesh.place("S(0)", {4}, {1, 2, 3, 4})});
    if (rank.rank == 1) of_rank_1 = by_rank, of_all = alike;
  });
  mesh.run([&](RankContext& rank) {
    const DTensor x = mesh.place("S(0)", {4}, {5, 6, 7, 8});
    CHECK(refused_on(*of_all, x) == "runs");
    const std::string refusal = refused_on(*of_rank_1, x);
    if (rank.rank == 1) {
      CHECK(refusal == "runs");
      return;
    }
    CHECK(refusal == fmt::format("the graph is that of rank 1, and this is rank {}\n"
                                 "  folded      line 4: arg0.mesh.get_coordinate() was [1]\n"
                                 "  fix         capture the program on this rank, too",
                                 rank.rank));
  });
}

TEST_CASE("T-16 T-41 the function of the README rests on the mesh that it asked for its size") {
  OpMesh mesh({4});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("S(0)", {5}, {1, 2, 3, 4, 5});
    const DTensor y = mesh.place("S(0)", {5}, {4, 8, 12, 16, 20});
    const TracedFunction f = capture_traced(
        [](Tracing& tracing, const std::vector<DTensor>& in) {
          const Source source = Source::input("arg0").attribute("mesh");
          const TracedValue mesh = tracing.wrap(in[0].spec()->layout(), source);
          const double ranks = mesh.call_method("size", {}).as_argument().to_double();
          return std::vector<DTensor>{mul(in[0], 1 / ranks)};
        },
        {x});
    f.guards();     // arg0.mesh is {dp:4} on ranks 0-3, its device type is cpu
    f.folds();      // arg0.mesh.size() was 4
    f.replay({y});  // on another mesh: refused, with the guard
    REQUIRE(f.folds().size() == 1);
    CHECK(f.folds()[0].object + "." + f.folds()[0].member + " " + f.folds()[0].value ==
          "arg0.mesh.size() 4");
    CHECK(test::whole(f.replay({y})[0]) == std::vector<double>{1, 2, 3, 4, 5});
  });
}

TEST_CASE(
    "T-37 T-38 T-62 meshes that a captured function makes are setup actions of its graph, "
    "done again in another world") {
  OpMesh mesh({2, 2});
  std::vector<std::optional<TracedFunction>> captured(4);
  mesh.run([&](RankContext& rank) {
    const auto flattens = [](Tracing& tracing, const std::vector<DTensor>& in) {
      const TracedValue m = tracing.wrap(in[0].spec()->layout());
      const TracedValue flat = m.call_method("_flatten", {});
      m.call_method("_flatten", {});
      m.call_method("_get_or_create_default_group", {});
      CHECK(tracing.setup_actions().size() == 1);
      const auto* layout = std::get<const MeshLayout*>(flat.as_constant());
      return std::vector<DTensor>{distribute_tensor(full_tensor(in[0]), layout, "m0_m1=S(0)")};
    };
    const TracedFunction f = capture_traced(flattens, {mesh.place("S(0) R", {5}, {1, 2, 3, 4, 5})});
    std::vector<std::string> made;
    for (const GraphNode& node : f.program().graph().nodes) {
      if (node.kind == NodeKind::kMesh) made.push_back(fmt::format("{}", node.mesh_dims.size()));
    }
    CHECK(made == std::vector<std::string>{"2", "0"});  // the dims are one, and the mesh over them
    captured[static_cast<std::size_t>(rank.rank)] = f;
  });
  mesh.run([&](RankContext& rank) {
    const auto place = static_cast<std::size_t>(rank.rank);
    const auto again = captured[place]->replay({mesh.place("S(0) R", {5}, {5, 6, 7, 8, 9})});
    CHECK(again.at(0).local().numel() == std::vector<std::int64_t>{2, 2, 1, 0}[place]);
    CHECK(test::whole(again[0]) == std::vector<double>{5, 6, 7, 8, 9});
  });
}

TEST_CASE("T-59 X-62 decisions of a capture are those made and planned without the caches") {
  OpMesh mesh({3});
  mesh.run([&](RankContext& rank) {
    const DTensor x = mesh.place("S(1)", {7, 5}, test::counted(35));
    const DTensor w = mesh.place("S(1)", {5, 4}, test::counted(20));
    const auto product = [](const std::vector<DTensor>& in) {
      return std::vector<DTensor>{mm(in[0], in[1])};
    };
    product({x, w});  // from here on caches know it
    const CapturedProgram f = capture(product, {x, w});
    const OpRow& row = program_calls().find("aten::mm");
    const OpSchema schema{&row, {x.spec(), w.spec()}, mesh.layout()};
    const OutputSharding decided = rank.propagator->explain(schema).sharding;
    const GraphNode& node = f.graph().nodes.back();
    CHECK(node.results.at(0).type.placements == decided.outputs.at(0)->placements());
    REQUIRE_FALSE(node.moves.empty());
    for (const GraphMove& move : node.moves) {
      const DTensorSpec& from = *(move.argument == 0 ? x : w).spec();
      const DTensorSpec& to = *decided.inputs.at(static_cast<std::size_t>(move.argument));
      CHECK((move.from == type_string(from) && move.to == type_string(to)));
      CHECK(move.plan == std::get<Plan>(make_plan(from, to, rank.plans->options())).text());
    }
  });
}

}  // namespace
}  // namespace shardlab
