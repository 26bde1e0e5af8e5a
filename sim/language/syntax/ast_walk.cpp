// One overload per kind of node lists its parts; everything else is recursion over that list.
#include "sim/language/syntax/ast_walk.h"

#include <algorithm>

namespace shardlab::ast {

namespace {

using Visit = std::function<void(const Expression&)>;

void part(const ExpressionPtr& expression, const Visit& visit) {
  if (expression) visit(*expression);
}
void parts(const std::vector<ExpressionPtr>& expressions, const Visit& visit) {
  for (const ExpressionPtr& expression : expressions) part(expression, visit);
}

void visit_parts(const Constant&, const Visit&) {}
void visit_parts(const Name&, const Visit&) {}
void visit_parts(const Attribute& node, const Visit& visit) { part(node.object, visit); }
void visit_parts(const Call& node, const Visit& visit) {
  part(node.function, visit);
  for (const CallArgument& argument : node.arguments) part(argument.value, visit);
}
void visit_parts(const Unary& node, const Visit& visit) { part(node.operand, visit); }
void visit_parts(const Binary& node, const Visit& visit) {
  part(node.left, visit);
  part(node.right, visit);
}
void visit_parts(const Compare& node, const Visit& visit) { parts(node.operands, visit); }
void visit_parts(const Logical& node, const Visit& visit) { parts(node.operands, visit); }
void visit_parts(const Conditional& node, const Visit& visit) {
  part(node.when_true, visit);
  part(node.condition, visit);
  part(node.when_false, visit);
}
void visit_parts(const Subscript& node, const Visit& visit) {
  part(node.object, visit);
  part(node.index, visit);
}
void visit_parts(const Slice& node, const Visit& visit) {
  for (const ExpressionPtr* bound : {&node.start, &node.stop, &node.step}) part(*bound, visit);
}
void visit_parts(const List& node, const Visit& visit) { parts(node.items, visit); }
void visit_parts(const Tuple& node, const Visit& visit) { parts(node.items, visit); }
void visit_parts(const Dict& node, const Visit& visit) {
  for (std::size_t i = 0; i < node.keys.size(); ++i) {
    part(node.keys[i], visit);
    part(node.values[i], visit);
  }
}
void visit_parts(const Set& node, const Visit& visit) { parts(node.items, visit); }
void visit_parts(const Comprehension& node, const Visit& visit) {
  part(node.key, visit);
  part(node.element, visit);
  for (const Comprehension::Loop& loop : node.loops) {
    part(loop.target, visit);
    part(loop.iterable, visit);
    parts(loop.conditions, visit);
  }
}
void visit_parts(const Starred& node, const Visit& visit) { part(node.value, visit); }
void visit_parts(const Walrus& node, const Visit& visit) { part(node.value, visit); }
void visit_parts(const FormatString& node, const Visit& visit) {
  for (const FormatString::Part& piece : node.parts) {
    part(piece.expression, visit);
    part(piece.format, visit);
  }
}

using VisitBlock = std::function<void(const Block&)>;

void visit_parts(const ExpressionStatement& node, const Visit& visit, const VisitBlock&) {
  part(node.value, visit);
}
void visit_parts(const Assign& node, const Visit& visit, const VisitBlock&) {
  part(node.value, visit);
  parts(node.targets, visit);
}
void visit_parts(const AugmentedAssign& node, const Visit& visit, const VisitBlock&) {
  part(node.target, visit);
  part(node.value, visit);
}
void visit_parts(const If& node, const Visit& visit, const VisitBlock& visit_block) {
  for (const If::Branch& branch : node.branches) {
    part(branch.condition, visit);
    visit_block(branch.body);
  }
}
void visit_parts(const For& node, const Visit& visit, const VisitBlock& visit_block) {
  part(node.iterable, visit);
  part(node.target, visit);
  visit_block(node.body);
  visit_block(node.otherwise);
}
void visit_parts(const While& node, const Visit& visit, const VisitBlock& visit_block) {
  part(node.condition, visit);
  visit_block(node.body);
  visit_block(node.otherwise);
}
void visit_parts(const Def& node, const Visit& visit, const VisitBlock& visit_block) {
  for (const Parameter& parameter : node.function->parameters) part(parameter.default_value, visit);
  visit_block(node.function->body);
}
void visit_parts(const Class& node, const Visit&, const VisitBlock& visit_block) {
  visit_block(node.body);
}
void visit_parts(const With& node, const Visit& visit, const VisitBlock& visit_block) {
  for (const With::Item& item : node.items) {
    part(item.context, visit);
    part(item.target, visit);
  }
  visit_block(node.body);
}
void visit_parts(const Return& node, const Visit& visit, const VisitBlock&) {
  part(node.value, visit);
}
void visit_parts(const Assert& node, const Visit& visit, const VisitBlock&) {
  part(node.condition, visit);
  part(node.message, visit);
}
void visit_parts(const Try& node, const Visit&, const VisitBlock& visit_block) {
  visit_block(node.body);
  for (const Try::Handler& handler : node.handlers) visit_block(handler.body);
  visit_block(node.otherwise);
  visit_block(node.last);
}
void visit_parts(const Delete& node, const Visit& visit, const VisitBlock&) {
  parts(node.items, visit);
}
void visit_parts(const OuterNames&, const Visit&, const VisitBlock&) {}
void visit_parts(const Pass&, const Visit&, const VisitBlock&) {}
void visit_parts(const Break&, const Visit&, const VisitBlock&) {}
void visit_parts(const Continue&, const Visit&, const VisitBlock&) {}

}  // namespace

void for_each_part(const Statement& statement, const Visit& visit, const VisitBlock& visit_block) {
  std::visit([&](const auto& node) { visit_parts(node, visit, visit_block); }, statement.node);
}

void for_each_block(const Statement& statement, const VisitBlock& visit) {
  for_each_part(
      statement, [](const Expression&) {}, visit);
}

void for_each_part(const Expression& expression, const Visit& visit) {
  std::visit([&](const auto& node) { visit_parts(node, visit); }, expression.node);
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
