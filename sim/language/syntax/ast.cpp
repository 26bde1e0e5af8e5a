// Names of operators, and the names that a block binds: as in Python, an assignment anywhere in a
// def makes the name local to all of it.
#include "sim/language/syntax/ast.h"

#include <algorithm>
#include <array>

namespace shardlab::ast {

std::string_view to_string(UnaryOp op) {
  static constexpr std::array<std::string_view, 4> kText = {"-", "+", "~", "not"};
  return kText[static_cast<std::size_t>(op)];
}

std::string_view to_string(BinaryOp op) {
  static constexpr std::array<std::string_view, 13> kText = {"+", "-", "*", "/", "//", "%", "**",
                                                             "@", "&", "|", "^", "<<", ">>"};
  return kText[static_cast<std::size_t>(op)];
}

std::string_view to_string(CompareOp op) {
  static constexpr std::array<std::string_view, 10> kText = {"==", "!=", "<",      "<=", ">",
                                                             ">=", "is", "is not", "in", "not in"};
  return kText[static_cast<std::size_t>(op)];
}

std::string_view to_string(BoolOp op) { return op == BoolOp::kAnd ? "and" : "or"; }

void collect_targets(const Expression& target, std::vector<std::string>& names) {
  if (const auto* name = std::get_if<Name>(&target.node)) names.push_back(name->id);
  if (const auto* tuple = std::get_if<Tuple>(&target.node)) {
    for (const auto& item : tuple->items) collect_targets(*item, names);
  }
  if (const auto* list = std::get_if<List>(&target.node)) {
    for (const auto& item : list->items) collect_targets(*item, names);
  }
}

bool Function::binds(std::string_view id) const {
  return std::binary_search(locals.begin(), locals.end(), id);
}

namespace {

void collect(const Block& block, std::vector<std::string>& names) {
  for (const Statement& statement : block) {
    if (const auto* assign = std::get_if<Assign>(&statement.node)) {
      for (const auto& target : assign->targets) collect_targets(*target, names);
    } else if (const auto* augmented = std::get_if<AugmentedAssign>(&statement.node)) {
      collect_targets(*augmented->target, names);
    } else if (const auto* loop = std::get_if<For>(&statement.node)) {
      collect_targets(*loop->target, names);
      collect(loop->body, names);
      collect(loop->otherwise, names);
    } else if (const auto* repeat = std::get_if<While>(&statement.node)) {
      collect(repeat->body, names);
      collect(repeat->otherwise, names);
    } else if (const auto* choice = std::get_if<If>(&statement.node)) {
      for (const auto& branch : choice->branches) collect(branch.body, names);
    } else if (const auto* with = std::get_if<With>(&statement.node)) {
      for (const auto& item : with->items) {
        if (item.target) collect_targets(*item.target, names);
      }
      collect(with->body, names);
    } else if (const auto* def = std::get_if<Def>(&statement.node)) {
      names.push_back(def->function->name);
    } else if (const auto* own = std::get_if<Class>(&statement.node)) {
      names.push_back(own->name);
    }
  }
}

}  // namespace

std::vector<std::string> bound_names(const Block& block) {
  std::vector<std::string> names;
  collect(block, names);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

}  // namespace shardlab::ast
