// Each kind of event of a program, recorded and run again: the graph has a node for each of the
// program's calls, its text reads back as the same graph, and its results have the bits of the
// program's own values, on ranks with uneven and with empty pieces.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "api/shardlab.h"
#include "autograd/program.h"
#include "tests/unit/dispatch/op_mesh.h"
#include "trace/compare_graphs.h"
#include "trace/graph_json.h"
#include "trace/graph_text.h"
#include "trace/recorder.h"
#include "trace/replay.h"

namespace shardlab {
namespace {

using test::OpMesh;
using Made = std::vector<DTensor>;
using EventProgram = std::function<Made(const MeshLayout* mesh, const DTensor& x)>;

struct EventRow {
  std::string what;
  std::string nodes;  ///< kinds after the input, ops and collectives by name, in order
  EventProgram program;
};

std::string nodes_of(const ProgramGraph& graph) {
  std::string text;
  for (std::size_t i = 1; i < graph.nodes.size(); ++i) {
    const GraphNode& node = graph.nodes[i];
    const bool named = node.kind == NodeKind::kOp || node.kind == NodeKind::kCollective;
    text += (text.empty() ? "" : " ") + (named ? node.name : std::string(kind_name(node.kind)));
  }
  return text;
}

/// Recorded, written, read and run again on another input of the same values.
void check_events(const EventRow& row, std::int64_t rows) {
  CAPTURE(row.what);
  CAPTURE(rows);
  OpMesh mesh({3});
  mesh.run([&](RankContext&) {
    const auto input = [&] { return mesh.place("S(0)", {rows, 2}, test::counted(2 * rows)); };
    const DTensor x = input();
    Recorder recorder(program_calls(), mesh.layout());
    recorder.input("x", {.init = "randn", .arguments = {}, .values = {}}, x);
    Made made;
    {
      const ObserverScope observed(recorder.listen(nullptr));
      const ProgramScope scope(recorder);
      made = row.program(mesh.layout(), x);
    }
    const ProgramGraph graph = recorder.function(made);
    CHECK(nodes_of(graph) == row.nodes);
    const std::string text = graph_json(graph);
    const ProgramGraph read = read_graphs(text).at(0);
    CHECK(graph_json(read) == text);
    CHECK_FALSE(graph_text(graph, GraphLevel::kRank).empty());
    CHECK_FALSE(first_difference(graph, read).has_value());
    const Replayed replayed = replay(read, mesh.layout()->arena(), std::vector<DTensor>{input()});
    REQUIRE(replayed.outputs.size() == made.size());
    for (std::size_t i = 0; i < made.size(); ++i) {
      CAPTURE(i);
      CHECK(replayed.outputs[i].dtype() == made[i].dtype());
      CHECK(read_bytes(replayed.outputs[i].local()) == read_bytes(made[i].local()));
    }
  });
}

DTensor plain_piece(const DTensor& x) { return to_local(x); }

void check_events(const std::vector<EventRow>& events) {
  for (const EventRow& row : events) {
    for (const std::int64_t rows : {7, 1, 0}) check_events(row, rows);
  }
}

}  // namespace

TEST_CASE("T-1 T-58 ops, factories, seeds and generators come again") {
  check_events({
      {"ops", "aten::mul.Tensor aten::add.Scalar",
       [](const MeshLayout*, const DTensor& x) { return Made{x * x + 1.0}; }},
      {"factories", "factory factory aten::add.Tensor",
       [](const MeshLayout* mesh, const DTensor&) {
         const Factory cut{.mesh = mesh, .placements = {Shard(0)}};
         return Made{full({4}, 2.5, cut) + ones({4}, cut)};
       }},
      {"draws, seeded anew", "seed factory seed factory",
       [](const MeshLayout* mesh, const DTensor&) {
         manual_seed(11);
         const DTensor a = randn({5}, {.mesh = mesh, .placements = {Shard(0)}});
         manual_seed(12);
         return Made{a, rand({5}, {.mesh = mesh})};
       }},
      {"a list of tensors", "aten::split.Tensor aten::cat",
       [](const MeshLayout*, const DTensor& x) {
         const Made halves = split(x, 1, 1);
         return Made{cat({halves[1], halves[0]}, 1)};
       }},
      {"a write, and what sees it", "aten::clone aten::select.int aten::mul_.Scalar",
       [](const MeshLayout*, const DTensor& x) {
         const DTensor y = clone(x);
         mul_(select(y, 1, 0), 3.0);
         return Made{y};
       }},
  });
}

TEST_CASE("T-1 T-58 calls that enter and leave the mesh run again") {
  check_events({
      {"moves", "redistribute redistribute",
       [](const MeshLayout*, const DTensor& x) {
         const DTensor whole = redistribute(x, {Replicate()});
         return Made{whole, redistribute(whole, {Shard(1)})};
       }},
      {"a move by a planner, in another dtype", "redistribute",
       [](const MeshLayout*, const DTensor& x) {
         RedistributeOptions options;
         options.planner = PlannerKind::kGraph;
         return Made{redistribute(x, {Replicate()}, options, {.forward = DType::kF64})};
       }},
      {"an asynchronous move", "redistribute aten::add.Scalar",
       [](const MeshLayout*, const DTensor& x) {
         RedistributeOptions options;
         options.issue = Issue::kAsync;
         return Made{redistribute(x, {Replicate()}, options) + 1.0};
       }},
      {"pieces and back", "to_local aten::mul.Scalar from_local",
       [](const MeshLayout* mesh, const DTensor& x) {
         const DTensor piece = plain_piece(x) * 2.0;
         return Made{from_local(piece, mesh, {Shard(0)}, x.spec()->meta())};
       }},
      {"a plain value placed, whole and as terms", "const distribute const distribute",
       [](const MeshLayout* mesh, const DTensor&) {
         const DTensor a = distribute_tensor(tensor({1, 2, 3}, {3}), mesh, {Shard(0)});
         return Made{a, distribute_tensor(tensor({4, 5}, {2}), mesh, {Partial()})};
       }},
      {"the value of one rank", "const distribute",
       [](const MeshLayout* mesh, const DTensor&) {
         const double own = static_cast<double>(current_rank().rank);
         return Made{distribute_tensor(tensor({own, 1}, {2}), mesh, {Replicate()}, 2)};
       }},
  });
}

TEST_CASE("T-1 T-58 collectives of the program come again, on the world and on its mesh") {
  check_events({
      {"on the world", "const all_reduce all_gather barrier",
       [](const MeshLayout*, const DTensor&) {
         const double own = static_cast<double>(current_rank().rank);
         const DTensor piece = tensor({own, 2 * own}, {2});
         ProcessGroup& world = world_group();
         const Made both{all_reduce(piece, ReduceOp::kMax, world), all_gather(piece, 0, world)};
         barrier(world);
         return both;
       }},
      {"on the mesh", "const reduce_scatter all_to_all broadcast",
       [](const MeshLayout* mesh, const DTensor&) {
         const double own = static_cast<double>(current_rank().rank);
         const DTensor piece = tensor({own, 2, 3, 4, 5, own}, {3, 2});
         ProcessGroup& group = get_group(mesh);
         return Made{reduce_scatter(piece, 0, ReduceOp::kSum, group),
                     all_to_all(piece, 0, 1, group), broadcast(piece, 1, group)};
       }},
  });
}

TEST_CASE("T-1 T-55 T-58 gradients, hooks and what leaves forget come again") {
  check_events({
      {"backward", "require_grad aten::mul.Tensor aten::sum backward gradient",
       [](const MeshLayout*, const DTensor& x) {
         require_grad(x);
         backward(sum(x * x));
         return Made{grad_of(x)};
       }},
      {"twice, then dropped",
       "require_grad aten::mul.Tensor aten::sum backward drop_grad backward gradient",
       [](const MeshLayout*, const DTensor& x) {
         require_grad(x);
         const DTensor loss = sum(x * x);
         backward(loss, {}, Graph::kRetain);
         drop_grad(x);
         backward(loss);
         return Made{grad_of(x)};
       }},
      {"second gradients",
       "require_grad aten::mul.Tensor aten::mul.Tensor aten::sum backward aten::sum backward",
       [](const MeshLayout*, const DTensor& x) {
         require_grad(x);
         const Made first = gradients(sum(x * x * x), {x}, {}, Graph::kCreate);
         return Made{gradients(sum(first[0]), {x})[0]};
       }},
      {"detached, in place and not",
       "require_grad aten::mul.Scalar detach aten::mul.Tensor detach aten::add.Tensor",
       [](const MeshLayout*, const DTensor& x) {
         require_grad(x);
         const DTensor y = x * 2.0;
         const DTensor z = detach(y) * x;
         detach_in_place(z);
         return Made{z + y};
       }},
      {"a hook, taken away after its call",
       "require_grad hook aten::sum backward hook_call aten::mul.Scalar hook_gives remove_hook "
       "gradient",  // a node at its first use
       [](const MeshLayout*, const DTensor& x) {
         require_grad(x);
         HookHandle handle =
             register_hook(x, [](const DTensor& gradient) { return gradient * 4.0; });
         backward(sum(x));
         const Made made{grad_of(x)};
         handle.remove();
         return made;
       }},
  });
}

// x to the power of `n`, which saves its argument and its result.
struct Power : Function<Power> {
  static std::vector<DTensor> forward(FunctionContext& context, const DTensor& x, double n) {
    const DTensor y = pow(x, n), positive = gt(x, 0.0);
    context.save_for_backward({x, y});
    context.mark_non_differentiable({positive});
    context.data["n"] = n;
    return {y, positive};
  }
  static std::vector<DTensor> backward(FunctionContext& context,
                                       const std::vector<DTensor>& gradients) {
    const std::vector<DTensor> saved = context.saved_tensors();
    const double n = std::any_cast<double>(context.data["n"]);
    return {gradients[0] * saved[1] * n / saved[0], {}};
  }
};

TEST_CASE("B-26 T-58 functions with a gradient of their own come again with both passes") {
  const std::string forward = "require_grad aten::pow.Tensor_Scalar aten::gt.Scalar function ";
  const std::string passes = "aten::mul.Tensor aten::mul.Scalar aten::div.Tensor hook_gives";
  check_events({
      {"saved arguments and results",
       forward + "aten::sum backward hook_call " + passes + " gradient",
       [](const MeshLayout*, const DTensor& x) {
         require_grad(x);
         const std::vector<DTensor> made = Power::apply(x, 3.0);
         backward(sum(made[0]));
         return Made{grad_of(x), made[1]};
       }},
      {"a result that is gone before backward",
       forward + "aten::sum backward hook_call " + passes + " gradient",
       [](const MeshLayout*, const DTensor& x) {
         require_grad(x);
         const DTensor loss = sum(Power::apply(x, 3.0)[0]);
         backward(loss);
         return Made{grad_of(x)};
       }},
      {"second gradients",
       forward + "aten::sum backward hook_call " + passes + " aten::sum backward hook_call " +
           passes,
       [](const MeshLayout*, const DTensor& x) {
         require_grad(x);
         const Made first = gradients(sum(Power::apply(x, 3.0)[0]), {x}, {}, Graph::kCreate);
         return Made{gradients(sum(first[0]), {x})[0]};
       }},
      {"without a backward", forward + "aten::mul.Scalar",
       [](const MeshLayout*, const DTensor& x) {
         require_grad(x);
         return Made{Power::apply(x, 2.0)[0] * 2.0};
       }},
  });
}

TEST_CASE("T-63 a program that fails is written with its failure, which comes again") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("S(0)", {3}, {1, 2, 3});
    Recorder recorder(program_calls(), mesh.layout());
    recorder.input("x", {.init = "randn", .arguments = {}, .values = {}}, x);
    {
      const ProgramScope scope(recorder);
      CHECK_THROWS_AS(x + mesh.place("R", {2}, {1, 2}), Error);
    }
    const ProgramGraph graph = recorder.finish();
    REQUIRE(graph.nodes.back().error.has_value());
    CHECK(graph.nodes.back().error->kind == "Value");
    CHECK(graph_text(graph, GraphLevel::kProgram).find("    fails: ") != std::string::npos);
    const ProgramGraph read = read_graphs(graph_json(graph)).at(0);
    CHECK_THROWS_AS(replay(read, mesh.layout()->arena(), std::vector<DTensor>{x}), Error);
  });
}

}  // namespace shardlab
