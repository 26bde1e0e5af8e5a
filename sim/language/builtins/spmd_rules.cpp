// spmd.rules.einsum: the types of operands give that of a result, which is then a claim, judged by
// value as those of assert_type are.
#include <fmt/format.h>

#include "base/error.h"
#include "sim/language/run/interpreter.h"
#include "sim/types/claim.h"
#include "sim/types/einsum_type.h"
#include "sim/types/typed_program.h"

namespace shardlab {

namespace {

// (0, 1): linear in each; ((0, 1),): in both at once.
LinearIn linear_in_of(const Value& given) {
  LinearIn groups;
  bool fits = given.is_none() || given.is_sequence();
  for (const Value& entry : given.is_sequence() ? items_of(given) : Values()) {
    const auto positions = dims_of(entry);
    fits = fits && positions.has_value();
    if (positions) groups.emplace_back(positions->begin(), positions->end());
  }
  if (fits) return groups;
  fail(Fix{"write positions of operands: (0, 1), or ((0, 1),)"}, "rules.einsum: linear_in is {}",
       repr(given));
}

const TensorType& said_type(const DTensor& x, std::size_t operand) {
  const TypedProgram* typed = typed_program();
  const TensorType* type = typed == nullptr ? nullptr : typed->type_of(x);
  if (type != nullptr) return *type;
  fail(Fix{"say it by assert_type where it is made"}, "rules.einsum: operand {} has no type",
       operand);
}

TensorType einsum_type(const EinsumText& text, const LinearIn& linear_in,
                       const std::vector<TensorType>& operands, const MeshLayout& mesh) {
  TensorType type{{}, ShardOrder(mesh.ndim(), -1)};
  for (std::size_t dim = 0; dim < mesh.ndim(); ++dim) {
    SpmdTypes along;
    for (const TensorType& operand : operands) along.push_back(operand.types[dim]);
    const TypeAnswer answer = type_of_einsum(text, linear_in, along);
    if (!answer.type) {
      fail(Fix{answer.help.empty() ? "move the operands, or write another rule" : answer.help},
           "rules.einsum along {}: {}", mesh.names()[dim], answer.rule);
    }
    type.types.push_back(*answer.type);
    for (std::size_t i = 0; answer.type->is_s() && i < operands.size(); ++i) {
      if (operands[i].types[dim].is_s()) type.order[dim] = operands[i].order[dim];
    }
  }
  return type;
}

Value run_rules_einsum(Interpreter& in, const Value*, CallValues call) {
  Values operands;
  if (call.positional.size() > 1) {
    operands.assign(call.positional.begin() + 1, call.positional.end());
    call.positional.resize(1);
  }
  const Parameters given("rules.einsum(equation, linear_in=, out=)", std::move(call));
  std::vector<std::size_t> ndims;
  std::vector<TensorType> types;
  for (const Value& operand : operands) {
    const auto* x = operand.get<DTensor>();
    if (x == nullptr) {
      fail(Fix{"write tensors behind the text: einsum(\"mk,kn->mn\", x, w)"},
           "rules.einsum: an operand is {}", a_kind(operand));
    }
    ndims.push_back(x->ndim());
    types.push_back(said_type(*x, types.size()));
  }
  const EinsumText text = without_ellipsis(parse_einsum(given.text("equation")), ndims);
  const MeshLayout& mesh = *in.default_mesh();
  const TensorType type = einsum_type(text, linear_in_of(given["linear_in"]), types, mesh);
  const DTensor out = given.tensor("out");
  if (TypedProgram* typed = typed_program()) typed->has(out, type);
  in.claim(out, {.type = type, .mesh = &mesh}, in.position(), "einsum", false);
  return given["out"];
}

}  // namespace

BuiltinTable spmd_rule_builtins() {
  static const Builtin kTable[] = {{"einsum", run_rules_einsum}};
  return kTable;
}

}  // namespace shardlab
