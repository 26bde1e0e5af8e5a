// A name depends on the rank when something that depends on it is assigned to it, or when the
// assignment itself stands in a branch or loop that depends on it. Repeated until nothing is added,
// because loops and defs carry a dependence backwards in the text. What depends on the program's
// own collectives is found in the same way.
#include "sim/language/program_traits.h"

#include <algorithm>
#include <map>

#include "sim/language/ast_walk.h"
#include "sim/language/builtin.h"

namespace shardlab {

namespace {

constexpr std::string_view kLocalWorld[] = {"to_local", "from_local"};

bool is_collective(std::string_view name) {
  return find_builtin(collective_builtins(), name) != nullptr;
}

bool leaves_the_mesh(std::string_view name) {
  return std::ranges::count(kLocalWorld, name) > 0 || is_collective(name);
}

// What a walk follows through the program.
enum class Source : std::uint8_t { kRank, kExchange };

using Names = std::set<std::string, std::less<>>;

bool follows(const Names& names, bool gradients, std::string_view recorded) {
  if (recorded.ends_with(".grad")) {
    if (gradients) return true;
    recorded.remove_suffix(5);
  }
  return names.contains(recorded.substr(0, recorded.find('[')));
}

bool mentions_mesh(const ast::Expression& expression) {
  return ast::any_part(expression, [](const ast::Expression& part) {
    const auto* name = std::get_if<ast::Name>(&part.node);
    return name != nullptr && name->id == "mesh";
  });
}

class Walk {
 public:
  Walk(const ast::Program& program, Source source, ProgramTraits& traits)
      : program_(program),
        source_(source),
        traits_(traits),
        names_(source == Source::kRank ? traits.by_rank : traits.by_exchange),
        gradients_(source == Source::kRank ? traits.gradients_by_rank
                                           : traits.gradients_by_exchange) {
    for (const ast::Statement& statement : program.body) {
      if (const auto* def = std::get_if<ast::Def>(&statement.node)) {
        defs_[def->function->name] = def->function.get();
      }
    }
  }

  void run() {
    do {
      changed_ = false;
      walk(program_.body, false);
    } while (changed_);
  }

 private:
  void mark(const std::string& name) {
    if (names_.insert(name).second) changed_ = true;
  }
  void mark(bool& flag) {
    if (!std::exchange(flag, true)) changed_ = true;
  }

  std::string full(std::string_view name) const {
    const bool local = function_ != nullptr &&
                       std::binary_search(function_->locals.begin(), function_->locals.end(), name);
    return local ? function_->name + "." + std::string(name) : std::string(name);
  }

  // What one node says by itself; its parts are looked at by any_part.
  bool depends_here(const ast::Expression& expression) {
    if (const auto* name = std::get_if<ast::Name>(&expression.node)) {
      if (name->id == "world_size") traits_.reads_world = true;
      if (name->id == "rank") traits_.reads_rank = true;
      if (name->id == "assert_close") traits_.asserts_close = true;
      if (leaves_the_mesh(name->id)) traits_.leaves = true;
      return is_source(name->id, "rank") || names_.contains(full(name->id));
    }
    if (const auto* attribute = std::get_if<ast::Attribute>(&expression.node)) {
      if (leaves_the_mesh(attribute->name)) traits_.leaves = true;
      if (attribute->name == "coordinate") traits_.reads_rank = true;
      if (mentions_mesh(*attribute->object)) traits_.reads_world = true;
      if (is_source(attribute->name, "coordinate")) return true;
      return attribute->name == "grad" && gradients_;
    }
    return false;
  }

  // `of_rank`: how this kind of name says the rank.
  bool is_source(std::string_view name, std::string_view of_rank) const {
    if (source_ == Source::kRank) return name == of_rank;
    return name == "from_local" || is_collective(name);
  }

  // Every part is looked at: a call deep inside may pass the rank on.
  bool depends(const ast::Expression& expression, bool under) {
    bool found = depends_here(expression);
    ast::for_each_part(expression, [&](const ast::Expression& part) {
      if (depends(part, under)) found = true;
    });
    if (const auto* call = std::get_if<ast::Call>(&expression.node)) calls(*call, under || found);
    return found;
  }
  bool depends(const ast::ExpressionPtr& expression, bool under) {
    return expression && depends(*expression, under);
  }

  // A call that depends on the rank, or stands where it is made on some ranks only.
  void calls(const ast::Call& call, bool by_rank) {
    if (!by_rank) return;
    const auto* name = std::get_if<ast::Name>(&call.function->node);
    const auto* method = std::get_if<ast::Attribute>(&call.function->node);
    if ((name != nullptr && name->id == "backward") ||
        (method != nullptr && method->name == "backward")) {
      mark(gradients_);
    }
    if (method != nullptr &&
        (method->name.ends_with('_') || method->name == "append" || method->name == "extend")) {
      mark_target(*method->object);
    }
    const auto def = name != nullptr ? defs_.find(name->id) : defs_.end();
    if (def == defs_.end()) return;
    for (const ast::Parameter& parameter : def->second->parameters) {
      mark(def->first + "." + parameter.name);
    }
    if (called_by_rank_.insert(def->second).second) changed_ = true;
  }

  void mark_target(const ast::Expression& target) {
    if (const std::string_view base = ast::base_name(target); !base.empty()) mark(full(base));
    std::vector<std::string> names;
    ast::collect_targets(target, names);
    for (const std::string& name : names) mark(full(name));
  }

  void walk(const ast::Block& block, bool under) {
    for (const ast::Statement& statement : block) {
      std::visit([&](const auto& node) { visit(node, under); }, statement.node);
    }
  }

  void visit(const ast::ExpressionStatement& node, bool under) { depends(*node.value, under); }
  void visit(const ast::Assign& node, bool under) {
    bool by_rank = depends(*node.value, under) || under;
    for (const auto& target : node.targets) by_rank = depends_index(*target, under) || by_rank;
    if (!by_rank) return;
    for (const auto& target : node.targets) mark_target(*target);
  }
  // The index of x[rank] = v, not x itself: that it depended on the rank before is known anyway.
  bool depends_index(const ast::Expression& target, bool under) {
    const auto* subscript = std::get_if<ast::Subscript>(&target.node);
    return subscript != nullptr && depends(*subscript->index, under);
  }
  void visit(const ast::AugmentedAssign& node, bool under) {
    if (depends(*node.value, under) || depends_index(*node.target, under) || under) {
      mark_target(*node.target);
    }
  }
  void visit(const ast::If& node, bool under) {
    bool by_rank = under;
    for (const auto& branch : node.branches) by_rank = depends(branch.condition, under) || by_rank;
    for (const auto& branch : node.branches) walk(branch.body, by_rank);
  }
  void loop(const ast::Block& body, const ast::Block& otherwise, bool by_rank) {
    bool* const outer = std::exchange(loop_, &left_early_[&body]);
    by_rank = by_rank || *loop_;
    walk(body, by_rank);
    loop_ = outer;
    walk(otherwise, by_rank);
  }
  void visit(const ast::For& node, bool under) {
    const bool by_rank = depends(*node.iterable, under) || under;
    if (by_rank) mark_target(*node.target);
    loop(node.body, node.otherwise, by_rank);
  }
  void visit(const ast::While& node, bool under) {
    loop(node.body, node.otherwise, depends(*node.condition, under) || under);
  }
  void visit(const ast::Def& node, bool under) {
    for (const ast::Parameter& parameter : node.function->parameters) {
      if (depends(parameter.default_value, under)) mark(node.function->name + "." + parameter.name);
    }
    const ast::Function* const outer = std::exchange(function_, node.function.get());
    walk(node.function->body, called_by_rank_.contains(function_));
    function_ = outer;
  }
  // The function's own name stands for what it returns.
  void visit(const ast::Return& node, bool under) {
    const bool by_rank = depends(node.value, under) || under;
    if (!by_rank || function_ == nullptr) return;
    mark(function_->name);
    // What stands below a return that some ranks take is run by the others only.
    if (under && called_by_rank_.insert(function_).second) changed_ = true;
  }
  void visit(const ast::Assert& node, bool under) {
    depends(*node.condition, under);
    depends(node.message, under);
  }
  void visit(const ast::Pass&, bool) {}
  void visit(const ast::Break&, bool under) { leave_loop(under); }
  void visit(const ast::Continue&, bool under) { leave_loop(under); }
  void leave_loop(bool under) {
    if (under && loop_ != nullptr) mark(*loop_);
  }

  const ast::Program& program_;
  const Source source_;
  ProgramTraits& traits_;
  Names& names_;     // those that follow from the source
  bool& gradients_;  // all gradients do
  std::map<std::string, const ast::Function*, std::less<>> defs_;
  std::set<const ast::Function*> called_by_rank_;  // whose body runs on some ranks only
  std::map<const void*, bool> left_early_;         // loops that some ranks leave before others
  bool* loop_ = nullptr;
  const ast::Function* function_ = nullptr;
  bool changed_ = false;
};

}  // namespace

bool ProgramTraits::follows_rank(std::string_view recorded) const {
  return follows(by_rank, gradients_by_rank, recorded);
}

bool ProgramTraits::follows_exchange(std::string_view recorded) const {
  return follows(by_exchange, gradients_by_exchange, recorded);
}

ProgramTraits traits_of(const ast::Program& program) {
  ProgramTraits traits;
  Walk(program, Source::kRank, traits).run();
  Walk(program, Source::kExchange, traits).run();
  return traits;
}

}  // namespace shardlab
