// One overload per kind of node lists its parts; everything else is recursion over that list.
#include "sim/language/syntax/ast_walk.h"

#include <algorithm>

namespace shardlab::ast {

namespace {

using Visit = std::function<void(const Expression&)>;
using VisitBlock = std::function<void(const Block&)>;

/// Visits the parts that it is given, from left to right; none of an absent expression.
struct Parts {
  const Visit& visit;
  const VisitBlock& visit_block;

  template <typename... Nodes>
  void operator()(const Nodes&... nodes) const {
    (part(nodes), ...);
  }

 private:
  void part(const ExpressionPtr& expression) const {
    if (expression) visit(*expression);
  }
  void part(const Block& block) const { visit_block(block); }
  void part(const CallArgument& argument) const { part(argument.value); }
  void part(const Comprehension::Loop& loop) const {
    (*this)(loop.target, loop.iterable, loop.conditions);
  }
  void part(const FormatString::Part& piece) const { (*this)(piece.expression, piece.format); }
  void part(const Parameter& parameter) const { part(parameter.default_value); }
  void part(const If::Branch& branch) const { (*this)(branch.condition, branch.body); }
  void part(const With::Item& item) const { (*this)(item.context, item.target); }
  void part(const Try::Handler& handler) const { part(handler.body); }
  template <typename Node>
  void part(const std::vector<Node>& nodes) const {
    for (const Node& node : nodes) part(node);
  }
};

void visit_parts(const Constant&, const Parts&) {}
void visit_parts(const Name&, const Parts&) {}
void visit_parts(const Attribute& node, const Parts& visit) { visit(node.object); }
void visit_parts(const Call& node, const Parts& visit) { visit(node.function, node.arguments); }
void visit_parts(const Unary& node, const Parts& visit) { visit(node.operand); }
void visit_parts(const Binary& node, const Parts& visit) { visit(node.left, node.right); }
void visit_parts(const Compare& node, const Parts& visit) { visit(node.operands); }
void visit_parts(const Logical& node, const Parts& visit) { visit(node.operands); }
void visit_parts(const Conditional& node, const Parts& visit) {
  visit(node.when_true, node.condition, node.when_false);
}
void visit_parts(const Subscript& node, const Parts& visit) { visit(node.object, node.index); }
void visit_parts(const Slice& node, const Parts& visit) { visit(node.start, node.stop, node.step); }
void visit_parts(const List& node, const Parts& visit) { visit(node.items); }
void visit_parts(const Tuple& node, const Parts& visit) { visit(node.items); }
void visit_parts(const Dict& node, const Parts& visit) {
  for (std::size_t i = 0; i < node.keys.size(); ++i) visit(node.keys[i], node.values[i]);
}
void visit_parts(const Set& node, const Parts& visit) { visit(node.items); }
void visit_parts(const Comprehension& node, const Parts& visit) {
  visit(node.key, node.element, node.loops);
}
void visit_parts(const Starred& node, const Parts& visit) { visit(node.value); }
void visit_parts(const Walrus& node, const Parts& visit) { visit(node.value); }
void visit_parts(const FormatString& node, const Parts& visit) { visit(node.parts); }

void visit_parts(const ExpressionStatement& node, const Parts& visit) { visit(node.value); }
void visit_parts(const Assign& node, const Parts& visit) { visit(node.value, node.targets); }
void visit_parts(const AugmentedAssign& node, const Parts& visit) {
  visit(node.target, node.value);
}
void visit_parts(const If& node, const Parts& visit) { visit(node.branches); }
void visit_parts(const For& node, const Parts& visit) {
  visit(node.iterable, node.target, node.body, node.otherwise);
}
void visit_parts(const While& node, const Parts& visit) {
  visit(node.condition, node.body, node.otherwise);
}
void visit_parts(const Def& node, const Parts& visit) {
  visit(node.function->parameters, node.function->body);
}
void visit_parts(const Class& node, const Parts& visit) { visit(node.body); }
void visit_parts(const With& node, const Parts& visit) { visit(node.items, node.body); }
void visit_parts(const Return& node, const Parts& visit) { visit(node.value); }
void visit_parts(const Assert& node, const Parts& visit) { visit(node.condition, node.message); }
void visit_parts(const Try& node, const Parts& visit) {
  visit(node.body, node.handlers, node.otherwise, node.last);
}
void visit_parts(const Delete& node, const Parts& visit) { visit(node.items); }
void visit_parts(const OuterNames&, const Parts&) {}
void visit_parts(const Pass&, const Parts&) {}
void visit_parts(const Break&, const Parts&) {}
void visit_parts(const Continue&, const Parts&) {}

}  // namespace

void for_each_part(const Statement& statement, const Visit& visit, const VisitBlock& visit_block) {
  std::visit(
      [&](const auto& node) {
        visit_parts(node, Parts{visit, visit_block});
      },
      statement.node);
}

void for_each_block(const Statement& statement, const VisitBlock& visit) {
  for_each_part(
      statement, [](const Expression&) {}, visit);
}

void for_each_part(const Expression& expression, const Visit& visit) {
  std::visit([&](const auto& node) { visit_parts(node, Parts{visit, {}}); }, expression.node);
}

bool any_part(const Expression& expression, const std::function<bool(const Expression&)>& wanted) {
  if (wanted(expression)) return true;
  bool found = false;
  for_each_part(expression,
                [&](const Expression& piece) { found = found || any_part(piece, wanted); });
  return found;
}

bool any_part(const Block& block, const std::function<bool(const Expression&)>& wanted) {
  bool found = false;
  for (const Statement& statement : block) {
    for_each_part(
        statement, [&](const Expression& whole) { found = found || any_part(whole, wanted); },
        [&](const Block& inner) { found = found || any_part(inner, wanted); });
  }
  return found;
}

std::string_view base_name(const Expression& target) {
  if (const auto* name = target.get<Name>()) return name->id;
  if (const auto* subscript = target.get<Subscript>()) {
    return base_name(*subscript->object);
  }
  if (const auto* attribute = target.get<Attribute>()) {
    return base_name(*attribute->object);
  }
  return {};
}

void collect_targets(const Expression& target, std::vector<std::string>& names) {
  if (const auto* name = target.get<Name>()) names.push_back(name->id);
  if (const auto* tuple = target.get<Tuple>()) {
    for (const auto& item : tuple->items) collect_targets(*item, names);
  }
  if (const auto* list = target.get<List>()) {
    for (const auto& item : list->items) collect_targets(*item, names);
  }
  if (const auto* rest = target.get<Starred>()) collect_targets(*rest->value, names);
}

namespace {

void collect_walruses(const Expression& expression, std::vector<std::string>& names) {
  if (const auto* walrus = expression.get<Walrus>()) names.push_back(walrus->name);
  for_each_part(expression, [&](const Expression& part) { collect_walruses(part, names); });
}

void collect(const Block& block, std::vector<std::string>& names) {
  for (const Statement& statement : block) {
    const bool inner = statement.is<Def, Class>();
    for_each_part(
        statement, [&](const Expression& part) { collect_walruses(part, names); },
        [&](const Block& body) {
          if (!inner) collect(body, names);
        });
    if (const auto* assign = statement.get<Assign>()) {
      for (const auto& target : assign->targets) collect_targets(*target, names);
    } else if (const auto* augmented = statement.get<AugmentedAssign>()) {
      collect_targets(*augmented->target, names);
    } else if (const auto* loop = statement.get<For>()) {
      collect_targets(*loop->target, names);
    } else if (const auto* with = statement.get<With>()) {
      for (const auto& item : with->items) {
        if (item.target) collect_targets(*item.target, names);
      }
    } else if (const auto* guarded = statement.get<Try>()) {
      for (const auto& handler : guarded->handlers) {
        if (!handler.name.empty()) names.push_back(handler.name);
      }
    } else if (const auto* def = statement.get<Def>()) {
      names.push_back(def->function->name);
    } else if (const auto* own = statement.get<Class>()) {
      names.push_back(own->name);
    }
  }
}

}  // namespace

std::vector<std::string> bound_names(const Block& block) {
  std::vector<std::string> names;
  collect(block, names);
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

}  // namespace shardlab::ast
