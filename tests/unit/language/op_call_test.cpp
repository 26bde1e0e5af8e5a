#include "sim/language/op_call.h"

#include <doctest/doctest.h>

#include <string>

using namespace shardlab;

namespace {

OpRegistry make_registry() {
  OpRegistry registry;
  for (const char* schema : {
           "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
           "aten::add.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor",
           "aten::add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> "
           "Tensor(a!)",
           "aten::sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
           "aten::sum(Tensor self, *, ScalarType? dtype=None) -> Tensor",
           "aten::sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? "
           "dtype=None) -> Tensor",
           "aten::pow.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor",
           "aten::pow.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor",
           "aten::pow.Scalar(Scalar self, Tensor exponent) -> Tensor",
           "aten::var(Tensor self, bool unbiased=True) -> Tensor",
           "aten::var.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> "
           "Tensor",
           "aten::view(Tensor(a) self, SymInt[] size) -> Tensor(a)",
           "aten::permute(Tensor(a) self, int[] dims) -> Tensor(a)",
           "aten::split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]",
           "aten::split.sizes(Tensor(a -> *) self, SymInt[] split_size, int dim=0) -> Tensor(a)[]",
           "aten::cat(Tensor[] tensors, int dim=0) -> Tensor",
           "aten::full(SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None) -> Tensor",
       }) {
    OpRow row;
    row.op = parse_op_schema(schema);
    registry.add(std::move(row));
  }
  return registry;
}

Value tensor() { return DTensor(Tensor()); }

std::string chosen(const std::string& base, const CallValues& call) {
  static const OpRegistry kRegistry = make_registry();
  try {
    const ResolvedCall resolved = resolve_call(kRegistry, base, call);
    std::string out = resolved.row->op.overload + ":";
    for (const Argument& argument : resolved.args) {
      out += " " + (argument.is_tensor() ? "t" : argument.text());
    }
    return out;
  } catch (const Error& error) {
    return std::string(to_string(error.kind())) + " " + error.summary();
  }
}

Value list(Values items) { return make_list(std::move(items)); }

}  // namespace

TEST_CASE("the overload follows the arguments, as in PyTorch") {
  const Value t = tensor();
  CHECK(chosen("add", {{t, t}, {}}) == "Tensor: t t 1");
  CHECK(chosen("add", {{t, 2}, {}}) == "Scalar: t 2 1");
  CHECK(chosen("add", {{t, t}, {{"alpha", 3}}}) == "Tensor: t t 3");
  CHECK(chosen("add", {{t}, {{"other", t}}}) == "Tensor: t t 1");
  CHECK(chosen("add", {{}, {{"input", t}, {"other", t}}}) == "Tensor: t t 1");
  CHECK(chosen("add", {{t, t}, {{"out", t}}}) == "out: t t 1 t");
  CHECK(chosen("sub", {{t, 2.5}, {}}) == "Tensor: t 2.5 1");  // no overload takes a number
  CHECK(chosen("sum", {{t}, {}}) == ": t None");
  CHECK(chosen("sum", {{t, 1}, {}}) == "dim_IntList: t [1] False None");
  CHECK(chosen("sum", {{t}, {{"dim", 1}, {"keepdim", true}}}) == "dim_IntList: t [1] True None");
  CHECK(chosen("sum", {{t, make_tuple(Values{0, 1})}, {}}) == "dim_IntList: t [0, 1] False None");
  CHECK(chosen("sum", {{t}, {{"dim", Value()}}}) == "dim_IntList: t None False None");
  CHECK(chosen("sum", {{t}, {{"dtype", DType::kF64}}}) == ": t f64");
  CHECK(chosen("pow", {{t, 2}, {}}) == "Tensor_Scalar: t 2");
  CHECK(chosen("pow", {{t, t}, {}}) == "Tensor_Tensor: t t");
  CHECK(chosen("pow", {{2, t}, {}}) == "Scalar: 2 t");
  CHECK(chosen("var", {{t, false}, {}}) == ": t False");
  CHECK(chosen("var", {{t, 1}, {}}) == "dim: t [1] True False");
  CHECK(chosen("split", {{t, 2, 1}, {}}) == "Tensor: t 2 1");
  CHECK(chosen("split", {{t, list({1, 2})}, {}}) == "sizes: t [1, 2] 0");
  CHECK(chosen("cat", {{list({t, t})}, {{"dim", 1}}}) == ": [f32[], f32[]] 1");
}

TEST_CASE("sizes may be given one by one") {
  const Value t = tensor();
  CHECK(chosen("view", {{t, 2, 3}, {}}) == ": t [2, 3]");
  CHECK(chosen("view", {{t, -1}, {}}) == ": t [-1]");
  CHECK(chosen("view", {{t, list({2, 3})}, {}}) == ": t [2, 3]");
  CHECK(chosen("permute", {{t, 1, 0}, {}}) == ": t [1, 0]");
  CHECK(chosen("full", {{list({2}), 1.5}, {}}) == ": [2] 1.5 None");
}

TEST_CASE("what fits no overload says why") {
  const Value t = tensor();
  CHECK(chosen("ad", {{t, t}, {}}) == "Unsupported unknown op 'ad'");
  CHECK(chosen("cat", {{t}, {}}).find("Value cat(") == 0);
  CHECK(chosen("add", {{t, t}, {{"beta", 1}}}).find("Value add(") == 0);
  CHECK(chosen("sum", {{t, "x"}, {}}).find("Value sum(") == 0);
  CHECK(chosen("add", {{t}, {}}).find("Value add(") == 0);
}
