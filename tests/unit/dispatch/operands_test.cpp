// Arguments of an op are checked against its schema and its row's metadata before a kernel reads
// them.
#include <doctest/doctest.h>

#include "dispatch/all_ops.h"
#include "kernels/kernel_id.h"
#include "ops/core/meta.h"
#include "schema/op_registry.h"
#include "schema/op_row.h"
#include "schema/sharding_rule.h"
#include "tests/unit/dispatch/op_mesh.h"

namespace shardlab {
namespace {

using test::counted;
using test::OpMesh;
using test::ops;
using test::plain;

OutputMetas meta_of_third_dim(const MetaArgs& args) {
  return {{contiguous_meta(Dims{args.tensor(0)->shape[2]}, DType::kF32)}};
}
Results by_third_dim(Calls& calls, const OpRow&, const Arguments& args) {
  return calls("aten::sum", {args[0]});
}
std::vector<RuleRow> whole(const RuleContext&) { return {}; }
// One of two operands that broadcast is cut.
std::vector<RuleRow> cut_apart(const RuleContext&) {
  return {{{RulePlacement::any(0)},
           {RulePlacement::any(0), RulePlacement::of(Placement::replicate())}}};
}

const OpRegistry& ops_with_defects() {
  static const OpRegistry* const made = [] {
    auto* filled = new OpRegistry;
    register_all_ops(*filled);
    OpRow third;
    third.op = parse_op_schema("my::third(Tensor x) -> Tensor");
    third.meta = meta_of_third_dim;
    third.rule = DimRuleFn{whole};
    third.compute = by_third_dim;
    filled->add(std::move(third));
    OpRow product;
    product.op = parse_op_schema("my::product(Tensor self, Tensor other) -> Tensor");
    product.meta = filled->at("aten::mul.Tensor").meta;
    product.rule = DimRuleFn{cut_apart};
    product.compute = KernelId::kMul;
    filled->add(std::move(product));
    return filled;
  }();
  return *made;
}

// A graph calls it so: nothing has bound the arguments to the schema.
std::string refusal(const char* op, const Arguments& args) {
  try {
    ops().call(ops().find(op), args);
  } catch (const Error& error) {
    return fmt::format("{}: {}", static_cast<int>(error.kind()), error.summary());
  }
  return "taken";
}
std::string value_error(const char* text) {
  return fmt::format("{}: {}", static_cast<int>(ErrorKind::kValue), text);
}

}  // namespace

TEST_CASE("B-27 operands that must be tensors are tensors, plain and on a mesh") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const DTensor placed = mesh.place("S(0)", {4}, counted(4));
    for (const DTensor& x : {plain({4}, counted(4)), placed}) {
      CHECK(refusal("aten::complex", {x, Argument()}) ==
            value_error("aten::complex: imag is None; it must be a tensor"));
      CHECK(refusal("aten::mul.Tensor", {DTensor(), x}) ==
            value_error("aten::mul.Tensor: self is None; it must be a tensor"));
      CHECK(refusal("aten::renorm", {Argument(), 2, 0, 1.0}) ==
            value_error("aten::renorm: self is None; it must be a tensor"));
    }
  });
}

TEST_CASE("B-27 a list has as many numbers as the schema says, or one") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const DTensor x = plain({1, 1, 4, 4, 4}, counted(64));
    CHECK(refusal("aten::max_pool3d_with_indices",
                  {x, Dims{2, 2}, Dims{1}, Dims{0}, Dims{1}, false}) ==
          value_error("aten::max_pool3d_with_indices: kernel_size has 2 numbers; it must have 3, "
                      "or one"));
  });
}

TEST_CASE("B-27 an operand of fewer dims than the op reads is refused, and the op is named") {
  OpMesh mesh(ops_with_defects(), {2});
  mesh.run([&](RankContext&) {
    const DTensor placed = mesh.place("R", {2, 3}, counted(6));
    for (const DTensor& x : {plain({2, 3}, counted(6)), placed}) {
      CHECK(refusal("my::third", {x})
                .starts_with(value_error(
                    "my::third: an operand has too few dims, or a list too few numbers")));
    }
  });
}

TEST_CASE("B-27 pieces that a rule has cut apart are a defect, and no kernel reads them") {
  OpMesh mesh(ops_with_defects(), {2});
  mesh.run([&](RankContext&) {
    const DTensor cut = mesh.place("S(0)", {4}, counted(4)), all = mesh.place("R", {4}, counted(4));
    CHECK(refusal("my::product", {cut, all})
              .starts_with(fmt::format("{}: my::product: the pieces of this rank do not fit",
                                       static_cast<int>(ErrorKind::kInternal))));
  });
}

}  // namespace shardlab
