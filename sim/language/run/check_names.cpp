// Names, ops and methods of a program, checked before it runs: a name that is not defined is an
// error in the file (exit code 2).
#include <algorithm>
#include <set>

#include "base/text.h"
#include "ops/torch/torch_names.h"
#include "schema/op_registry.h"
#include "schema/op_row.h"
#include "sim/language/run/call_names.h"
#include "sim/language/run/interpreter.h"
#include "sim/language/syntax/ast_walk.h"
#include "sim/language/values/absent_names.h"
#include "sim/language/values/global_names.h"

namespace shardlab {

namespace {

class NameChecker {
 public:
  NameChecker(const ast::Program& program, const Environment& params,
              const std::vector<std::string>& inputs, const OpRegistry& registry)
      : source_(*program.source), registry_(registry) {
    const auto bound = ast::bound_names(program.body);
    for (const auto& [name, value] : params) {
      globals_.insert(name);
      const bool number = !std::holds_alternative<std::string>(value);
      if (number && !std::ranges::binary_search(bound, name)) numbers_.insert(name);
    }
    globals_.insert(inputs.begin(), inputs.end());
    for (const char* name : {"mesh", "rank", "world_size"}) globals_.insert(name);
    globals_.insert(bound.begin(), bound.end());
    find_attributes(program.body);
  }

  // All that is refused is in one error: a program is not mended name by name.
  void check_all(const ast::Program& program) {
    check(program.body);
    if (refused_.empty()) return;
    ScenarioError first = std::move(refused_.front());
    refused_.erase(refused_.begin());
    first.add(refused_);
    throw first;
  }

 private:
  void check(const ast::Block& block) {
    for (const ast::Statement& statement : block) {
      try {
        std::visit([&](const auto& node) { visit(statement, node); }, statement.node);
      } catch (const ScenarioError& error) {
        refused_.push_back(error);
        hidden_.clear();
      }
    }
  }

  using Names = std::set<std::string, std::less<>>;

  // Attributes that the program sets: ctx.scale = 2, and methods of its classes; names that its
  // defs bind at the top.
  void find_attributes(const ast::Block& block) {
    for (const ast::Statement& statement : block) {
      if (const auto* assign = statement.get<ast::Assign>()) {
        for (const auto& target : assign->targets) find_attributes(*target);
      } else if (const auto* own = statement.get<ast::Class>()) {
        for (const std::string& name : ast::bound_names(own->body)) attributes_.insert(name);
      } else if (const auto* outer = statement.get<ast::OuterNames>()) {
        if (outer->global) globals_.insert(outer->names.begin(), outer->names.end());
      }
      ast::for_each_block(statement, [this](const ast::Block& inner) { find_attributes(inner); });
    }
  }
  void find_attributes(const ast::Expression& target) {
    const auto* attribute = target.get<ast::Attribute>();
    if (attribute != nullptr) attributes_.insert(attribute->name);
    const auto* tuple = target.get<ast::Tuple>();
    if (tuple == nullptr) return;
    for (const auto& item : tuple->items) find_attributes(*item);
  }

  void visit(const ast::Statement&, const ast::ExpressionStatement& node) {
    check(*node.value);
    check_taken(*node.value);
  }
  void visit(const ast::Statement&, const ast::Assign& node) {
    check(*node.value);
    for (const auto& target : node.targets) check_target(*target);
  }
  void visit(const ast::Statement&, const ast::For& node) {
    check(*node.iterable);
    check_target(*node.target);
    check(node.body);
    check(node.otherwise);
  }
  void visit(const ast::Statement&, const ast::Def& node) {
    for (const ast::Parameter& parameter : node.function->parameters) {
      check(parameter.default_value);
    }
    const Names around = locals_;
    locals_.insert(node.function->locals.begin(), node.function->locals.end());
    check(node.function->body);
    locals_ = around;
  }
  void visit(const ast::Statement&, const ast::With& node) {
    for (const ast::With::Item& item : node.items) {
      check(item.context);
      if (item.target) check_target(*item.target);
    }
    check(node.body);
  }
  template <typename Other>
  void visit(const ast::Statement& statement, const Other&) {
    ast::for_each_part(
        statement, [this](const ast::Expression& part) { check(part); },
        [this](const ast::Block& block) { check(block); });
  }

  // A collective that returns a new tensor which is never used: people mean the one that writes its
  // argument.
  void check_taken(const ast::Expression& dropped) {
    if (const auto* comprehension = dropped.get<ast::Comprehension>()) {
      return check_taken(*comprehension->element);
    }
    const auto* call = dropped.get<ast::Call>();
    if (call == nullptr || own_collective(*call) != OwnCollective::kGives) return;
    const std::string name = called_name(*call->function);
    if (name == "barrier" || name == "wait_tensor" || name.empty()) return;
    if (std::ranges::count(call->arguments, "inplace", &ast::CallArgument::keyword) > 0) return;
    refuse(source_, dropped.span,
           fmt::format("the result of {} is dropped: it gives a new tensor and writes none", name),
           fmt::format("dist.{0}(...) writes its argument, as in PyTorch; or take the result: y = "
                       "{0}(...)",
                       name));
  }

  // "all_reduce" if that is not the program's own; empty if it is.
  std::string called_name(const ast::Expression& function) const {
    if (const auto* name = function.get<ast::Name>()) {
      const bool own = locals_.contains(name->id) || globals_.contains(name->id);
      return own ? "" : name->id;
    }
    const auto& attribute = std::get<ast::Attribute>(function.node);
    const ast::Expression* module = attribute.object.get();
    while (const auto* inner = module->get<ast::Attribute>()) {
      module = inner->object.get();
    }
    return called_name(*module).empty() ? "" : attribute.name;
  }

  // Names of a target are bound by it; indices in it are read.
  void check_target(const ast::Expression& target) {
    if (const auto* subscript = target.get<ast::Subscript>()) {
      check(*subscript->object);
      check(*subscript->index);
    } else if (const auto* attribute = target.get<ast::Attribute>()) {
      check(*attribute->object);
    } else if (const auto* tuple = target.get<ast::Tuple>()) {
      for (const auto& item : tuple->items) check_target(*item);
    } else if (const auto* list = target.get<ast::List>()) {
      for (const auto& item : list->items) check_target(*item);
    } else if (const auto* rest = target.get<ast::Starred>()) {
      check_target(*rest->value);
    }
  }

  void check(const ast::Expression& expression) {
    std::visit([&](const auto& node) { visit_expression(expression, node); }, expression.node);
  }
  void check(const ast::ExpressionPtr& expression) {
    if (expression) check(*expression);
  }
  void check_all(const std::vector<ast::ExpressionPtr>& items) {
    for (const auto& item : items) check(item);
  }

  // Other nodes are checked by their parts, from left to right.
  template <typename Other>
  void visit_expression(const ast::Expression& at, const Other&) {
    ast::for_each_part(at, [this](const ast::Expression& part) { check(part); });
  }
  void visit_expression(const ast::Expression& at, const ast::Name& node) {
    const bool bound = locals_.contains(node.id) || globals_.contains(node.id) ||
                       std::ranges::find(hidden_, node.id) != hidden_.end();
    if (bound || find_global(node.id, registry_)) return;
    auto known = global_names(registry_);
    known.insert(known.begin(), globals_.begin(), globals_.end());
    known.insert(known.begin(), locals_.begin(), locals_.end());
    refuse(source_, at.span, fmt::format("unknown name '{}'", node.id),
           nearest_or_nothing(node.id, known));
  }
  void visit_expression(const ast::Expression&, const ast::Attribute& node) {
    if (const auto module = module_path(*node.object)) return check_in_module(*module, node);
    check_not_hidden(node);
    check(*node.object);
    const bool known = attributes_.contains(node.name) || is_tensor_attribute(node.name) ||
                       is_torch_name(registry_, node.name) || names_result(node.name) ||
                       std::ranges::any_of(member_tables(), [&](BuiltinTable table) {
                         return find_builtin(table, node.name) != nullptr;
                       });
    if (known) return;
    refuse(source_, node.name_span,
           fmt::format("nothing has a method or attribute '{}'", node.name),
           nearest_or_nothing(node.name, method_names()));
  }
  // x.max(0).values
  bool names_result(std::string_view name) const {
    return std::ranges::any_of(registry_.rows(), [&](const OpRow* row) {
      return std::ranges::count(row->op.returns, name, &SchemaReturn::name) > 0;
    });
  }
  // The condition is evaluated first.
  void visit_expression(const ast::Expression&, const ast::Conditional& node) {
    check(*node.condition);
    check(*node.when_true);
    check(*node.when_false);
  }
  void visit_expression(const ast::Expression&, const ast::Dict& node) {
    check_all(node.keys);
    check_all(node.values);
  }
  void visit_expression(const ast::Expression&, const ast::Comprehension& node) {
    const std::size_t before = hidden_.size();
    for (const auto& loop : node.loops) {
      check(*loop.iterable);
      ast::collect_targets(*loop.target, hidden_);
      check_all(loop.conditions);
    }
    check(node.key);
    check(*node.element);
    hidden_.resize(before);
  }

  // A number of [params] with the name of a namespace: F.linear is then no function.
  void check_not_hidden(const ast::Attribute& node) {
    const auto* name = node.object->get<ast::Name>();
    if (name == nullptr || !numbers_.contains(name->id) || locals_.contains(name->id)) return;
    const auto hidden = find_global(name->id, registry_);
    if (!hidden || !hidden->is<ModuleValue>()) return;
    refuse(source_, node.object->span,
           fmt::format("'{0}' is a number of [params], which hides the namespace {0}", name->id),
           "give the param another name");
  }

  // "torch.nn" for an expression that names a module; empty for anything else.
  std::optional<std::string> module_path(const ast::Expression& expression) {
    if (const auto* name = expression.get<ast::Name>()) {
      if (locals_.contains(name->id) || globals_.contains(name->id)) return std::nullopt;
      const auto found = find_global(name->id, registry_);
      if (found && found->is<ModuleValue>()) return found->as<ModuleValue>().path;
      return std::nullopt;
    }
    const auto* attribute = expression.get<ast::Attribute>();
    if (attribute == nullptr) return std::nullopt;
    const auto outer = module_path(*attribute->object);
    if (!outer) return std::nullopt;
    check_in_module(*outer, *attribute);
    const auto found = find_in_module(*outer, attribute->name, registry_);
    return found && found->is<ModuleValue>() ? std::optional(*outer + "." + attribute->name)
                                             : std::nullopt;
  }

  void check_in_module(const std::string& module, const ast::Attribute& node) {
    if (find_in_module(module, node.name, registry_)) return;
    const std::vector<std::string> known = names_in_module(module, registry_);
    if (!op_of_module(module).empty()) {
      refuse(source_, node.name_span, fmt::format("{} has no overload '{}'", module, node.name),
             suggest(node.name, known));
    }
    if (has_members_only(module)) {
      refuse(source_, node.name_span, fmt::format("{} has no '{}'", module, node.name),
             fmt::format("it has {}", text_of_list(known, ", ")));
    }
    refuse(source_, node.name_span, fmt::format("unknown op '{}.{}'", module, node.name),
           nearest_or_nothing(node.name, known));
  }

  static std::string nearest_or_nothing(const std::string& name,
                                        const std::vector<std::string>& known) {
    if (std::string advice = advice_on(name); !advice.empty()) return advice;
    const auto found = nearest(name, known);
    return found ? fmt::format("did you mean '{}'?", *found) : "";
  }

  std::vector<std::string> method_names() const {
    auto names = torch_names(registry_);
    for (const BuiltinTable table : member_tables()) {
      for (const Builtin& builtin : table) names.push_back(builtin.name);
    }
    return names;
  }

  const SourceText& source_;
  const OpRegistry& registry_;
  Names globals_;
  Names locals_;
  // Attributes that the program sets on objects, and those of torch.finfo.
  Names attributes_ = {"bits", "eps", "smallest_normal", "tiny"};
  Names numbers_;                       // of [params], if the program gives them no other value
  std::vector<std::string> hidden_;     // names of the comprehensions around
  std::vector<ScenarioError> refused_;  // in the order of the program
};

}  // namespace

void check_names(const ast::Program& program, const Environment& params,
                 const std::vector<std::string>& inputs, const OpRegistry& registry) {
  NameChecker(program, params, inputs, registry).check_all(program);
}

}  // namespace shardlab
