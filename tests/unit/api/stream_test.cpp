// A program is one stream of steps: each step passes one function, once, and its parts do not.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "api/shardlab.h"
#include "autograd/program.h"
#include "schema/op_row.h"
#include "sim/run/reference_calls.h"
#include "tests/unit/dispatch/op_mesh.h"

namespace shardlab {
namespace {

using test::OpMesh;

class Listening final : public ForwardingProgram {
 public:
  using ForwardingProgram::ForwardingProgram;
  Results perform(const ProgramEvent& event) override {
    std::string text(kind_name(event));
    if (const auto* op = std::get_if<OpEvent>(&event)) text = op->row->name();
    if (const auto* collective = std::get_if<CollectiveEvent>(&event)) {
      text = std::string(to_string(collective->kind));
    }
    seen.push_back(text);
    return next().perform(event);
  }
  std::vector<std::string> seen;
};

TEST_CASE("each step of a program passes the calls once, what it is made of does not") {
  OpMesh mesh({3});
  mesh.run([&](RankContext& rank) {
    Listening listening(program_calls());
    const ProgramScope scope(listening);
    const DTensor w =
        distribute_tensor(arange(4, {.dtype = DType::kF32}), mesh.layout(), "m0=S(0)");
    require_grad(w);
    const DTensor x = ones({4}, {.mesh = mesh.layout(), .placements = {Placement::shard(0)}});
    const DTensor y = redistribute(softmax(w * x, 0), "m0=R");
    const DTensor own = to_local(y);
    backward(sum(own));
    gradients(sum(mul(w, w)), {w});
    const DTensor again = from_local(to_local(detach(y)), mesh.layout(), "m0=R");
    all_reduce(to_local(again), ReduceOp::kMax, *rank.world);
    barrier(*rank.world);
    const std::vector<std::string> expected = {
        "aten::arange",      "distribute",   "require_grad", "factory",   "aten::mul.Tensor",
        "aten::softmax.int", "redistribute", "to_local",     "aten::sum", "backward",
        "aten::mul.Tensor",  "aten::sum",    "backward",     "detach",    "to_local",
        "from_local",        "to_local",     "all_reduce",   "barrier"};
    CHECK(listening.seen == expected);
  });
}

TEST_CASE("a mesh is constructed once, and flattened where the program says so") {
  OpMesh mesh({2, 2});
  mesh.run([&](RankContext&) {
    Listening listening(program_calls());
    const ProgramScope scope(listening);
    const MeshLayout* other = init_mesh({{"a", 2}, {"b", 2}});
    init_mesh({{"a", 2}, {"b", 2}});
    flatten_mesh(other, {"a", "b"});
    CHECK(listening.seen == std::vector<std::string>{"mesh", "mesh"});
  });
}

TEST_CASE("without a wrapper in front nobody is told") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    Listening listening(program_calls());
    { const ProgramScope scope(listening); }
    neg(ones({3}));
    CHECK(listening.seen.empty());
  });
}

TEST_CASE("a program in C++ runs in reference precision, too") {
  OpMesh mesh({3});
  mesh.run([&](RankContext&) {
    ReferenceCalls reference(program_calls());
    const ProgramScope scope(reference);
    const DTensor drawn = randn({5}, {.dtype = DType::kBF16});
    CHECK(drawn.dtype() == DType::kF64);
    CHECK(to(drawn, DType::kF32).dtype() == DType::kF64);
    CHECK(exp(arange(3)).dtype() == DType::kF64);
    CHECK(arange(3).dtype() == DType::kI64);
    const DTensor x = randn({5}, {.mesh = mesh.layout(), .placements = {Placement::shard(0)}});
    CHECK(x.dtype() == DType::kF64);
    const DTensor moved = redistribute(x, x.spec()->with({Placement::replicate()}), {},
                                       {.forward = DType::kBF16, .backward = {}});
    CHECK(moved.dtype() == DType::kF64);
  });
}

}  // namespace
}  // namespace shardlab
