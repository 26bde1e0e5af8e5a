// The order in which backward runs: that of PyTorch's engine, as it is seen from outside.
#include <doctest/doctest.h>

#include "autograd/autograd.h"
#include "comm/observer.h"
#include "schema/argument.h"
#include "schema/op_row.h"
#include "schema/op_schema.h"
#include "tests/unit/dispatch/op_mesh.h"

namespace shardlab {
namespace {

using test::counted;
using test::OpMesh;
using test::ops;
using test::whole;

DTensor one(std::string_view op, Arguments args) { return ops().one(op, std::move(args)); }
DTensor gathered(const DTensor& w) {
  return redistribute(w, w.spec()->with(Placements(w.spec()->layout()->ndim())));
}

/// Products, reductions to pieces, and additions to gradients of leaves, in backward.
class Order : public Observer {
 public:
  explicit Order(RankContext& rank) : rank_(rank) {
    rank_.observer = this;
    rank_.mode |= kModeObserve;
  }
  ~Order() override {
    rank_.mode &= ~static_cast<std::uint32_t>(kModeObserve);
    rank_.observer = nullptr;
  }
  Order(const Order&) = delete;
  Order& operator=(const Order&) = delete;

  void op_begins(const OpSchema& schema, const OutputSharding&) override {
    if (rank_.pass != Pass::kBackward) return;
    if (schema.row->name() == "aten::mm") seen.emplace_back("mm");
    if (schema.row->name() == "aten::add_.Tensor") seen.emplace_back("leaf");
  }
  void op_ends() override {}
  void redistribution(const RedistributionRecord&) override {}
  void collective(const CollectiveRecord& record) override {
    if (rank_.pass == Pass::kBackward) seen.emplace_back(to_string(record.kind));
  }

  std::vector<std::string> seen;

 private:
  RankContext& rank_;
};

using Names = std::vector<std::string>;

// Over 4 ranks the pieces of 6 rows have 2, 2, 2 and 0, those of 10 rows 3, 3, 3 and 1.
TEST_CASE("V-21 gradients of weights that are gathered on use leave layer by layer") {
  for (const std::int64_t ranks : {2, 4}) {
    OpMesh mesh({ranks});
    mesh.run([&](RankContext& rank) {
      DTensor y = mesh.place("S(0)", {6, 10}, counted(60));
      std::vector<DTensor> weights;
      for (int layer = 0; layer < 3; ++layer) {
        weights.push_back(mesh.place("S(0)", {10, 10}, counted(100)));
        require_grad(weights.back());
        y = one("aten::mm", {y, one("aten::t", {gathered(weights.back())})});
      }
      const DTensor loss = one("aten::sum", {y});
      const Order order(rank);
      backward(loss);
      // The last layer first; its input's gradient, then its weight's, which is reduced to the
      // pieces.
      CHECK(order.seen == Names{"mm", "mm", "reduce_scatter", "mm", "mm", "reduce_scatter", "mm",
                                "reduce_scatter"});
    });
  }
}

TEST_CASE(
    "V-21 weights that were gathered before all layers leave at the end, the last one first") {
  OpMesh mesh({2});
  mesh.run([&](RankContext& rank) {
    DTensor y = mesh.place("S(0)", {4, 6}, counted(24));
    std::vector<DTensor> whole_weights;
    for (int layer = 0; layer < 3; ++layer) {
      const DTensor w = mesh.place("S(0)", {6, 6}, counted(36));
      require_grad(w);
      whole_weights.push_back(gathered(w));
    }
    for (const DTensor& w : whole_weights) y = one("aten::mm", {y, w});
    const DTensor loss = one("aten::sum", {y});
    const Order order(rank);
    backward(loss);
    CHECK(order.seen == Names{"mm", "mm", "mm", "mm", "mm", "reduce_scatter", "reduce_scatter",
                              "reduce_scatter"});
  });
}

TEST_CASE(
    "V-21 a leaf is added to with the last edge that leads to it, before the next node runs") {
  OpMesh mesh({2});
  mesh.run([&](RankContext& rank) {
    const DTensor a = mesh.place("R", {3, 3}, counted(9));
    const DTensor b = mesh.place("R", {3, 3}, counted(9));
    const DTensor c = mesh.place("R", {3, 3}, counted(9));
    for (const DTensor& leaf : {a, b, c}) {
      require_grad(leaf);
      backward(one("aten::sum", {leaf}));
    }
    // b is used twice: by the second product and by the third.
    const DTensor first = one("aten::mm", {a, c});
    const DTensor second = one("aten::mm", {first, b});
    const DTensor third = one("aten::mm", {second, b});
    const DTensor loss = one("aten::sum", {third});
    const Order order(rank);
    backward(loss);
    CHECK(order.seen == Names{"mm", "mm", "mm", "mm", "leaf", "mm", "mm", "leaf", "leaf"});
  });
}

TEST_CASE("gradients() runs only what leads to what it was asked for") {
  OpMesh mesh({2});
  mesh.run([&](RankContext& rank) {
    const DTensor a = mesh.place("R", {3, 3}, counted(9));
    const DTensor b = mesh.place("R", {3, 3}, counted(9));
    require_grad(a);
    require_grad(b);
    const DTensor inner = one("aten::mm", {a, a});
    const DTensor loss = one("aten::sum", {one("aten::mm", {inner, b})});
    const Order order(rank);
    const std::vector<DTensor> found = gradients(loss, {b, inner});
    CHECK(order.seen == Names{"mm", "mm"});
    CHECK(whole(found[1]) == std::vector<double>{3, 12, 21, 3, 12, 21, 3, 12, 21});
    CHECK_FALSE(grad_of(b).defined());
  });
}

}  // namespace
}  // namespace shardlab
