#include "schema/torch_spelling.h"
#include "schema/op_registry.h"
#include "schema/op_row.h"

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

Argument tensor() { return DTensor(Tensor()); }

std::string text_of(const ResolvedCall& call) {
  std::string out = call.row->op.overload + ":";
  for (const Argument& argument : call.args) {
    out += " " + (argument.is_tensor() ? "t" : argument.text());
  }
  return out;
}

std::string failure(const auto& resolve) {
  try {
    return text_of(resolve());
  } catch (const Error& error) {
    std::string text = std::string(to_string(error.kind())) + " " + error.summary();
    for (const char* part : {"op", "fix"}) {
      if (const std::string* found = error.find(part)) text += " | " + *found;
    }
    return text;
  }
}

std::string chosen(const std::string& base, const GivenArguments& given) {
  static const OpRegistry kRegistry = make_registry();
  return failure([&] { return resolve_call(kRegistry, base, given); });
}

ArgumentList list(ArgumentList items) { return items; }

}  // namespace

TEST_CASE("the overload follows the arguments, as in PyTorch") {
  const Argument t = tensor();
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
  CHECK(chosen("sum", {{t, list({0, 1})}, {}}) == "dim_IntList: t [0, 1] False None");
  CHECK(chosen("sum", {{t}, {{"dim", Argument()}}}) == "dim_IntList: t None False None");
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
  const Argument t = tensor();
  CHECK(chosen("view", {{t, 2, 3}, {}}) == ": t [2, 3]");
  CHECK(chosen("view", {{t, -1}, {}}) == ": t [-1]");
  CHECK(chosen("view", {{t, list({2, 3})}, {}}) == ": t [2, 3]");
  CHECK(chosen("permute", {{t, 1, 0}, {}}) == ": t [1, 0]");
  CHECK(chosen("full", {{list({2}), 1.5}, {}}) == ": [2] 1.5 None");
}

TEST_CASE("numpy's words are torch's") {
  const Argument t = tensor();
  CHECK(chosen("sum", {{t}, {{"axis", 1}, {"keepdims", true}}}) == "dim_IntList: t [1] True None");
}

TEST_CASE("a flag is not a number, nor a number a flag") {
  const Argument t = tensor();
  CHECK(chosen("var", {{t, 0}, {}}) == "dim: t [0] True False");
  CHECK(chosen("sum", {{t, 1, 1}, {}}).find("Value sum(") == 0);
  CHECK(chosen("split", {{t, true}, {}}).find("Value split(") == 0);
}

TEST_CASE("a call that fits no overload is refused with the reason and a fix") {
  const Argument t = tensor();
  CHECK(chosen("ad", {{t, t}, {}}).find("Unsupported unknown op 'ad'") == 0);
  CHECK(chosen("cat", {{t}, {}}) ==
        "Value cat(f32[]) fits no overload | aten::cat(Tensor[] tensors, int dim=0) -> Tensor: "
        "'tensors' is f32[], must be Tensor[] | give the arguments that one of these signatures "
        "takes");
  CHECK(chosen("cat", {{list({t})}, {{"dims", 1}}}) ==
        "Value cat([f32[]], dims=1) fits no overload | aten::cat(Tensor[] tensors, int dim=0) -> "
        "Tensor: has no argument 'dims' | did you mean 'dim'?");
  CHECK(chosen("permute", {{t}, {}}) ==
        "Value permute(f32[]) fits no overload | aten::permute(Tensor(a) self, int[] dims) -> "
        "Tensor(a): 'dims' is missing | give the arguments that one of these signatures takes");
  CHECK(chosen("permute", {{t, list({0}), 1}, {}})
            .find("takes at most 2 positional arguments, 3 "
                  "are given") != std::string::npos);
  CHECK(chosen("permute", {{t, list({0})}, {{"dims", list({0})}}}).find("'dims' is given twice") !=
        std::string::npos);
}

TEST_CASE("torch's signature stands before the overloads of the same name") {
  OpRegistry registry;
  OpRow row;
  row.op = parse_op_schema(
      "loss(Tensor self, Tensor? weight, int reduction, int ignored=-100) -> Tensor");
  registry.add(std::move(row));
  const TorchSpelling spellings[] = {
      parse_spelling({"loss(Tensor input, int? ignored=None, str reduction=\"mean\", float p=0.5)",
                      "loss", "input, None, reduction, ignored"})};
  const Argument t = tensor();
  const auto call = [&](const GivenArguments& given) {
    return failure([&] { return resolve_call(registry, "loss", given, spellings); });
  };
  CHECK(call({{t}, {}}) == ": t None 1 -100");
  CHECK(call({{t, 3}, {{"reduction", "sum"}}}) == ": t None 2 3");
  CHECK(call({{t, t, 0, 7}, {}}) == ": t t 0 7");  // ATen's own order
  CHECK(call({{t}, {{"reduction", "all"}}}) ==
        "Value loss: reduction is 'all'; it must be 'mean', 'sum' or 'none' | loss(Tensor input, "
        "int? ignored=None, str "
        "reduction=\"mean\", float p=0.5) | use 'mean', 'sum' or 'none'");
  CHECK(call({{t}, {{"p", 0.25}}}).find("'p' is 0.25, only its default 0.5 is supported") !=
        std::string::npos);
}
