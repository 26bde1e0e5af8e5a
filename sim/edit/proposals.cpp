// Every expression is asked what could be wrong with it; which kinds of edits a cause asks for is a
// table.
#include "sim/edit/proposals.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <functional>
#include <map>
#include <set>

#include "sim/edit/found_edits.h"
#include "sim/language/syntax/ast_walk.h"
#include "sim/scenario/cause.h"

namespace shardlab {

namespace {

using ast::Expression;

using Kinds = std::vector<EditKind>;

Kinds kinds_of(std::string_view cause) {
  using enum EditKind;
  const std::pair<std::string_view, Kinds> kTable[] = {
      {causes::kOnPieces, {kWhole, kReduction, kOffset, kLabel}},
      {causes::kTermAdded, {kTermAfter, kReduction, kFactor}},
      {causes::kReplicaCounted, {kTermAfter, kFactor}},
      {causes::kUnevenMean, {kWhole, kWeighted}},
      {causes::kMissingSum, {kReduction, kTermAfter, kLabel}},
      {causes::kWrongGroup, {kGroup}},
      {causes::kOtherReduction, {kAverage}},
      {causes::kFactor, {kLess, kAverage, kGroup, kFactor}},
      {causes::kOneFactor, {kAverage, kGroup, kFactor}},
      {causes::kOtherLabel, {kLabel, kOffset, kDropped, kDim, kShape}},
      {causes::kOtherChunk, {kOffset, kLabel, kDim, kWhole}},
      {causes::kOneMask, {kWhole}},
      {causes::kUnequalNumber, {kReduction, kWhole}},
      {causes::kPartedBranch, {kReduction, kWhole}},
      {causes::kSomeRanks, {kOutOfPlace, kDim, kDropped, kLabel, kOffset}}};
  for (const auto& [id, kinds] : kTable) {
    if (id == cause) return kinds;
  }
  return {};
}

// The cause that an edit of each kind undoes.
constexpr std::array<std::string_view, kKinds> kUndone = {
    causes::kMissingSum, causes::kFactor,     causes::kTermAdded,  causes::kOtherReduction,
    causes::kFactor,     causes::kWrongGroup, causes::kOtherLabel, causes::kOnPieces,
    causes::kOtherChunk, causes::kOtherLabel, causes::kNone,       causes::kUnevenMean,
    causes::kTermAdded,  causes::kOtherLabel, causes::kMissingSum};

constexpr std::pair<const char*, const char*> kReductions[] = {
    {"avg", "an average"}, {"sum", "a sum"}, {"max", "a maximum"}};

class Proposer {
 public:
  explicit Proposer(const Suspicion& suspicion)
      : mesh_dims_(suspicion.mesh_dims), found_(suspicion) {
    for (const ast::Statement& statement : suspicion.program->body) {
      const auto* assign = statement.get<ast::Assign>();
      if (assign == nullptr || !is_update(*assign->value)) continue;
      updated_.insert(std::string(ast::base_name(*assign->targets.front())));
    }
    ast::any_part(suspicion.program->body, [&](const Expression& part) {
      const ast::Call* range = call_of(part, {"range"});
      if (range == nullptr || range->arguments.empty()) return false;
      const auto* count = range->arguments.back().value->constant<std::int64_t>();
      if (count != nullptr && *count > 1) counts_.insert(*count);
      return false;
    });
    find_counters(suspicion.program->body);
    const std::string_view text = found_.text.text;
    const bool extremes = text.find("max") != text.npos || text.find("min") != text.npos ||
                          text.find("any(") != text.npos || text.find("isfinite") != text.npos;
    if (!extremes) reductions_ = {"sum", "avg"};  // others are right by chance
    if (suspicion.cause == causes::kPartedBranch) reductions_ = {"min", "max"};
    if (suspicion.cause == causes::kUnequalNumber) reductions_ = {"max", "min", "sum", "avg"};
  }

  // All edits of a statement, by kind.
  std::array<std::vector<Proposal>, kKinds> of(const ast::Statement& statement) {
    found_.by_kind = {};
    out_of_place(statement);
    scaled_alone(statement);
    ast::for_each_part(
        statement, [&](const Expression& part) { look_at(part, true); }, [](const ast::Block&) {});
    return std::move(found_.by_kind);
  }

 private:
  void look_at(const Expression& expression, bool is_value, bool is_compared = false) {
    if (is_module(expression)) return;
    const bool counted = expression.is<ast::Constant, ast::Tuple>();
    const bool compared = is_compared || expression.is<ast::Compare>();
    if (is_value && !counted) {
      one_more_reduction(expression);
      if (!compared) scale(expression);
    }
    names(expression);
    words(expression);
    dims(expression);
    if (const auto* call = expression.get<ast::Call>()) {
      calls(expression, *call);
      // A call of dist writes its argument: what is made of it in the call is read by nobody.
      const ast::Attribute* method = called_method(call);
      const bool writes = method != nullptr && is_module(*method->object) &&
                          found_.text.of(*method->object).ends_with("dist");
      for (const ast::CallArgument& argument : call->arguments) {
        look_at(*argument.value, is_value && argument.keyword.empty() && !writes, compared);
      }
      if (method != nullptr) look_at(*method->object, is_value, compared);
      if (call->function->is<ast::Call>()) look_at(*call->function, false);
      return;
    }
    if (const auto* subscript = expression.get<ast::Subscript>()) {
      own_place(*subscript);
      own_part(expression, *subscript);
      counted_in_the_whole(*subscript->index);
    }
    if (expression.is<ast::Compare>()) counted_in_the_whole(expression);
    const auto* binary = expression.get<ast::Binary>();
    if (binary != nullptr && is_value) find_moves(*binary->left, *binary->right, found_);
    if (const auto* list = expression.get<ast::List>()) other_orders(list->items);
    const bool counts = binary != nullptr && (binary->op == ast::BinaryOp::kFloorDiv ||
                                              binary->op == ast::BinaryOp::kMod);
    const bool values = is_value && !counts && !expression.is<ast::List>();
    ast::for_each_part(expression,
                       [&](const Expression& part) { look_at(part, values, compared); });
  }

  // for j in range(n), where j may be a place in the own piece.
  void find_counters(const ast::Block& block) {
    for (const ast::Statement& statement : block) {
      ast::for_each_block(statement, [&](const ast::Block& inner) { find_counters(inner); });
      const auto* loop = statement.get<ast::For>();
      const auto* name = loop == nullptr ? nullptr : loop->target->get<ast::Name>();
      const ast::Call* range = name == nullptr ? nullptr : call_of(*loop->iterable, {"range"});
      if (range == nullptr || range->arguments.size() != 1) continue;
      counters_[name->id] = found_.text.operand(*range->arguments.front().value);
    }
  }

  // s[:, j] with the place of j in the whole, for each name that counts in a piece.
  void counted_in_the_whole(const Expression& expression) {
    for (const auto& [name, count] : counters_) {
      for (const std::string& dim : mesh_dims_) {
        const std::string place =
            fmt::format("mesh.coordinate(\"{}\") * {} + {}", dim, count, name);
        std::vector<TextEdit> edits;
        ast::any_part(expression, [&, &name = name](const Expression& part) {
          const auto* used = part.get<ast::Name>();
          if (used != nullptr && used->id == name) edits.push_back(found_.text.put(part, place));
          return false;
        });
        if (edits.empty()) continue;
        found_[EditKind::kOffset].push_back({edits, "the offset of a rank's piece"});
      }
    }
  }

  // w - rate * g: what is reduced here are weights.
  bool is_update(const Expression& expression) const {
    const auto* name = expression.get<ast::Name>();
    if (name != nullptr) return updated_.contains(name->id);
    const auto* binary = expression.get<ast::Binary>();
    return binary != nullptr && binary->op == ast::BinaryOp::kSub &&
           found_.text.text.find("backward") != std::string_view::npos;
  }

  void one_more_reduction(const Expression& expression) {
    const std::string text = found_.text.of(expression);
    const EditKind kind = is_update(expression) ? EditKind::kAveraged : EditKind::kReduction;
    for (const char* reduction : reductions_) {
      const std::string call = "all_reduce(" + text + ", \"" + reduction + "\"";
      found_.add_for_dims(kind, expression, "{1}, group=\"{0}\")", "a reduction over {0}", call);
      if (mesh_dims_.size() < 2) continue;
      found_.add(kind, expression, call + ")", "a reduction over all ranks");
    }
  }

  void scale(const Expression& expression) {
    for (const char* sign : {" * ", " / "}) {
      const std::string text = found_.text.operand(expression) + sign;
      found_.add_for_dims(EditKind::kFactor, expression, "{1}mesh.size(\"{0}\")",
                          "the ranks of {0} as a factor", text);
      found_.add(EditKind::kFactor, expression, text + "world_size",
                 "the number of ranks as a factor");
      for (const std::int64_t count : counts_) {
        found_.add(EditKind::kFactor, expression, text + std::to_string(count),
                   fmt::format("the factor {}", count));
      }
    }
  }

  // Numbers that may name a dim; elsewhere another number means another program.
  void dims(const Expression& expression) {
    if (const auto* call = expression.get<ast::Call>()) {
      for (const ast::CallArgument& argument : call->arguments) other_dim(*argument.value);
    }
    const auto* part = expression.get<ast::Subscript>();
    if (part != nullptr && found_.text.of(*part->object).ends_with(".shape")) {
      other_dim(*part->index);
    }
  }

  void other_dim(const Expression& expression) {
    const auto* number = expression.constant<std::int64_t>();
    for (const std::int64_t other : {0, 1, 2}) {
      if (number == nullptr || *number > 2 || *number == other) continue;
      found_.add(EditKind::kDim, expression, std::to_string(other), "another dim");
    }
  }

  // dist.ReduceOp.SUM, world_size, rank.
  void names(const Expression& expression) {
    const auto* member = expression.get<ast::Attribute>();
    if (member != nullptr && found_.text.of(*member->object).ends_with("ReduceOp")) {
      for (const auto& [word, what] : kReductions) {
        std::string other = word;
        std::ranges::transform(other, other.begin(), [](char c) { return std::toupper(c); });
        if (other == member->name) continue;
        found_.add(EditKind::kAverage, expression, found_.text.of(*member->object) + "." + other,
                   what);
      }
    }
    const auto* name = expression.get<ast::Name>();
    if (name != nullptr && name->id == "rank" && mesh_dims_.size() > 1) {
      found_.add_for_dims(EditKind::kGroup, expression, "mesh.coordinate(\"{0}\")",
                          "the place along {0}");
    }
    if (name != nullptr && name->id == "world_size") {
      found_.add_for_dims(EditKind::kGroup, expression, "mesh.size(\"{0}\")", "the ranks of {0}");
    }
  }

  // "sum", "tp".
  void words(const Expression& expression) {
    const auto* text = expression.constant<std::string>();
    if (text == nullptr) return;
    const bool reduces = *text == "sum" || *text == "avg" || *text == "max";
    for (const auto& [word, what] : kReductions) {
      if (!reduces || *text == word) continue;
      found_.add(EditKind::kAverage, expression, fmt::format("\"{}\"", word), what);
    }
    if (std::ranges::find(mesh_dims_, *text) == mesh_dims_.end()) return;
    for (const std::string& dim : mesh_dims_) {
      if (dim != *text) {
        found_.add(EditKind::kGroup, expression, '"' + dim + '"', "the group " + dim);
      }
    }
  }

  void calls(const Expression& expression, const ast::Call& call) {
    find_reductions(expression, call, found_);
    find_labels(expression, call, found_);
    // arange(n) of a piece begins where the piece does.
    if (call_of(expression, {"arange"}) != nullptr && call.arguments.size() == 1) {
      const std::string size = found_.text.operand(*call.arguments.front().value);
      for (const std::string& dim : mesh_dims_) {
        found_.add(
            EditKind::kOffset, expression,
            fmt::format("{} + mesh.coordinate(\"{}\") * {}", found_.text.of(expression), dim, size),
            "the offset of a rank's piece");
      }
    }
    const ast::Attribute* method = called_method(&call);
    if (method != nullptr && method->name != "to_local" && !is_module(*method->object)) {
      found_.add(EditKind::kDropped, expression, found_.text.of(*method->object),
                 "without " + method->name);
    }
  }

  // chunk(2)[0], chunk(2)[rank - 1]: the piece of another rank.
  void own_place(const ast::Subscript& subscript) {
    if (!subscript.index->is<ast::Binary>() && !subscript.index->constant<std::int64_t>()) return;
    found_.add_for_dims(EditKind::kOffset, *subscript.index, "mesh.coordinate(\"{0}\")",
                        "the piece of the own rank");
  }

  // x[:, :n], the first part: the own one.
  void own_part(const Expression& expression, const ast::Subscript& subscript) {
    const auto* tuple = subscript.index->get<ast::Tuple>();
    const std::size_t dims = tuple != nullptr ? tuple->items.size() : 1;
    for (std::size_t i = 0; i < dims; ++i) {
      const Expression& index = tuple != nullptr ? *tuple->items[i] : *subscript.index;
      const auto* slice = index.get<ast::Slice>();
      if (slice == nullptr || slice->step || !slice->stop || slice->start) continue;
      for (const std::string& dim : mesh_dims_) {
        found_.add(EditKind::kOffset, expression,
                   fmt::format("{}.chunk(mesh.size(\"{}\"), dim={})[mesh.coordinate(\"{}\")]",
                               found_.text.operand(*subscript.object), dim, i, dim),
                   "the piece of the own rank");
      }
    }
  }

  // [b, a] for [a, b].
  void other_orders(const std::vector<ast::ExpressionPtr>& items) {
    constexpr std::size_t kMost = 4;
    if (items.size() > kMost) return;
    for (std::size_t i = 0; i < items.size(); ++i) {
      for (std::size_t k = i + 1; k < items.size(); ++k) {
        const std::string first = found_.text.of(*items[i]), second = found_.text.of(*items[k]);
        found_[EditKind::kOffset].push_back(
            {{found_.text.put(*items[i], second), found_.text.put(*items[k], first)},
             fmt::format("{} and {} in the other order", first, second)});
      }
    }
  }

  // sum = (sum + x) / n, in which all that came before is divided again, as sum = sum + x / n.
  void scaled_alone(const ast::Statement& statement) {
    const auto* assign = statement.get<ast::Assign>();
    const auto* scaled = assign == nullptr ? nullptr : assign->value->get<ast::Binary>();
    const auto* sum = scaled == nullptr ? nullptr : scaled->left->get<ast::Binary>();
    if (sum == nullptr || sum->op != ast::BinaryOp::kAdd) return;
    const bool divides = scaled->op == ast::BinaryOp::kDiv;
    if (!divides && scaled->op != ast::BinaryOp::kMul) return;
    const std::string kept = found_.text.of(*sum->left);
    if (kept != found_.text.of(*assign->targets.front())) return;
    found_.add(EditKind::kReduction, *assign->value,
               fmt::format("{} + {} {} {}", kept, found_.text.operand(*sum->right),
                           divides ? "/" : "*", found_.text.operand(*scaled->right)),
               fmt::format("the factor on what is added to {} alone", kept));
    found_[EditKind::kReduction].back().undoes = causes::kFactor;
  }

  // x.clamp_(0) as x = x.clamp(0), dist.all_reduce(x) as x = all_reduce(x), which has a gradient.
  void out_of_place(const ast::Statement& statement) {
    const ast::Call* call = call_alone(statement);
    const ast::Attribute* method = called_method(call);
    if (method == nullptr) return;
    const SourceSpan span = method->name_span;
    const std::string object = found_.text.of(*method->object);
    if (object == "dist" && method->name == "all_reduce" && !call->arguments.empty()) {
      found_[EditKind::kOutOfPlace].push_back(
          {{{{statement.span.begin, span.begin},
             found_.text.of(*call->arguments.front().value) + " = "}},
           "a collective whose result has a gradient"});
    }
    if (!method->name.ends_with('_')) return;
    found_[EditKind::kOutOfPlace].push_back(
        {{{{statement.span.begin, statement.span.begin}, object + " = "},
          {{span.end - 1, span.end}, ""}},
         "a new value instead of a write"});
  }

  const std::vector<std::string>& mesh_dims_;
  FoundEdits found_;
  std::set<std::string> updated_;                ///< names of weights after the step
  std::set<std::int64_t> counts_;                ///< of passes of loops
  std::map<std::string, std::string> counters_;  ///< names of loops over range(n), with n
  std::vector<const char*> reductions_ = {"sum", "avg", "max", "min"};
};

// All statements of a program, the nearest to a line first; of two as near the earlier one.
std::vector<const ast::Statement*> by_distance(const ast::Program& program, std::int64_t line) {
  std::vector<std::pair<std::int64_t, const ast::Statement*>> all;
  const std::function<void(const ast::Block&)> collect = [&](const ast::Block& block) {
    for (const ast::Statement& statement : block) {
      const std::int64_t away = program.source->place(statement.span.begin).line - line;
      all.emplace_back(away <= 0 ? -2 * away : 2 * away + 1, &statement);
      ast::for_each_block(statement, collect);
    }
  };
  collect(program.body);
  std::ranges::stable_sort(all, {}, [](const auto& one) { return one.first; });
  std::vector<const ast::Statement*> statements;
  for (const auto& [away, statement] : all) statements.push_back(statement);
  return statements;
}

}  // namespace

bool is_module(const Expression& expression) {
  constexpr std::array<std::string_view, 6> kModules = {"torch", "F",    "dist",
                                                        "mesh",  "math", "aten"};
  const auto* name = expression.get<ast::Name>();
  return name != nullptr && std::ranges::find(kModules, name->id) != kModules.end();
}

void FoundEdits::add(EditKind kind, const Expression& place, std::string edited, std::string what) {
  (*this)[kind].push_back({{text.put(place, std::move(edited))}, std::move(what)});
}

void FoundEdits::add_for_dims(EditKind kind, const Expression& place, const char* pattern,
                              const char* what, const std::string& part) {
  for (const std::string& dim : of.mesh_dims) {
    add(kind, place, fmt::format(fmt::runtime(pattern), dim, part),
        fmt::format(fmt::runtime(what), dim));
  }
}

std::string edited_text(std::string text, const std::vector<TextEdit>& edits) {
  for (std::size_t i = edits.size(); i-- > 0;) {
    const SourceSpan span = edits[i].span;
    text.replace(span.begin, span.end - span.begin, edits[i].text);
  }
  return text;
}

std::vector<Proposal> proposals(const Suspicion& suspicion) {
  using enum EditKind;
  const ast::Program& program = *suspicion.program;
  Proposer proposer(suspicion);
  std::vector<std::array<std::vector<Proposal>, kKinds>> by_statement;
  for (const ast::Statement* statement : by_distance(program, suspicion.line)) {
    by_statement.push_back(proposer.of(*statement));
  }
  std::vector<Proposal> all;
  std::set<std::string> seen = {program.source->text()};
  const auto take = [&](const std::vector<Proposal>& some, std::string_view undoes) {
    for (const Proposal& one : some) {
      const bool fresh = seen.insert(edited_text(program.source->text(), one.edits)).second;
      if (!fresh) continue;
      all.push_back(one);
      if (all.back().undoes.empty()) all.back().undoes = undoes;
    }
  };
  const auto take_kinds = [&](const Kinds& kinds) {
    for (auto& found : by_statement) {
      for (const EditKind kind : kinds) {
        const auto at = static_cast<std::size_t>(kind);
        take(found[at], kUndone[at]);
      }
    }
  };
  take_kinds(kinds_of(suspicion.cause));
  if (suspicion.failed) {
    take(of_messages(program), causes::kPartedBranch);
    take(unwrapped(program), causes::kPartedBranch);
    // A run that ends where it failed before proves little of edits that nobody asked for.
    if (suspicion.cause.empty()) take_kinds({kShape, kLabel, kWhole, kOutOfPlace});
    return all;
  }
  take(along_dims(program, suspicion.mesh_dims), causes::kWrongGroup);
  take(at_borders(program), causes::kOnPieces);
  for (auto& found : by_statement) {
    for (std::size_t kind = 0; kind < static_cast<std::size_t>(kShape); ++kind) {
      take(found[kind], kUndone[kind]);
    }
  }
  take_kinds({kShape, kAveraged});
  return all;
}

}  // namespace shardlab
