// A reduction goes, moves to other ranks, or is done before what it was done behind.
#include <fmt/format.h>

#include "sim/edit/found_edits.h"

namespace shardlab {

namespace {

using ast::Expression;

// C(a + b) as C(a) + b, C(F.linear(x, w, b)) as C(F.linear(x, w)) + b.
void term_after(const Expression& expression, const ast::Call& call, FoundEdits& found) {
  const ProgramText& text = found.text;
  const Expression& given = *call.arguments.front().value;
  const std::string all = text.of(expression), inside = text.of(given);
  const std::size_t at = all.find(inside);
  const auto add = [&](const std::string& before, const std::string& inner,
                       const std::string& after) {
    std::string around = all;
    around.replace(at, inside.size(), inner);
    found.add(EditKind::kTermAfter, expression, before + around + after,
              "the term behind the reduction");
  };
  if (const auto* sum = given.get<ast::Binary>()) {
    const bool minus = sum->op == ast::BinaryOp::kSub;
    if (sum->op != ast::BinaryOp::kAdd && !minus) return;
    add("", text.of(*sum->left), (minus ? " - " : " + ") + text.operand(*sum->right));
    if (!minus) add(text.operand(*sum->left) + " + ", text.of(*sum->right), "");
  }
  const ast::Call* linear = call_of(given, {"linear"});
  if (linear == nullptr || linear->arguments.size() != 3) return;
  const std::string function = text.of(*linear->function);
  const std::string x = text.of(*linear->arguments[0].value);
  const std::string w = text.of(*linear->arguments[1].value);
  add("", fmt::format("{}({}, {})", function, x, w),
      " + " + text.operand(*linear->arguments[2].value));
}

// (a / b).mean() as a.sum() / b.sum().
void mean_of_ratios(const Expression& expression, const ast::Call& call, FoundEdits& found) {
  const ast::Attribute* method = called_method(&call);
  const auto* ratio = method == nullptr ? nullptr : method->object->get<ast::Binary>();
  if (ratio == nullptr || ratio->op != ast::BinaryOp::kDiv) return;
  found.add(EditKind::kWeighted, expression,
            fmt::format("{}.sum() / {}.sum()", found.text.operand(*ratio->left),
                        found.text.operand(*ratio->right)),
            "a sum over the sum of the weights");
}

// all_reduce(x.mean(), "avg") of unequal pieces, and norms.
void weighted(const Expression& expression, const ast::Call& call, FoundEdits& found) {
  if (call.arguments.empty()) return;
  const ast::Attribute* method =
      called_method(call_of(*call.arguments.front().value, {"mean", "norm"}));
  if (method == nullptr || is_module(*method->object)) return;
  const std::string object = found.text.operand(*method->object);
  if (method->name == "norm") {
    return found.add_for_dims(EditKind::kWeighted, expression,
                              "all_reduce({1}.pow(2).sum(), \"sum\", group=\"{0}\").sqrt()",
                              "a root of the sum of all squares", object);
  }
  found.add_for_dims(EditKind::kWeighted, expression,
                     "all_reduce({1}.sum(), \"sum\", group=\"{0}\") / "
                     "all_reduce(torch.tensor(1.0 * {1}.numel()), \"sum\", group=\"{0}\")",
                     "a sum over the count of all ranks", object);
}

}  // namespace

void find_reductions(const Expression& expression, const ast::Call& call, FoundEdits& found) {
  const bool given = !call.arguments.empty();
  if (given && call_of(expression, {"all_reduce", "reduce_scatter", "all_gather"})) {
    found.add(EditKind::kLess, expression, found.text.of(*call.arguments.front().value),
              "without this collective");
    for (const std::string& dim : found.of.mesh_dims) {
      found.add(EditKind::kGroup, expression,
                found.text.with_argument(call, "group", '"' + dim + '"'), "the group " + dim);
    }
    found.add(EditKind::kGroup, expression, found.text.with_argument(call, "group", ""),
              "the group of all ranks");
  }
  if (given && call_of(expression, {"all_reduce", "reduce_scatter", "from_local"})) {
    term_after(expression, call, found);
  }
  if (call_of(expression, {"all_reduce"})) weighted(expression, call, found);
  if (call_of(expression, {"mean"})) mean_of_ratios(expression, call, found);
}

}  // namespace shardlab
