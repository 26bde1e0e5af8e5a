// Every expression is asked what could be wrong with it. A kind of edit is a member function; which
// kinds a cause asks for is a table.
#include "sim/edit/proposals.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <set>

#include "sim/language/syntax/ast_walk.h"
#include "sim/scenario/cause.h"

namespace shardlab {

namespace {

using ast::Expression;

enum class EditKind : std::uint8_t {
  kReduction,   ///< one more
  kLess,        ///< one less
  kTermAfter,   ///< what is added is put behind the reduction
  kAverage,     ///< in place of a sum, or the other way
  kFactor,      ///< a count of ranks
  kGroup,       ///< another one, or another count of ranks
  kLabel,       ///< placements of what is labelled, and of gradients
  kWhole,       ///< distributed tensors instead of pieces
  kOffset,      ///< a rank's place
  kDim,         ///< 0 for 1
  kDropped,     ///< a method that is called
  kWeighted,    ///< a mean of means becomes a sum over a count
  kOutOfPlace,  ///< a new value instead of a write
  kShape,       ///< of the whole, in from_local
  kAveraged,    ///< weights after the step, not gradients: the last resort
};
constexpr int kKinds = 15;

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
      {causes::kSomeRanks, {kDim, kDropped, kLabel, kOffset}}};
  for (const auto& [id, kinds] : kTable) {
    if (id == cause) return kinds;
  }
  return {};
}

constexpr std::pair<const char*, const char*> kReductions[] = {
    {"avg", "an average"}, {"sum", "a sum"}, {"max", "a maximum"}};

/// A placement as S(0) and as Shard(0).
struct Spelling {
  const char* brief;
  const char* in_full;
};
constexpr Spelling kReplicate = {"R", "Replicate()"};
constexpr Spelling kPlacements[] = {kReplicate,           {"P(sum)", "Partial()"},
                                    {"S(0)", "Shard(0)"}, {"S(1)", "Shard(1)"},
                                    {"S(2)", "Shard(2)"}, {"P(avg)", "Partial(\"avg\")"}};

bool is_module(const Expression& expression) {
  constexpr std::array<std::string_view, 6> kModules = {"torch", "F",    "dist",
                                                        "mesh",  "math", "aten"};
  const auto* name = std::get_if<ast::Name>(&expression.node);
  return name != nullptr && std::ranges::find(kModules, name->id) != kModules.end();
}

// The call combines what ranks hold, or labels it so.
const ast::Call* combining(const Expression& expression) {
  const ast::Call* call = call_of(expression, {"all_reduce", "reduce_scatter", "from_local"});
  return call != nullptr && !call->arguments.empty() ? call : nullptr;
}

class Proposer {
 public:
  explicit Proposer(const Suspicion& suspicion)
      : text_(suspicion.program->source->text()),
        mesh_dims_(suspicion.mesh_dims),
        inputs_(suspicion.inputs),
        failed_(suspicion.failed) {
    for (const ast::Statement& statement : suspicion.program->body) {
      const auto* assign = std::get_if<ast::Assign>(&statement.node);
      if (assign == nullptr || !is_update(*assign->value)) continue;
      updated_.insert(std::string(ast::base_name(*assign->targets.front())));
    }
    ast::any_part(suspicion.program->body, [&](const Expression& part) {
      const ast::Call* range = call_of(part, {"range"});
      if (range == nullptr || range->arguments.empty()) return false;
      const auto* last = std::get_if<ast::Constant>(&range->arguments.back().value->node);
      const auto* count = last == nullptr ? nullptr : std::get_if<std::int64_t>(&last->value);
      if (count != nullptr && *count > 1) counts_.insert(*count);
      return false;
    });
    if (suspicion.cause == causes::kPartedBranch) reductions_ = {"min", "max"};
    if (suspicion.cause == causes::kUnequalNumber) reductions_ = {"max", "min", "sum", "avg"};
  }

  // All edits of a statement, by kind.
  std::array<std::vector<Proposal>, kKinds> of(const ast::Statement& statement) {
    found_ = {};
    out_of_place(statement);
    ast::for_each_part(
        statement, [&](const Expression& part) { look_at(part, true); }, [](const ast::Block&) {});
    return std::move(found_);
  }

 private:
  std::string text_of(const Expression& expression) const {
    const SourceSpan span = whole_span(text_, expression);
    return std::string(text_.substr(span.begin, span.end - span.begin));
  }
  // The text as an operand of the op that follows it.
  std::string operand(const Expression& expression) const {
    const std::string text = text_of(expression);
    const bool sum = std::holds_alternative<ast::Binary>(expression.node) ||
                     std::holds_alternative<ast::Unary>(expression.node);
    return sum && !text.starts_with('(') ? "(" + text + ")" : text;
  }

  void add(EditKind kind, const Expression& place, std::string text, std::string what) {
    TextEdit edit = put_expression(text_, whole_span(text_, place), std::move(text));
    found_[static_cast<std::size_t>(kind)].push_back({{std::move(edit)}, std::move(what)});
  }

  void look_at(const Expression& expression, bool is_value) {
    if (is_module(expression)) return;
    if (is_value) {
      one_more_reduction(expression);
      scale(expression);
    }
    constants(expression);
    if (const auto* call = std::get_if<ast::Call>(&expression.node)) {
      calls(expression, *call);
      for (const ast::CallArgument& argument : call->arguments) {
        look_at(*argument.value, is_value && argument.keyword.empty());
      }
      const auto* method = std::get_if<ast::Attribute>(&call->function->node);
      if (method != nullptr) look_at(*method->object, is_value);
      return;
    }
    if (const auto* subscript = std::get_if<ast::Subscript>(&expression.node)) {
      own_place(*subscript);
      own_part(expression, *subscript);
    }
    const auto* binary = std::get_if<ast::Binary>(&expression.node);
    if (binary != nullptr && is_value) next_to(*binary->left, *binary->right);
    const bool counts = binary != nullptr && (binary->op == ast::BinaryOp::kFloorDiv ||
                                              binary->op == ast::BinaryOp::kMod);
    const bool values = is_value && !counts && !std::holds_alternative<ast::List>(expression.node);
    ast::for_each_part(expression, [&](const Expression& part) { look_at(part, values); });
  }

  // w - rate * g: what is reduced here are weights.
  bool is_update(const Expression& expression) const {
    const auto* name = std::get_if<ast::Name>(&expression.node);
    if (name != nullptr) return updated_.contains(name->id);
    const auto* binary = std::get_if<ast::Binary>(&expression.node);
    return binary != nullptr && binary->op == ast::BinaryOp::kSub &&
           text_.find("backward") != text_.npos;
  }

  void one_more_reduction(const Expression& expression) {
    if (std::holds_alternative<ast::Constant>(expression.node)) return;
    if (std::holds_alternative<ast::Tuple>(expression.node)) return;
    const std::string text = text_of(expression);
    const EditKind kind = is_update(expression) ? EditKind::kAveraged : EditKind::kReduction;
    for (const char* reduction : reductions_) {
      for (const std::string& dim : mesh_dims_) {
        add(kind, expression,
            fmt::format("all_reduce({}, \"{}\", group=\"{}\")", text, reduction, dim),
            "a reduction over " + dim);
      }
      if (mesh_dims_.size() < 2) continue;
      add(kind, expression, fmt::format("all_reduce({}, \"{}\")", text, reduction),
          "a reduction over all ranks");
    }
  }

  void scale(const Expression& expression) {
    if (std::holds_alternative<ast::Constant>(expression.node)) return;
    if (std::holds_alternative<ast::Tuple>(expression.node)) return;
    const std::string text = operand(expression);
    for (const char sign : {'*', '/'}) {
      for (const std::string& dim : mesh_dims_) {
        add(EditKind::kFactor, expression, fmt::format("{} {} mesh.size(\"{}\")", text, sign, dim),
            "the ranks of " + dim + " as a factor");
      }
      add(EditKind::kFactor, expression, fmt::format("{} {} world_size", text, sign),
          "the number of ranks as a factor");
      for (const std::int64_t count : counts_) {
        add(EditKind::kFactor, expression, fmt::format("{} {} {}", text, sign, count),
            fmt::format("the factor {}", count));
      }
    }
  }

  // A number that may name a dim; elsewhere another number means another program.
  void dims_for(const Expression& expression) {
    const auto* constant = std::get_if<ast::Constant>(&expression.node);
    if (constant == nullptr) return;
    const auto* number = std::get_if<std::int64_t>(&constant->value);
    for (const std::int64_t other : {0, 1, 2}) {
      if (number == nullptr || *number > 2 || *number == other) continue;
      add(EditKind::kDim, expression, std::to_string(other), "another dim");
    }
  }

  // "sum", dist.ReduceOp.SUM, "tp", 0, world_size, rank.
  void constants(const Expression& expression) {
    const auto* member = std::get_if<ast::Attribute>(&expression.node);
    if (member != nullptr && text_of(*member->object).ends_with("ReduceOp")) {
      for (const auto& [word, what] : kReductions) {
        std::string other = word;
        std::ranges::transform(other, other.begin(), [](char c) { return std::toupper(c); });
        if (other == member->name) continue;
        add(EditKind::kAverage, expression, text_of(*member->object) + "." + other, what);
      }
    }
    const auto* name = std::get_if<ast::Name>(&expression.node);
    for (const std::string& dim : mesh_dims_) {
      if (name == nullptr || name->id != "rank" || mesh_dims_.size() < 2) break;
      add(EditKind::kGroup, expression, fmt::format("mesh.coordinate(\"{}\")", dim),
          "the place along " + dim);
    }
    if (name != nullptr && name->id == "world_size") {
      for (const std::string& dim : mesh_dims_) {
        add(EditKind::kGroup, expression, fmt::format("mesh.size(\"{}\")", dim),
            "the ranks of " + dim);
      }
    }
    if (const auto* call = std::get_if<ast::Call>(&expression.node)) {
      for (const ast::CallArgument& argument : call->arguments) dims_for(*argument.value);
    }
    const auto* part = std::get_if<ast::Subscript>(&expression.node);
    if (part != nullptr && text_of(*part->object).ends_with(".shape")) dims_for(*part->index);
    const auto* constant = std::get_if<ast::Constant>(&expression.node);
    if (constant == nullptr) return;
    const auto* text = std::get_if<std::string>(&constant->value);
    if (text == nullptr) return;
    for (const auto& [word, what] : kReductions) {
      const bool reduces = *text == "sum" || *text == "avg" || *text == "max";
      if (reduces && *text != word)
        add(EditKind::kAverage, expression, fmt::format("\"{}\"", word), what);
    }
    if (std::ranges::find(mesh_dims_, *text) == mesh_dims_.end()) return;
    for (const std::string& dim : mesh_dims_) {
      if (dim != *text) add(EditKind::kGroup, expression, '"' + dim + '"', "the group " + dim);
    }
  }

  // One of two operands on other meshes is moved to the mesh of the other.
  void next_to(const Expression& left, const Expression& right) {
    if (!failed_) return;  // the op was refused
    for (const auto& [moved, stays] : {std::pair(&right, &left), std::pair(&left, &right)}) {
      const std::string to = operand(*stays), what = "moved to the mesh of " + text_of(*stays);
      for (const std::string& list :
           {to + ".placements", fmt::format("[R] * {}.device_mesh.ndim", to)}) {
        add(EditKind::kLabel, *moved,
            fmt::format("{}.redistribute({}.device_mesh, {})", operand(*moved), to, list), what);
      }
    }
  }

  void calls(const Expression& expression, const ast::Call& call) {
    const auto* method = std::get_if<ast::Attribute>(&call.function->node);
    const bool plain = call.arguments.size() > 1 && call.arguments[1].keyword.empty();
    if (plain && method != nullptr && is_module(*method->object)) {
      next_to(*call.arguments[0].value, *call.arguments[1].value);
    }
    if (call_of(expression, {"all_reduce", "reduce_scatter", "all_gather"}) != nullptr &&
        !call.arguments.empty()) {
      add(EditKind::kLess, expression, text_of(*call.arguments.front().value),
          "without this collective");
      other_group(expression, call);
    }
    if (combining(expression) != nullptr) term_after(expression, call);
    if (call_of(expression, {"from_local", "redistribute", "distribute", "distribute_tensor"}) !=
        nullptr) {
      const std::vector<ast::ExpressionPtr>* list = placement_list(call);
      if (list != nullptr) {
        relabel_in(*list);
      } else {
        relabel(expression, call);
      }
    }
    if (call_of(expression, {"to_local"}) != nullptr) local_pieces(expression, call);
    if (call_of(expression, {"from_local"}) != nullptr && !call.arguments.empty()) {
      add(EditKind::kWhole, expression, distributed(text_of(*call.arguments.front().value)),
          "the distributed tensors");
      shapes(expression, call);
    }
    if (call_of(expression, {"arange"}) != nullptr && call.arguments.size() == 1)
      offset(expression, call);
    if (call_of(expression, {"all_reduce"}) != nullptr) weighted(expression, call);
    if (call_of(expression, {"mean"}) != nullptr) mean_of_ratios(expression, call);
    distribute(expression, call);
    if (method != nullptr && method->name != "to_local" && !is_module(*method->object)) {
      add(EditKind::kDropped, expression, text_of(*method->object), "without " + method->name);
    }
  }

  // f(a, keyword=b) with one argument more, less or otherwise: an empty value leaves it out.
  std::string with_argument(const ast::Call& call, const std::string& keyword,
                            const std::string& value) const {
    std::string out;
    bool done = false;
    const auto append = [&](const std::string& text) { out += (out.empty() ? "" : ", ") + text; };
    for (const ast::CallArgument& argument : call.arguments) {
      const bool here = argument.keyword == keyword;
      const std::string name = argument.keyword.empty() ? "" : argument.keyword + "=";
      if (here && !value.empty()) append(keyword + "=" + value);
      if (!here) append(name + text_of(*argument.value));
      done = done || here;
    }
    if (!done && !value.empty()) append(keyword + "=" + value);
    return text_of(*call.function) + "(" + out + ")";
  }

  void other_group(const Expression& expression, const ast::Call& call) {
    for (const std::string& dim : mesh_dims_) {
      add(EditKind::kGroup, expression, with_argument(call, "group", '"' + dim + '"'),
          "the group " + dim);
    }
    add(EditKind::kGroup, expression, with_argument(call, "group", ""), "the group of all ranks");
  }

  // C(a + b) as C(a) + b, C(F.linear(x, w, b)) as C(F.linear(x, w)) + b.
  void term_after(const Expression& expression, const ast::Call& call) {
    const Expression& given = *call.arguments.front().value;
    const auto around = [&](const std::string& inner) {
      const SourceSpan span = whole_span(text_, expression), part = whole_span(text_, given);
      return std::string(text_.substr(span.begin, part.begin - span.begin)) + inner +
             std::string(text_.substr(part.end, span.end - part.end));
    };
    if (const auto* sum = std::get_if<ast::Binary>(&given.node)) {
      if (sum->op != ast::BinaryOp::kAdd && sum->op != ast::BinaryOp::kSub) return;
      const bool minus = sum->op == ast::BinaryOp::kSub;
      add(EditKind::kTermAfter, expression,
          around(text_of(*sum->left)) + (minus ? " - " : " + ") + operand(*sum->right),
          "the term behind the reduction");
      if (minus) return;
      add(EditKind::kTermAfter, expression,
          operand(*sum->left) + " + " + around(text_of(*sum->right)),
          "the term behind the reduction");
    }
    const ast::Call* linear = call_of(given, {"linear"});
    if (linear == nullptr || linear->arguments.size() != 3) return;
    const std::string inner =
        fmt::format("{}({}, {})", text_of(*linear->function), text_of(*linear->arguments[0].value),
                    text_of(*linear->arguments[1].value));
    add(EditKind::kTermAfter, expression,
        around(inner) + " + " + operand(*linear->arguments[2].value),
        "the term behind the reduction");
  }

  // The items of placements=[Shard(0), Replicate()], also where the list has no keyword.
  static const std::vector<ast::ExpressionPtr>* placement_list(const ast::Call& call) {
    for (std::size_t i = 0; i < call.arguments.size(); ++i) {
      const ast::CallArgument& argument = call.arguments[i];
      if (argument.keyword != "placements" && (i == 0 || !argument.keyword.empty())) continue;
      if (const auto* list = std::get_if<ast::List>(&argument.value->node)) return &list->items;
      if (const auto* tuple = std::get_if<ast::Tuple>(&argument.value->node)) return &tuple->items;
    }
    return nullptr;
  }

  // In the words of the program: Shard(0), or S(0).
  void relabel_in(const std::vector<ast::ExpressionPtr>& placements) {
    for (const ast::ExpressionPtr& placement : placements) {
      const std::string given = text_of(*placement);
      const bool in_full = std::ranges::any_of(
          std::array{"Shard(", "Replicate(", "Partial("},
          [&](const char* word) { return given.find(word) != std::string::npos; });
      const auto word = [&](const Spelling& one) { return in_full ? one.in_full : one.brief; };
      if (given.find('P') != std::string::npos) {
        add(EditKind::kLess, *placement, word(kReplicate), "no sum over its mesh dim");
      }
      for (const Spelling& one : kPlacements) {
        if (word(one) == given) continue;
        add(EditKind::kLabel, *placement, word(one), fmt::format("{} for {}", word(one), given));
      }
    }
  }

  void relabel(const Expression& expression, const ast::Call& call) {
    for (const std::string& dim : mesh_dims_) {
      const auto given = std::ranges::find(call.arguments, dim, &ast::CallArgument::keyword);
      if (given != call.arguments.end() && text_of(*given->value).starts_with('P')) {
        add(EditKind::kLess, expression, with_argument(call, dim, ""), "no sum over " + dim);
      }
      const auto label = [&](const std::string& placement) {
        add(EditKind::kLabel, expression,
            with_argument(call, dim, placement == kReplicate.brief ? "" : placement),
            fmt::format("the placement {} on {}", placement, dim));
      };
      for (const Spelling& one : kPlacements) label(one.brief);
      label("SS(0, 2)");
    }
  }

  // x.to_local() of what is pieces.
  void local_pieces(const Expression& expression, const ast::Call& call) {
    const auto* method = std::get_if<ast::Attribute>(&call.function->node);
    if (method == nullptr) return;
    const std::string object = text_of(*method->object);
    std::vector<std::string> lists = {""};
    for (std::size_t i = 0; i < mesh_dims_.size() && lists.size() < 64; ++i) {
      std::vector<std::string> longer;
      for (const std::string& list : lists) {
        for (const char* placement : {"P(sum)", "S(0)", "S(1)", "R"}) {
          longer.push_back(list + (list.empty() ? "" : ", ") + placement);
        }
      }
      lists = std::move(longer);
    }
    for (const std::string& list : lists) {
      add(EditKind::kLabel, expression,
          fmt::format("{}.to_local(grad_placements=[{}])", object, list),
          "placements of the gradient");
    }
    add(EditKind::kWhole, expression, object + ".full_tensor()", "the whole tensor");
    for (const std::string& dim : mesh_dims_) {
      for (const char* placement : {"R", "S(0)", "S(1)"}) {
        add(EditKind::kWhole, expression,
            fmt::format("{}.redistribute({}={}).to_local()", object, dim, placement),
            fmt::format("the placement {} on {}", placement, dim));
      }
    }
  }

  static std::string distributed(std::string text) {
    constexpr std::string_view kLocal = ".to_local()";
    for (std::size_t at = 0; (at = text.find(kLocal, at)) != std::string::npos;) {
      text.erase(at, kLocal.size());
    }
    return text;
  }

  // arange(n) of a piece begins where the piece does.
  void offset(const Expression& expression, const ast::Call& call) {
    const std::string size = operand(*call.arguments.front().value);
    for (const std::string& dim : mesh_dims_) {
      add(EditKind::kOffset, expression,
          fmt::format("{} + mesh.coordinate(\"{}\") * {}", text_of(expression), dim, size),
          "the offset of a rank's piece");
    }
  }

  // chunk(2)[0]: the piece of another rank.
  void own_place(const ast::Subscript& subscript) {
    const auto* constant = std::get_if<ast::Constant>(&subscript.index->node);
    if (constant == nullptr || !std::holds_alternative<std::int64_t>(constant->value)) return;
    for (const std::string& dim : mesh_dims_) {
      add(EditKind::kOffset, *subscript.index, fmt::format("mesh.coordinate(\"{}\")", dim),
          "the piece of the own rank");
    }
  }

  // x[:, :n], the first part: the own one.
  void own_part(const Expression& expression, const ast::Subscript& subscript) {
    const auto* tuple = std::get_if<ast::Tuple>(&subscript.index->node);
    const std::size_t dims = tuple != nullptr ? tuple->items.size() : 1;
    const std::string object = operand(*subscript.object);
    for (std::size_t i = 0; i < dims; ++i) {
      const Expression& index = tuple != nullptr ? *tuple->items[i] : *subscript.index;
      const auto* slice = std::get_if<ast::Slice>(&index.node);
      if (slice == nullptr || slice->step || !slice->stop) continue;
      for (const std::string& dim : mesh_dims_) {
        if (slice->start) break;
        add(EditKind::kOffset, expression,
            fmt::format("{}.chunk(mesh.size(\"{}\"), dim={})[mesh.coordinate(\"{}\")]", object, dim,
                        i, dim),
            "the piece of the own rank");
      }
    }
  }

  // The sizes of inputs, or of two of them, as those of the whole.
  void shapes(const Expression& expression, const ast::Call& call) {
    if (std::ranges::find(call.arguments, "shape", &ast::CallArgument::keyword) !=
        call.arguments.end()) {
      return;
    }
    const auto shape = [&](const std::string& text) {
      add(EditKind::kShape, expression, with_argument(call, "shape", text),
          "the shape of the whole");
    };
    constexpr std::size_t kMost = 4;
    const std::size_t count = std::min(kMost, inputs_.size());
    for (std::size_t i = 0; i < count; ++i) shape(inputs_[i] + ".shape");
    for (std::size_t i = 0; i < count; ++i) {
      for (std::size_t k = 0; k < count; ++k) {
        if (i != k) shape(fmt::format("[{}.shape[0], {}.shape[-1]]", inputs_[i], inputs_[k]));
      }
    }
  }

  // x.clamp_(0) as x = x.clamp(0).
  void out_of_place(const ast::Statement& statement) {
    const auto* alone = std::get_if<ast::ExpressionStatement>(&statement.node);
    const auto* call = alone == nullptr ? nullptr : std::get_if<ast::Call>(&alone->value->node);
    const auto* method =
        call == nullptr ? nullptr : std::get_if<ast::Attribute>(&call->function->node);
    if (method == nullptr || !method->name.ends_with('_')) return;
    const SourceSpan span = method->name_span;
    const std::string object = text_of(*method->object);
    found_[static_cast<std::size_t>(EditKind::kOutOfPlace)].push_back(
        {{{{statement.span.begin, statement.span.begin}, object + " = "},
          {{span.end - 1, span.end}, ""}},
         "a new value instead of a write"});
  }

  // torch.ones(n) next to distributed tensors.
  void distribute(const Expression& expression, const ast::Call& call) {
    const auto* method = std::get_if<ast::Attribute>(&call.function->node);
    if (method == nullptr || !is_module(*method->object)) return;
    add(EditKind::kLabel, expression, fmt::format("distribute({}, mesh=mesh)", text_of(expression)),
        "a distributed tensor");
  }

  // (a / b).mean() as a.sum() / b.sum().
  void mean_of_ratios(const Expression& expression, const ast::Call& call) {
    const auto* method = std::get_if<ast::Attribute>(&call.function->node);
    const auto* ratio =
        method == nullptr ? nullptr : std::get_if<ast::Binary>(&method->object->node);
    if (ratio == nullptr || ratio->op != ast::BinaryOp::kDiv) return;
    add(EditKind::kWeighted, expression,
        fmt::format("{}.sum() / {}.sum()", operand(*ratio->left), operand(*ratio->right)),
        "a sum over the sum of the weights");
  }

  // all_reduce(x.mean(), "avg") of unequal pieces, and norms.
  void weighted(const Expression& expression, const ast::Call& call) {
    if (call.arguments.empty()) return;
    const Expression& given = *call.arguments.front().value;
    const ast::Call* inner = call_of(given, {"mean", "norm"});
    const auto* method =
        inner == nullptr ? nullptr : std::get_if<ast::Attribute>(&inner->function->node);
    if (method == nullptr || is_module(*method->object)) return;
    for (const std::string& dim : mesh_dims_) {
      if (method->name == "norm") {
        add(EditKind::kWeighted, expression,
            fmt::format("all_reduce({}.pow(2).sum(), \"sum\", group=\"{}\").sqrt()",
                        operand(*method->object), dim),
            "a root of the sum of all squares");
        continue;
      }
      add(EditKind::kWeighted, expression,
          fmt::format("all_reduce({0}.sum(), \"sum\", group=\"{1}\") / "
                      "all_reduce(torch.tensor(1.0 * {0}.numel()), \"sum\", group=\"{1}\")",
                      operand(*method->object), dim),
          "a sum over the count of all ranks");
    }
  }

  std::string_view text_;
  const std::vector<std::string>& mesh_dims_;
  const std::vector<std::string>& inputs_;
  const bool failed_;              // the program did not run to its end
  std::set<std::string> updated_;  ///< names of weights after the step
  std::set<std::int64_t> counts_;  ///< of passes of loops
  std::vector<const char*> reductions_ = {"sum", "avg", "max", "min"};
  std::array<std::vector<Proposal>, kKinds> found_;
};

// All statements of a program, the nearest to a line first; of two as near the earlier one.
std::vector<const ast::Statement*> by_distance(const ast::Program& program, std::int64_t line) {
  std::vector<std::pair<std::int64_t, const ast::Statement*>> all;
  const std::function<void(const ast::Block&)> collect = [&](const ast::Block& block) {
    for (const ast::Statement& statement : block) {
      const std::int64_t away = program.source->place(statement.span.begin).line - line;
      all.emplace_back(away <= 0 ? -2 * away : 2 * away + 1, &statement);
      ast::for_each_part(
          statement, [](const Expression&) {}, collect);
    }
  };
  collect(program.body);
  std::ranges::stable_sort(all, {}, [](const auto& one) { return one.first; });
  std::vector<const ast::Statement*> statements;
  for (const auto& [away, statement] : all) statements.push_back(statement);
  return statements;
}

}  // namespace

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
  const auto take = [&](const std::vector<Proposal>& some) {
    for (const Proposal& one : some) {
      const bool fresh = seen.insert(edited_text(program.source->text(), one.edits)).second;
      if (fresh) all.push_back(one);
    }
  };
  const auto take_kinds = [&](const Kinds& kinds) {
    for (auto& found : by_statement) {
      for (const EditKind kind : kinds) take(found[static_cast<std::size_t>(kind)]);
    }
  };
  take_kinds(kinds_of(suspicion.cause));
  if (suspicion.failed) {
    take(of_messages(program));
    take(unwrapped(program));
    // A run that ends where it failed before proves little of edits that nobody asked for.
    if (suspicion.cause.empty()) take_kinds({kShape, kLabel, kWhole, kOutOfPlace});
    return all;
  }
  take(at_borders(program));
  for (auto& found : by_statement) {
    for (std::size_t kind = 0; kind < static_cast<std::size_t>(kShape); ++kind) take(found[kind]);
  }
  take_kinds({kShape, kAveraged});
  return all;
}

}  // namespace shardlab
