// Each group of equal moves is asked which names it may have moved, and what in the program would
// move them once, elsewhere or not at all.
#include "sim/edit/cheaper_edits.h"

#include <algorithm>
#include <cctype>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include "mesh/type_string.h"
#include "sim/edit/proposals.h"
#include "sim/edit/type_sizes.h"
#include "sim/language/syntax/ast_walk.h"
#include "sim/language/syntax/lexer.h"
#include "sim/report/moves.h"

namespace shardlab {

namespace {

using ast::Expression;
using ast::Statement;

// A statement and where it is.
struct Place {
  const Statement* statement = nullptr;
  const Statement* loop = nullptr;  ///< the outermost one around it in its def
  SourceSpan scope;                 ///< the def's, or the program's
};

class Finder {
 public:
  explicit Finder(const ScenarioResult& result)
      : result_(result),
        scenario_(result.run.scenario),
        source_(*scenario_.program->source),
        text_(source_.text()),
        tokens_(tokens_of(source_)) {
    const auto end = static_cast<std::uint32_t>(text_.size());
    collect(scenario_.program->body, nullptr, {0, end});
  }

  std::vector<CheaperEdit> all() {
    const std::vector<Moves> moves = moves_of(result_.run);
    for (const Moves& group : moves) {
      if (group.asked) {
        asked(group);
      } else {
        implicit(group);
      }
    }
    between();
    repeated();
    pieces();
    in_place();
    return std::move(found_);
  }

 private:
  void collect(const ast::Block& block, const Statement* loop, SourceSpan scope) {
    for (std::size_t i = 0; i < block.size(); ++i) {
      const Statement& statement = block[i];
      places_.push_back({&statement, loop, scope});
      const bool loops = std::holds_alternative<ast::For>(statement.node) ||
                         std::holds_alternative<ast::While>(statement.node);
      const bool def = std::holds_alternative<ast::Def>(statement.node);
      const std::uint32_t next = i + 1 < block.size() ? block[i + 1].span.begin : scope.end;
      ast::for_each_part(
          statement, [](const Expression&) {},
          [&](const ast::Block& inner) {
            collect(inner,
                    def               ? nullptr
                    : loop != nullptr ? loop
                    : loops           ? &statement
                                      : nullptr,
                    def ? SourceSpan{statement.span.begin, next} : scope);
          });
    }
  }

  std::int64_t line_of(std::uint32_t offset) const { return source_.place(offset).line; }
  std::string text_of(const Expression& expression) const {
    const SourceSpan span = whole_span(text_, expression);
    return text_.substr(span.begin, span.end - span.begin);
  }

  void add(CheaperEdit edit) {
    std::ranges::sort(edit.edits, {}, [](const TextEdit& one) { return one.span.begin; });
    const std::string key = edited_text(text_, edit.edits) + edit.input + edit.type;
    if (seen_.insert(key).second) found_.push_back(std::move(edit));
  }

  bool binds(std::size_t token, const std::string& name) const {
    return tokens_[token].kind == TokenKind::kName && tokens_[token].text == name &&
           token + 1 < tokens_.size() && tokens_[token + 1].text == "=" &&
           (token == 0 || tokens_[token - 1].kind == TokenKind::kNewline ||
            tokens_[token - 1].kind == TokenKind::kIndent ||
            tokens_[token - 1].kind == TokenKind::kDedent || tokens_[token - 1].text == ";");
  }

  void implicit(const Moves& group) {
    const auto arguments = arguments_between(*group.source, *group.target);
    if (!arguments) return;
    const std::string call = fmt::format("redistribute({})", *arguments);
    const std::string spares = fmt::format("{} -> {}", type_string(*group.source), *arguments);
    for (const std::string& name : names_moved(result_, group)) {
      const CheaperEdit like{.what = "one " + call, .spares = spares + " of " + name};
      at_producer(name, call, like);
      before_use(name, "." + call, group, like);
      other_input(name, group, like);
    }
  }

  // name = (value).redistribute(...)
  void at_producer(const std::string& name, const std::string& call, const CheaperEdit& like) {
    for (const Place& place : places_) {
      const auto* assign = std::get_if<ast::Assign>(&place.statement->node);
      if (assign == nullptr || assign->targets.size() != 1) continue;
      const auto* target = std::get_if<ast::Name>(&assign->targets.front()->node);
      if (target == nullptr || target->id != name) continue;
      const SourceSpan span = whole_span(text_, *assign->value);
      const std::string value = text_of(*assign->value);
      const bool atom = std::holds_alternative<ast::Name>(assign->value->node) ||
                        std::holds_alternative<ast::Call>(assign->value->node) ||
                        std::holds_alternative<ast::Subscript>(assign->value->node);
      CheaperEdit edit = like;
      edit.edits = {{span, (atom ? value : "(" + value + ")") + "." + call}};
      add(std::move(edit));
    }
  }

  std::string fresh(const std::string& name) const {
    std::string made = name + "_moved";
    while (text_.find(made) != std::string::npos) made += "_";
    return made;
  }

  // The statement in a line of its own in front of another one.
  TextEdit inserted(const Statement& before, const std::string& statement) const {
    const std::uint32_t at = before.span.begin;
    const std::size_t line = text_.rfind('\n', at == 0 ? 0 : at - 1);
    const std::size_t begin = line == std::string::npos || at == 0 ? 0 : line + 1;
    const std::string indent = text_.substr(begin, at - begin);
    const bool alone =
        indent.find_first_not_of(' ') == std::string::npos && text_.find('\n') != std::string::npos;
    return {{at, at}, statement + (alone ? "\n" + indent : "; ")};
  }

  // A new name for what is moved, in front of the first statement that moves it.
  void before_use(const std::string& name, const std::string& suffix, const Moves& group,
                  const CheaperEdit& like) {
    const std::string made = fresh(name);
    for (const bool in_front_of_loop : {true, false}) {
      for (const Place& place : places_) {
        const SourceSpan span = place.statement->span;
        if (!group.lines.contains(line_of(span.begin))) continue;
        if (in_front_of_loop && place.loop == nullptr) continue;
        const Statement& first = in_front_of_loop ? *place.loop : *place.statement;
        std::vector<TextEdit> edits = {inserted(first, made + " = " + name + suffix)};
        for (std::size_t i = 0; i < tokens_.size(); ++i) {
          const SourceSpan at = tokens_[i].span;
          if (at.begin < first.span.begin || at.begin >= place.scope.end) continue;
          const bool on_line = group.lines.contains(line_of(at.begin));
          if (tokens_[i].text == name && reads_value(tokens_, i) && on_line)
            edits.push_back({at, made});
          if (binds(i, name)) break;
        }
        if (edits.size() < 2) continue;
        CheaperEdit edit = like;
        edit.edits = std::move(edits);
        add(std::move(edit));
        break;
      }
    }
  }

  void other_input(const std::string& name, const Moves& group, const CheaperEdit& like) {
    const auto input = std::ranges::find(scenario_.inputs, name, &ScenarioInput::name);
    if (input == scenario_.inputs.end() || group.source->has_partial()) return;
    CheaperEdit edit = like;
    const TypeSizes sizes(type_string(*group.target));
    if (sizes.sizes.size() != input->type.written.size()) return;
    edit.input = name;
    edit.type = sizes.between.front();
    for (std::size_t i = 0; i < sizes.sizes.size(); ++i) {
      edit.type += input->type.written[i] + sizes.between[i + 1];
    }
    edit.what = fmt::format("the input {} as {}", name, edit.type);
    add(std::move(edit));
  }

  void each_expression(const std::function<void(const Expression&)>& visit) const {
    ast::any_part(scenario_.program->body, [&](const Expression& part) {
      visit(part);
      return false;
    });
  }

  static const ast::Attribute* method_of(const Expression& expression, std::string_view name) {
    const auto* call = std::get_if<ast::Call>(&expression.node);
    if (call == nullptr) return nullptr;
    const auto* method = std::get_if<ast::Attribute>(&call->function->node);
    return method != nullptr && method->name == name ? method : nullptr;
  }

  // No redistribution, or one to other placements.
  void asked(const Moves& group) {
    each_expression([&](const Expression& part) {
      const ast::Attribute* method = method_of(part, "redistribute");
      if (method == nullptr || !group.lines.contains(line_of(part.span.begin))) return;
      const std::string call =
          text_.substr(method->name_span.begin, part.span.end - method->name_span.begin);
      const std::string spares = std::to_string(part.span.begin);
      add({.edits = {put_expression(text_, whole_span(text_, part), text_of(*method->object))},
           .what = "no " + call,
           .spares = spares});
      for (const ast::CallArgument& argument : std::get<ast::Call>(part.node).arguments) {
        if (argument.keyword.empty() || text_of(*argument.value) != "R") continue;
        for (std::size_t dim = 0; dim < group.target->ndim(); ++dim) {
          const std::string placement = fmt::format("S({})", dim);
          add({.edits = {{argument.value->span, placement}},
               .what = fmt::format("redistribute({}={})", argument.keyword, placement),
               .spares = spares});
        }
      }
    });
  }

  // x.redistribute(other, [R, S(0)]): a move to another mesh, whose record has no plan. None, or
  // one that leaves pieces where they are asked to be whole.
  void between() {
    each_expression([&](const Expression& part) {
      const ast::Attribute* method = method_of(part, "redistribute");
      if (method == nullptr) return;
      const auto& arguments = std::get<ast::Call>(part.node).arguments;
      const auto* list =
          arguments.size() < 2 ? nullptr : std::get_if<ast::List>(&arguments[1].value->node);
      if (list == nullptr) return;
      const std::string spares = std::to_string(part.span.begin);
      add({.edits = {put_expression(text_, whole_span(text_, part), text_of(*method->object))},
           .what = "no move to " + text_of(*arguments[0].value),
           .spares = spares});
      for (const ast::ExpressionPtr& item : list->items) {
        for (int dim = 0; dim < 3 && text_of(*item).starts_with('R'); ++dim) {
          const std::string word = text_of(*item) == "R" ? "S({})" : "Shard({})";
          add({.edits = {{whole_span(text_, *item), fmt::format(fmt::runtime(word), dim)}},
               .what = fmt::format("a move to {} that leaves pieces of dim {}",
                                   text_of(*arguments[0].value), dim),
               .spares = spares});
        }
      }
    });
  }

  // Moves and collectives with the same text, of names that are bound before them.
  void repeated() {
    constexpr std::array<std::string_view, 5> kCalls = {"redistribute", "full_tensor", "all_reduce",
                                                        "all_gather", "reduce_scatter"};
    std::map<std::string, std::vector<const Expression*>> by_text;
    each_expression([&](const Expression& part) {
      const auto* call = std::get_if<ast::Call>(&part.node);
      if (call == nullptr) return;
      const auto* name = std::get_if<ast::Name>(&call->function->node);
      const auto* method = std::get_if<ast::Attribute>(&call->function->node);
      const std::string called = name != nullptr ? name->id : method != nullptr ? method->name : "";
      if (std::ranges::find(kCalls, called) == kCalls.end()) return;
      by_text[text_of(part)].push_back(&part);
    });
    for (const auto& [text, parts] : by_text) once(text, parts);
  }

  const Place* place_of(std::uint32_t offset) const {
    const Place* last = nullptr;
    for (const Place& place : places_) {
      if (place.statement->span.begin <= offset) last = &place;
    }
    return last;
  }

  void once(const std::string& text, const std::vector<const Expression*>& parts) {
    const Place* place = place_of(parts.front()->span.begin);
    if (place == nullptr || (parts.size() < 2 && place->loop == nullptr)) return;
    const Statement& first = place->loop != nullptr ? *place->loop : *place->statement;
    const std::string made = fresh(text.substr(0, text.find_first_not_of(kLetters)));
    const bool whole = parts.size() > 1;
    for (const Statement* before : {&first, place->statement}) {
      if (before == place->statement && !whole) break;
      std::vector<TextEdit> edits = {inserted(*before, made + " = " + text)};
      for (const Expression* part : parts) edits.push_back({whole_span(text_, *part), made});
      const std::string called = text.substr(0, text.find('('));
      add({.edits = std::move(edits),
           .what = "one " + called.substr(called.rfind('.') + 1),
           .spares = text,
           .of_pieces = called.find('.') == std::string::npos});
    }
  }
  static constexpr const char* kLetters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";

  // A slice of what was gathered or summed for all.
  struct Whole {
    const Expression* call = nullptr;
    const Statement* bound_by = nullptr;  ///< name = call
    std::string name;
  };

  static const ast::Call* collective(const Expression& expression, std::string_view wanted) {
    const auto* call = std::get_if<ast::Call>(&expression.node);
    const auto* name = call == nullptr ? nullptr : std::get_if<ast::Name>(&call->function->node);
    return name != nullptr && name->id == wanted && !call->arguments.empty() ? call : nullptr;
  }

  void pieces() {
    std::vector<Whole> wholes;
    each_expression([&](const Expression& part) {
      if (collective(part, "all_gather") == nullptr && collective(part, "all_reduce") == nullptr) {
        return;
      }
      Whole whole{.call = &part, .bound_by = nullptr, .name = ""};
      for (const Place& place : places_) {
        const auto* assign = std::get_if<ast::Assign>(&place.statement->node);
        if (assign == nullptr || assign->value.get() != &part) continue;
        const auto* target = std::get_if<ast::Name>(&assign->targets.front()->node);
        if (target == nullptr) continue;
        whole.bound_by = place.statement;
        whole.name = target->id;
      }
      wholes.push_back(std::move(whole));
    });
    for (const Whole& whole : wholes) {
      each_expression([&](const Expression& part) { slice_of(whole, part); });
    }
  }

  // Subscripts, and chunks and parts along a dim.
  static const Expression* sliced(const Expression& expression) {
    if (const auto* subscript = std::get_if<ast::Subscript>(&expression.node)) {
      for (const char* method : {"chunk", "tensor_split", "split"}) {
        if (const ast::Attribute* of = method_of(*subscript->object, method)) {
          return of->object.get();
        }
      }
      return subscript->object.get();
    }
    const ast::Attribute* narrow = method_of(expression, "narrow");
    return narrow == nullptr ? nullptr : narrow->object.get();
  }

  // The lines of a statement that ends at `last`; none where it shares one.
  std::optional<TextEdit> without(const Statement& statement, std::uint32_t last) const {
    const std::uint32_t begin = statement.span.begin;
    const std::size_t end = text_.find('\n', last);
    const std::size_t line = text_.rfind('\n', begin == 0 ? 0 : begin - 1);
    const std::size_t from = line == std::string::npos || begin == 0 ? 0 : line + 1;
    const auto alone = [&](std::size_t a, std::size_t b) {
      return text_.substr(a, b - a).find_first_not_of(' ') == std::string::npos;
    };
    if (end == std::string::npos || !alone(from, begin)) return std::nullopt;
    if (!alone(last, std::min(end, text_.find('#', last)))) return std::nullopt;
    return TextEdit{{static_cast<std::uint32_t>(from), static_cast<std::uint32_t>(end + 1)}, ""};
  }

  void slice_of(const Whole& whole, const Expression& part) {
    const Expression* object = sliced(part);
    if (object == nullptr) return;
    const auto* name = std::get_if<ast::Name>(&object->node);
    const bool named = name != nullptr && !whole.name.empty() && name->id == whole.name;
    if (object != whole.call && !named) return;
    const auto& call = std::get<ast::Call>(whole.call->node);
    const std::string value = text_of(*call.arguments.front().value);
    const bool gathered = collective(*whole.call, "all_gather") != nullptr;
    std::vector<std::string> texts;
    if (gathered) texts = {value};
    for (int dim = 0; !gathered && dim < 3; ++dim) {
      texts.push_back(fmt::format("reduce_scatter({}{})", value, scatter_arguments(call, dim)));
    }
    for (const std::string& text : texts) {
      const TextEdit put = put_expression(text_, whole_span(text_, part), text);
      const CheaperEdit like{
          .edits = {put},
          .what = gathered ? "the rank's own piece, not gathered" : "one reduce_scatter",
          .spares = fmt::format("{}", whole.call->span.begin),
          .of_pieces = true};
      if (named) {
        // Without the statement that nothing else reads.
        if (const auto gone = without(*whole.bound_by, whole_span(text_, *whole.call).end)) {
          CheaperEdit alone = like;
          alone.edits.push_back(*gone);
          add(std::move(alone));
        }
      }
      add(like);
    }
  }

  std::string scatter_arguments(const ast::Call& call, int dim) const {
    std::string op = "\"sum\"", rest;
    for (std::size_t i = 1; i < call.arguments.size(); ++i) {
      const ast::CallArgument& argument = call.arguments[i];
      if (i == 1 && argument.keyword.empty()) {
        op = text_of(*argument.value);
      } else if (!argument.keyword.empty()) {
        rest += fmt::format(", {}={}", argument.keyword, text_of(*argument.value));
      }
    }
    return fmt::format(", {}, {}{}", op, dim, rest);
  }

  // A statement dist.all_reduce(t): what it writes has a name before it.
  struct InPlace {
    const Statement* statement = nullptr;
    const ast::Call* call = nullptr;
    std::string called, name;  ///< "all_reduce", "t"
    TextEdit gone;
  };

  std::optional<InPlace> in_place_at(const Place& place) const {
    constexpr std::string_view kCalls[] = {"all_reduce", "all_gather", "all_gather_into_tensor",
                                           "broadcast"};
    const auto* alone = std::get_if<ast::ExpressionStatement>(&place.statement->node);
    const auto* call = alone == nullptr ? nullptr : std::get_if<ast::Call>(&alone->value->node);
    const auto* method =
        call == nullptr ? nullptr : std::get_if<ast::Attribute>(&call->function->node);
    if (method == nullptr || call->arguments.empty()) return std::nullopt;
    if (std::ranges::find(kCalls, method->name) == std::end(kCalls)) return std::nullopt;
    const std::string module = text_of(*method->object);
    if (module != "dist" && module != "torch.distributed") return std::nullopt;
    const auto gone = without(*place.statement, whole_span(text_, *alone->value).end);
    if (!gone) return std::nullopt;
    return InPlace{place.statement, call, method->name, text_of(*call->arguments[0].value), *gone};
  }

  // No call, one over all ranks for two over groups, or the own piece alone.
  void in_place() {
    std::vector<InPlace> calls;
    for (const Place& place : places_) {
      if (auto call = in_place_at(place)) calls.push_back(std::move(*call));
    }
    for (std::size_t i = 0; i < calls.size(); ++i) {
      const InPlace& one = calls[i];
      const CheaperEdit like{.edits = {one.gone},
                             .what = fmt::format("no {}({})", one.called, one.name),
                             .spares = fmt::format("{}", one.statement->span.begin),
                             .of_pieces = true};
      add(like);
      each_expression([&](const Expression& part) { own_piece(one, like, part); });
      if (i + 1 < calls.size()) over_all(one, calls[i + 1], like);
    }
  }

  void over_all(const InPlace& one, const InPlace& next, const CheaperEdit& like) {
    if (one.called != "all_reduce" || next.called != one.called || next.name != one.name) return;
    const auto group = std::ranges::find(one.call->arguments, "group", &ast::CallArgument::keyword);
    if (group == one.call->arguments.end()) return;
    CheaperEdit edit = like;
    const SourceSpan before = std::prev(group)->value->span;
    edit.edits = {{{before.end, group->value->span.end}, ""}, next.gone};
    edit.what = fmt::format("one all_reduce of {} over all ranks", one.name);
    add(std::move(edit));
  }

  void own_piece(const InPlace& one, const CheaperEdit& like, const Expression& part) {
    const Expression* object = sliced(part);
    if (object == nullptr || text_of(*object) != one.name ||
        part.span.begin < like.edits[0].span.end)
      return;
    const SourceSpan span = whole_span(text_, part);
    if (one.called.starts_with("all_gather") && one.call->arguments.size() > 1) {
      CheaperEdit edit = like;
      edit.edits.push_back(put_expression(text_, span, text_of(*one.call->arguments[1].value)));
      edit.what = "the rank's own piece, not gathered";
      edit.within = one.name;
      if (const auto bound = unread(one.name, edit.edits)) edit.edits.push_back(*bound);
      add(std::move(edit));
    }
    for (int dim = 0; one.called == "all_reduce" && dim < 3; ++dim) {
      CheaperEdit edit = like;
      edit.within = one.name;
      edit.edits.push_back(put_expression(
          text_, span,
          fmt::format("reduce_scatter({}{})", one.name, in_place_arguments(*one.call, dim))));
      edit.what = "one reduce_scatter";
      add(std::move(edit));
    }
  }

  // The statement that gives the name a value, where the edits leave no other place of it.
  std::optional<TextEdit> unread(const std::string& name,
                                 const std::vector<TextEdit>& edits) const {
    const auto in = [](SourceSpan at) {
      return [at](const TextEdit& edit) {
        return edit.span.begin <= at.begin && at.end <= edit.span.end;
      };
    };
    const auto left = std::ranges::count_if(tokens_, [&](const Token& token) {
      return token.text == name && std::ranges::none_of(edits, in(token.span));
    });
    for (const Place& place : places_) {
      const auto* assign = std::get_if<ast::Assign>(&place.statement->node);
      if (left != 1 || assign == nullptr || text_of(*assign->targets.front()) != name) continue;
      return without(*place.statement, whole_span(text_, *assign->value).end);
    }
    return std::nullopt;
  }

  // dist.ReduceOp.AVG is "avg" of what returns a tensor.
  std::string in_place_arguments(const ast::Call& call, int dim) const {
    std::string op = "sum", rest;
    for (std::size_t i = 1; i < call.arguments.size(); ++i) {
      const ast::CallArgument& argument = call.arguments[i];
      if (argument.keyword.empty() || argument.keyword == "op") {
        op = text_of(*argument.value);
        op = op.substr(op.rfind('.') + 1);
        for (char& c : op) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      } else {
        rest += fmt::format(", {}={}", argument.keyword, text_of(*argument.value));
      }
    }
    return fmt::format(", \"{}\", {}{}", op, dim, rest);
  }

  const ScenarioResult& result_;
  const Scenario& scenario_;
  const SourceText& source_;
  const std::string& text_;
  std::vector<Token> tokens_;
  std::vector<Place> places_;
  std::set<std::string> seen_;
  std::vector<CheaperEdit> found_;
};

}  // namespace

std::vector<CheaperEdit> cheaper_edits(const ScenarioResult& result) {
  return Finder(result).all();
}

}  // namespace shardlab
