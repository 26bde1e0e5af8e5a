// A name depends on the rank when a value that depends on it is assigned to it, or when the
// assignment itself is in a branch or loop that depends on it. Repeated until nothing is added,
// because loops and defs carry a dependence backwards in the text. Names that depend on the
// program's own collectives are found in the same way.
#include "sim/language/run/program_traits.h"

#include <algorithm>
#include <map>

#include "sim/language/syntax/ast_walk.h"
#include "sim/language/values/builtin.h"

namespace shardlab {

namespace {

constexpr std::string_view kLocalWorld[] = {"to_local", "from_local"};
// Names and members with the rank's number, and those with the size of the world.
constexpr std::string_view kRankNames[] = {"rank", "get_rank", "get_process_group_ranks"};
constexpr std::string_view kRankMembers[] = {
    "coordinate",    "get_coordinate",          "_sym_get_coordinate",
    "get_rank",      "get_local_rank",          "_is_current_rank_part_of_mesh",
    "rank",          "get_process_group_ranks", "get_global_rank",
    "get_group_rank"};
constexpr std::string_view kWorldNames[] = {"world_size", "get_world_size", "WORLD",
                                            "_get_group_size_by_name"};
constexpr std::string_view kSizeNames[] = {"shape", "size", "numel", "len", "nelement"};
// Names that draw random numbers, in addition to all that begin with rand, and those that set the
// state.
constexpr std::string_view kDraws[] = {"bernoulli", "multinomial", "normal",
                                       "poisson",   "uniform",     "exponential",
                                       "geometric", "cauchy",      "log_normal"};
constexpr std::string_view kSeeds[] = {"manual_seed", "manual_seed_all", "set_rng_state"};
// Methods that put their arguments into the list or dict.
constexpr std::string_view kAdds[] = {"append",     "extend", "insert", "save_for_backward",
                                      "setdefault", "update"};
// Methods that make backward run a function of the program.
constexpr std::string_view kHooks[] = {"register_hook", "register_full_backward_hook",
                                       "register_full_backward_pre_hook"};

template <std::size_t kCount>
bool is_one_of(const std::string_view (&names)[kCount], std::string_view name) {
  return std::ranges::find(names, name) != std::end(names);
}

bool draws(std::string_view name) {
  if (name.ends_with('_')) name.remove_suffix(1);
  return name.starts_with("rand") || name.find("dropout") != name.npos || is_one_of(kDraws, name);
}

bool is_collective(std::string_view name) {
  return find_builtin(collective_builtins(), name) != nullptr;
}

bool leaves_the_mesh(std::string_view name) {
  return std::ranges::count(kLocalWorld, name) > 0 || is_collective(name);
}

// "torch.distributed" for dist and torch.distributed; empty for anything that is no module of
// collectives.
std::string_view module_of(const ast::Expression& object) {
  constexpr std::string_view kDist = "torch.distributed", kFuncol = "funcol", kNn = "nn";
  if (const auto* name = std::get_if<ast::Name>(&object.node)) {
    return name->id == "dist" ? kDist : name->id == "funcol" ? kFuncol : std::string_view();
  }
  const auto* attribute = std::get_if<ast::Attribute>(&object.node);
  if (attribute == nullptr) return {};
  const auto* outer = std::get_if<ast::Name>(&attribute->object->node);
  if (attribute->name == "distributed" && outer != nullptr && outer->id == "torch") return kDist;
  const std::string_view above = module_of(*attribute->object);
  if (above == kDist && attribute->name == "_functional_collectives") return kFuncol;
  const bool nn =
      above == kDist ? attribute->name == "nn" : above == kNn && attribute->name == "functional";
  return nn ? kNn : std::string_view();
}

// A function of such a module that is a collective.
OwnCollective collective_in(const ast::Attribute& function) {
  const std::string_view module = module_of(*function.object);
  if (module.empty()) return OwnCollective::kNone;
  const bool fills = module != "funcol" && module != "nn";
  const BuiltinTable table = fills            ? dist_builtins()
                             : module == "nn" ? dist_nn_builtins()
                                              : funcol_builtins();
  if (find_builtin(table, function.name) == nullptr) return OwnCollective::kNone;
  return fills ? OwnCollective::kFills : OwnCollective::kGives;
}

// Functions of torch.distributed that fill a tensor with another rank's message.
constexpr std::string_view kReceives[] = {"recv", "irecv", "recv_object_list"};
constexpr std::string_view kSends[] = {"send", "isend", "send_object_list", "batch_isend_irecv"};

std::string_view member_of(const ast::Expression& expression) {
  const auto* attribute = std::get_if<ast::Attribute>(&expression.node);
  return attribute == nullptr ? std::string_view() : std::string_view(attribute->name);
}

bool receives(const ast::Attribute& function) {
  return is_one_of(kReceives, function.name) && module_of(*function.object) == "torch.distributed";
}

// The arguments of a call of torch.distributed that it writes.
std::vector<const ast::Expression*> filled_by(const ast::Call& call) {
  const std::string_view name = member_of(*call.function);
  const std::vector<ast::CallArgument>& given = call.arguments;
  if (is_one_of(kSends, name)) return {};
  const bool message = name == "P2POp" && !given.empty();
  if (message && member_of(*given[0].value) == "isend") return {};
  const std::size_t first = message ? 1 : 0;
  const std::size_t count = message || is_one_of(kReceives, name) ? 1 : given.size();
  std::vector<const ast::Expression*> filled;
  for (std::size_t i = first; i < given.size() && i < first + count; ++i) {
    filled.push_back(given[i].value.get());
  }
  return filled;
}

// The source that a walk follows through the program.
enum class Source : std::uint8_t { kRank, kExchange, kSize };

using Names = std::set<std::string, std::less<>>;

Names& names_of(Source source, ProgramTraits& traits) {
  if (source == Source::kSize) return traits.by_size;
  return source == Source::kRank ? traits.by_rank : traits.by_exchange;
}

bool& gradients_of(Source source, ProgramTraits& traits) {
  if (source == Source::kSize) return traits.gradients_by_size;
  return source == Source::kRank ? traits.gradients_by_rank : traits.gradients_by_exchange;
}

bool follows(const Names& names, bool gradients, std::string_view recorded) {
  if (recorded.ends_with(".grad")) {
    if (gradients) return true;
    recorded.remove_suffix(5);
  }
  return names.contains(recorded) || names.contains(recorded.substr(0, recorded.find('[')));
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
        names_(names_of(source, traits)),
        gradients_(gradients_of(source, traits)) {
    find_defs(program.body);
  }

  void run() {
    do {
      changed_ = false;
      walk(program_.body, false);
    } while (changed_);
  }

 private:
  static constexpr const char* kForward = ".forward";
  static constexpr const char* kBackward = ".backward";
  static constexpr const char* kSetup = ".setup_context";

  void find_defs(const ast::Block& block) {
    for (const ast::Statement& statement : block) {
      if (const auto* def = std::get_if<ast::Def>(&statement.node)) {
        defs_[def->function->path].push_back(def->function.get());
      } else if (const auto* own = std::get_if<ast::Class>(&statement.node)) {
        classes_.insert(own->path);
      }
      ast::for_each_part(
          statement, [](const ast::Expression&) {},
          [&](const ast::Block& inner) { find_defs(inner); });
    }
  }

  void mark(const std::string& name) {
    if (names_.insert(name).second) changed_ = true;
  }
  void mark(bool& flag) {
    if (!std::exchange(flag, true)) changed_ = true;
  }

  // With the path of the def that the name is local to.
  std::string full(std::string_view name) const {
    for (const ast::Function* function : functions_) {
      if (function->binds(name)) return function->path + "." + std::string(name);
    }
    return std::string(name);
  }

  // The class whose F.apply this is; empty for anything else.
  std::string applied(const ast::Expression& function) const {
    const auto* method = std::get_if<ast::Attribute>(&function.node);
    if (method == nullptr || method->name != "apply") return {};
    const auto* name = std::get_if<ast::Name>(&method->object->node);
    const std::string path = name != nullptr ? full(name->id) : "";
    return classes_.contains(path) ? path : "";
  }

  // The dependence of one node itself; its parts are visited by any_part.
  bool depends_here(const ast::Expression& expression) {
    if (const auto* name = std::get_if<ast::Name>(&expression.node)) {
      if (is_one_of(kWorldNames, name->id)) traits_.reads_world = true;
      if (is_one_of(kRankNames, name->id)) traits_.reads_rank = true;
      if (name->id == "assert_close") traits_.asserts_close = true;
      if (leaves_the_mesh(name->id)) traits_.leaves = true;
      if (!called_ && defs_.contains(full(name->id))) escaped_.insert(full(name->id));
      if (seeded_ && draws(name->id)) return true;
      return is_source(name->id, kRankNames) || names_.contains(full(name->id));
    }
    if (const auto* attribute = std::get_if<ast::Attribute>(&expression.node)) {
      if (const std::string own = applied(expression); !own.empty()) {
        if (!called_) escaped_.insert({own + kForward, own + kBackward});
        return names_.contains(own + kForward);
      }
      const bool collective = collective_in(*attribute) != OwnCollective::kNone;
      if (leaves_the_mesh(attribute->name) || collective) traits_.leaves = true;
      if (is_one_of(kRankMembers, attribute->name)) traits_.reads_rank = true;
      if (mentions_mesh(*attribute->object) || is_one_of(kWorldNames, attribute->name)) {
        traits_.reads_world = true;
      }
      if (source_ == Source::kExchange && collective) return true;
      if (source_ == Source::kRank && receives(*attribute)) return true;
      if (seeded_ && draws(attribute->name)) return true;
      const bool of_mesh = source_ == Source::kSize && mentions_mesh(*attribute->object);
      if (!of_mesh && is_source(attribute->name, kRankMembers)) return true;
      return attribute->name == "grad" && gradients_;
    }
    return false;
  }

  // `of_rank`: the names of this kind that give the rank.
  template <std::size_t kCount>
  bool is_source(std::string_view name, const std::string_view (&of_rank)[kCount]) const {
    if (source_ == Source::kRank) return is_one_of(of_rank, name);
    if (source_ == Source::kSize) return is_one_of(kSizeNames, name);
    return name == "from_local" || is_collective(name);
  }

  // Every part is looked at: a call deep inside may pass the rank on.
  bool depends(const ast::Expression& expression, bool under) {
    bool found = depends_here(expression);
    const auto* call = std::get_if<ast::Call>(&expression.node);
    const auto* each = std::get_if<ast::Comprehension>(&expression.node);
    std::set<std::string> filled;
    if (each != nullptr) filled = std::exchange(filled_here_, {});
    ast::for_each_part(expression, [&](const ast::Expression& part) {
      called_ = call != nullptr && &part == call->function.get();
      if (depends(part, under)) found = true;
    });
    called_ = false;
    const auto* walrus = std::get_if<ast::Walrus>(&expression.node);
    if (walrus != nullptr && (under || found)) mark(full(walrus->name));
    if (call != nullptr) calls(*call, under || found);
    // A value that is read is recorded under its expression.
    if (call != nullptr && (under || found) && read_by(*call) != nullptr) {
      mark(full(ast::print(expression)));
    }
    if (const auto* compared = std::get_if<ast::Compare>(&expression.node)) {
      for (const auto& operand : compared->operands) mark_operand(*operand, under);
    }
    if (each != nullptr) {
      for (const auto& loop : each->loops) fills_items(*loop.target, *loop.iterable);
      filled_here_.merge(filled);
    }
    return found;
  }
  bool depends(const ast::ExpressionPtr& expression, bool under) {
    return expression && depends(*expression, under);
  }

  void mark_operand(const ast::Expression& operand, bool under) {
    if (depends(operand, under) || under) mark(full(name_of_operand(operand)));
  }

  // A call that depends on the rank, or is made on some ranks only.
  void calls(const ast::Call& call, bool by_rank) {
    const auto* name = std::get_if<ast::Name>(&call.function->node);
    if (name != nullptr) fills_through(full(name->id), call);
    if (!by_rank) return;
    if (own_collective(call) == OwnCollective::kFills) {
      for (const ast::Expression* argument : filled_by(call)) fill_target(*argument);
    }
    const auto* method = std::get_if<ast::Attribute>(&call.function->node);
    if (source_ == Source::kRank && method != nullptr && is_one_of(kSeeds, method->name)) {
      if (ast::base_name(*method->object) == "torch") {
        mark(seeded_);
      } else {
        mark_target(*method->object);
      }
    }
    if ((name != nullptr && name->id == "backward") ||
        (method != nullptr && method->name == "backward")) {
      mark(gradients_);
    }
    const bool adds = method != nullptr && is_one_of(kAdds, method->name);
    if (method != nullptr && (method->name.ends_with('_') || adds)) {
      mark_target(*method->object);
    }
    const bool hooks = method != nullptr && is_one_of(kHooks, method->name);
    if (hooks) mark(gradients_);
    const auto def = name != nullptr ? defs_.find(full(name->id)) : defs_.end();
    if (def != defs_.end()) return called_by_rank(def->first);
    if (const std::string own = applied(*call.function); !own.empty()) {
      called_by_rank(own + kForward);
      return called_by_rank(own + kBackward);
    }
    // A function that a name or an expression has as its value: any that is used as one.
    if (method != nullptr && !hooks) return;
    const std::set<std::string> escaped = escaped_;
    for (const std::string& path : escaped) called_by_rank(path);
  }

  void fill_target(const ast::Expression& target) {
    mark_target(target);
    const std::string_view base = ast::base_name(target);
    if (base.empty()) return;
    filled_here_.insert(full(base));
    if (filled_.insert(full(base)).second) changed_ = true;
  }

  // A list is filled if each of its items is.
  void fills_items(const ast::Expression& target, const ast::Expression& iterable) {
    std::vector<std::string> names;
    ast::collect_targets(target, names);
    if (std::ranges::none_of(
            names, [&](const std::string& name) { return filled_here_.contains(full(name)); })) {
      return;
    }
    ast::any_part(iterable, [&](const ast::Expression& part) {
      if (std::holds_alternative<ast::Name>(part.node)) fill_target(part);
      return false;
    });
  }

  // A def that fills its parameter fills the argument.
  void fills_through(const std::string& path, const ast::Call& call) {
    const auto def = defs_.find(path);
    if (def == defs_.end()) return;
    for (const ast::Function* function : def->second) {
      for (std::size_t i = 0; i < call.arguments.size(); ++i) {
        const ast::CallArgument& given = call.arguments[i];
        const auto& parameters = function->parameters;
        if (given.keyword.empty() && i >= parameters.size()) continue;
        const std::string& filled = given.keyword.empty() ? parameters[i].name : given.keyword;
        const auto fills = [&](const std::string& name) {
          return filled_.contains(path + "." + name);
        };
        const bool any = given.keyword == ast::kDoubleStar &&
                         std::ranges::any_of(parameters, fills, &ast::Parameter::name);
        if (any || fills(filled)) fill_target(*given.value);
      }
    }
  }

  void called_by_rank(const std::string& path) {
    const auto defs = defs_.find(path);
    if (defs == defs_.end()) return;  // a class without it
    for (const ast::Function* function : defs->second) {
      for (const ast::Parameter& parameter : function->parameters) {
        mark(path + "." + parameter.name);
      }
      if (called_by_rank_.insert(function).second) changed_ = true;
    }
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
  // The index of x[rank] = v, not x itself: a former dependence of x is known already.
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
    for (const auto& branch : node.branches) {
      if (branch.condition) mark_operand(*branch.condition, under);
      by_rank = depends(branch.condition, under) || by_rank;
    }
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
    std::set<std::string> filled = std::exchange(filled_here_, {});
    loop(node.body, node.otherwise, by_rank);
    fills_items(*node.target, *node.iterable);
    filled_here_.merge(filled);
  }
  void visit(const ast::While& node, bool under) {
    loop(node.body, node.otherwise, depends(*node.condition, under) || under);
  }
  void visit(const ast::Def& node, bool under) {
    for (const ast::Parameter& parameter : node.function->parameters) {
      if (depends(parameter.default_value, under)) mark(node.function->path + "." + parameter.name);
    }
    const ast::Function* const function = node.function.get();
    functions_.insert(functions_.begin(), function);
    walk(function->body, called_by_rank_.contains(function));
    functions_.erase(functions_.begin());
  }
  // Gradients pass through backward, whose context is that of forward.
  void visit(const ast::Class& node, bool under) {
    walk(node.body, under);
    if (names_.contains(node.path + kBackward)) mark(gradients_);
    bool context = false;
    for (const char* which : {kForward, kSetup}) {
      each_parameter(node.path + which, [&](const std::string& name, bool first) {
        context = context || (first && names_.contains(name));
      });
    }
    each_parameter(node.path + kBackward, [&](const std::string& name, bool first) {
      if (first ? context : gradients_) mark(name);
    });
  }
  template <typename Visit>
  void each_parameter(const std::string& path, const Visit& visit) const {
    const auto defs = defs_.find(path);
    if (defs == defs_.end()) return;
    for (const ast::Function* function : defs->second) {
      for (std::size_t i = 0; i < function->parameters.size(); ++i) {
        visit(path + "." + function->parameters[i].name, i == 0);
      }
    }
  }
  // Contexts decide whether gradients are recorded.
  void visit(const ast::With& node, bool under) {
    bool by_rank = under;
    for (const ast::With::Item& item : node.items) {
      if (depends(*item.context, under)) {
        mark(gradients_);
        by_rank = true;
      }
      if (by_rank && item.target) mark_target(*item.target);
    }
    walk(node.body, by_rank);
  }
  // The function's own name is used for its result.
  void visit(const ast::Return& node, bool under) {
    const bool by_rank = depends(node.value, under) || under;
    if (!by_rank || functions_.empty()) return;
    mark(functions_.front()->path);
    // Statements below a return that some ranks take run on the others only.
    if (under && called_by_rank_.insert(functions_.front()).second) changed_ = true;
  }
  void visit(const ast::Assert& node, bool under) {
    depends(*node.condition, under);
    depends(node.message, under);
  }
  void visit(const ast::Try& node, bool under) {
    walk(node.body, under);
    for (const ast::Try::Handler& handler : node.handlers) walk(handler.body, under);
    walk(node.otherwise, under);
    walk(node.last, under);
  }
  void visit(const ast::Delete& node, bool under) {
    for (const ast::ExpressionPtr& item : node.items) {
      if (depends(*item, under) || under) mark_target(*item);
    }
  }
  void visit(const ast::OuterNames&, bool) {}
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
  std::map<std::string, std::vector<const ast::Function*>, std::less<>> defs_;  // by path
  std::set<std::string> classes_;                                               // by path
  std::set<std::string> escaped_;      // paths of defs that are values: assigned, passed, returned
  std::set<std::string> filled_;       // names that such a collective fills
  std::set<std::string> filled_here_;  // of these: in the loop or comprehension that is visited
  bool called_ = false;                // the visited expression is the function of a call
  std::set<const ast::Function*> called_by_rank_;  // whose body runs on some ranks only
  std::map<const void*, bool> left_early_;         // loops that some ranks leave before others
  bool* loop_ = nullptr;
  bool seeded_ = false;                          // random numbers follow from the source
  std::vector<const ast::Function*> functions_;  // around the statement, the innermost first
  bool changed_ = false;
};

}  // namespace

bool ProgramTraits::follows_rank(std::string_view recorded) const {
  return follows(by_rank, gradients_by_rank, recorded);
}

bool ProgramTraits::follows_size(std::string_view recorded) const {
  return follows(by_size, gradients_by_size, recorded);
}

bool ProgramTraits::follows_exchange(std::string_view recorded) const {
  return follows(by_exchange, gradients_by_exchange, recorded);
}

OwnCollective own_collective(const ast::Call& call) {
  if (const auto* name = std::get_if<ast::Name>(&call.function->node)) {
    return is_collective(name->id) ? OwnCollective::kGives : OwnCollective::kNone;
  }
  const auto* attribute = std::get_if<ast::Attribute>(&call.function->node);
  return attribute != nullptr ? collective_in(*attribute) : OwnCollective::kNone;
}

const ast::Expression* read_by(const ast::Call& call) {
  if (const auto* method = std::get_if<ast::Attribute>(&call.function->node)) {
    const std::string_view name = method->name;
    const bool reads = name == "item" || name == "tolist";
    return reads && call.arguments.empty() ? method->object.get() : nullptr;
  }
  constexpr std::string_view kReaders[] = {"bool", "float", "int", "print"};
  const auto* name = std::get_if<ast::Name>(&call.function->node);
  const bool reads = name != nullptr && is_one_of(kReaders, name->id);
  return reads && call.arguments.size() == 1 ? call.arguments[0].value.get() : nullptr;
}

std::string name_of_operand(const ast::Expression& operand) {
  return "(" + ast::print(operand) + ")";
}

ProgramTraits traits_of(const ast::Program& program) {
  ProgramTraits traits;
  Walk(program, Source::kRank, traits).run();
  Walk(program, Source::kExchange, traits).run();
  Walk(program, Source::kSize, traits).run();
  return traits;
}

}  // namespace shardlab
