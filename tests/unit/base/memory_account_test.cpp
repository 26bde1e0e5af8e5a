// The bytes that a rank holds, by purpose.
#include "base/memory_account.h"

#include <doctest/doctest.h>

#include "autograd/tape.h"
#include "dispatch/all_ops.h"
#include "tests/unit/dispatch/op_calls.h"

namespace shardlab {
namespace {

using namespace test;

constexpr std::int64_t kRows[] = {2, 2, 1, 0};  // of 5, on each of 4 ranks

/// Runs `body(a, held)` on 4 ranks: a is an input, 5 rows over 4 ranks; held(purpose) are bytes.
template <typename Body>
void with_input(const Body& body) {
  OpMesh mesh({4});
  mesh.run([&](RankContext& rank) {
    MemoryAccount account;
    rank.memory = &account;
    {
      DTensor a;
      {
        const MakingScope scope(HeldFor::kInput);
        a = mesh.place("S(0)", {5, 3}, counted(15));
      }
      require_grad(a);
      body(mesh, a,
           [&](HeldFor purpose) { return account.held[static_cast<std::size_t>(purpose)]; });
    }
    CHECK(account.held_bytes == 0);
    rank.memory = nullptr;
  });
}

TEST_CASE("B-15 tensors kept for backward count until backward has run, gradients from then on") {
  with_input([](OpMesh&, const DTensor& a, const auto& held) {
    const std::int64_t bytes = kRows[current_rank().rank] * 3 * item_bytes(a.dtype());
    DTensor loss = sum(call("aten::exp", {a}));
    CHECK(held(HeldFor::kBackward) == bytes);
    CHECK(held(HeldFor::kGradient) == 0);
    backward(loss);
    CHECK(held(HeldFor::kBackward) == 0);
    CHECK(held(HeldFor::kGradient) == bytes);
  });
}

TEST_CASE("B-15 a graph that nothing leads to any more keeps nothing") {
  with_input([](OpMesh&, const DTensor& a, const auto& held) {
    const std::int64_t bytes = kRows[current_rank().rank] * 3 * item_bytes(a.dtype());
    DTensor loss = sum(call("aten::exp", {a}));
    CHECK(held(HeldFor::kBackward) == bytes);
    loss = {};
    CHECK(held(HeldFor::kBackward) == 0);
    CHECK(held(HeldFor::kOther) == 0);
  });
}

TEST_CASE("B-15 a loss with a kernel of its own keeps its operands, and no difference") {
  with_input([](OpMesh& mesh, const DTensor& a, const auto& held) {
    const DTensor target = mesh.place("S(0)", {5, 3}, counted(15));
    const std::int64_t bytes = kRows[current_rank().rank] * 3 * item_bytes(a.dtype());
    const DTensor loss = call("aten::mse_loss", {a, target, 1});
    CHECK(held(HeldFor::kBackward) == bytes);  // the target; a is an input
    // A reduced loss stays in the memory of its terms, as in the reference.
    CHECK(held(HeldFor::kOther) == std::max(bytes, item_bytes(a.dtype())));
  });
}

TEST_CASE(
    "B-15 a result that becomes a leaf is a parameter, but for one that follows from leaves") {
  with_input([](OpMesh& mesh, const DTensor& a, const auto& held) {
    const std::int64_t bytes = kRows[current_rank().rank] * 3 * item_bytes(a.dtype());
    const DTensor weight = call("aten::exp", {mesh.place("S(0)", {5, 3}, counted(15))});
    CHECK(held(HeldFor::kInput) == bytes);
    require_grad(weight);
    CHECK(held(HeldFor::kInput) == 2 * bytes);
    const DTensor cut = detach(call("aten::mul.Tensor", {a, weight}));
    require_grad(cut);
    CHECK(held(HeldFor::kInput) == 2 * bytes);
  });
}

TEST_CASE("B-15 tensors put together from pieces have an account of their own") {
  with_input([](OpMesh&, const DTensor& a, const auto& held) {
    const DTensor whole = redistribute(a, a.spec()->with(Placements{Placement::replicate()}));
    CHECK(held(HeldFor::kGathered) == 5 * 3 * item_bytes(a.dtype()));
  });
}

}  // namespace
}  // namespace shardlab
