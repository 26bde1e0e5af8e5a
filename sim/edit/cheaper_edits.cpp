// Each group of equal moves is asked which names it may have moved, and what in the program would
// move them once, elsewhere or not at all.
#include "sim/edit/cheaper_edits.h"

#include <algorithm>
#include <map>
#include <set>

#include "mesh/type_string.h"
#include "sim/edit/proposals.h"
#include "sim/edit/type_inference.h"
#include "sim/language/syntax/ast_walk.h"
#include "sim/report/moves.h"

namespace shardlab {

// Lines are told by their ends in the text: a statement may share one with others.

using ast::Expression;
using ast::Statement;

const ast::Attribute* method_of(const Expression& expression, const char* name) {
  return called_method(call_of(expression, {name}));
}

ProgramPlaces::ProgramPlaces(const ast::Program& program)
    : text(program.source->text()), tokens(tokens_of(*program.source)), program_(program) {
  collect(program.body, nullptr, {0, static_cast<std::uint32_t>(text.text.size())});
}

void ProgramPlaces::collect(const ast::Block& block, const Statement* loop, SourceSpan scope) {
  for (std::size_t i = 0; i < block.size(); ++i) {
    const Statement& statement = block[i];
    all.push_back({&statement, loop, scope});
    const bool loops = statement.is<ast::For, ast::While>();
    const bool def = statement.is<ast::Def>();
    const std::uint32_t next = i + 1 < block.size() ? block[i + 1].span.begin : scope.end;
    const Statement* around = loop == nullptr && loops ? &statement : loop;
    ast::for_each_block(statement, [&](const ast::Block& inner) {
      collect(inner, def ? nullptr : around, def ? SourceSpan{statement.span.begin, next} : scope);
    });
  }
}

void ProgramPlaces::each_expression(const std::function<void(const Expression&)>& visit) const {
  ast::any_part(program_.body, [&](const Expression& part) {
    visit(part);
    return false;
  });
}

const StatementPlace* ProgramPlaces::at(std::uint32_t offset) const {
  const StatementPlace* last = nullptr;
  for (const StatementPlace& place : all) {
    if (place.statement->span.begin <= offset) last = &place;
  }
  return last;
}

std::string ProgramPlaces::fresh(const std::string& name) const {
  std::string made = name + "_moved";
  while (text.text.find(made) != std::string::npos) made += "_";
  return made;
}

static std::size_t line_begin(std::string_view text, std::uint32_t at) {
  return at == 0 ? 0 : text.rfind('\n', at - 1) + 1;
}

TextEdit ProgramPlaces::inserted(const Statement& before, const std::string& statement) const {
  const std::uint32_t at = before.span.begin;
  const std::size_t begin = line_begin(text.text, at);
  const std::string indent(text.text.substr(begin, at - begin));
  const bool alone = indent.find_first_not_of(' ') == std::string::npos &&
                     text.text.find('\n') != std::string::npos;
  return {{at, at}, statement + (alone ? "\n" + indent : "; ")};
}

std::optional<TextEdit> ProgramPlaces::without(const Statement& statement,
                                               std::uint32_t last) const {
  const std::string_view whole = text.text;
  const std::uint32_t begin = statement.span.begin;
  const std::size_t end = whole.find('\n', last);
  const std::size_t from = line_begin(whole, begin);
  const auto alone = [&](std::size_t a, std::size_t b) {
    return whole.substr(a, b - a).find_first_not_of(' ') == std::string::npos;
  };
  if (end == std::string::npos || !alone(from, begin)) return std::nullopt;
  if (!alone(last, std::min(end, whole.find('#', last)))) return std::nullopt;
  return TextEdit{{static_cast<std::uint32_t>(from), static_cast<std::uint32_t>(end + 1)}, ""};
}

namespace {

using ast::Expression;
using ast::Statement;

constexpr const char* kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";

struct MoveFinder {
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
    return std::move(found_);
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
    for (const StatementPlace& place : places_.all) {
      const auto assigned = plain_assignment(*place.statement);
      if (!assigned || assigned->first != name) continue;
      const Expression& given = *assigned->second;
      const SourceSpan span = whole_span(text_.text, given);
      const std::string value = text_.of(given);
      const bool atom = given.is<ast::Name, ast::Call, ast::Subscript>();
      CheaperEdit edit = like;
      edit.edits = {{span, (atom ? value : "(" + value + ")") + "." + call}};
      add(std::move(edit));
    }
  }

  // A new name for what is moved, in front of the first statement that moves it.
  void before_use(const std::string& name, const std::string& suffix, const Moves& group,
                  const CheaperEdit& like) {
    const std::string made = places_.fresh(name);
    for (const bool in_front_of_loop : {true, false}) {
      for (const StatementPlace& place : places_.all) {
        const SourceSpan span = place.statement->span;
        if (!group.lines.contains(places_.line_of(span.begin))) continue;
        if (in_front_of_loop && place.loop == nullptr) continue;
        const Statement& first = in_front_of_loop ? *place.loop : *place.statement;
        std::vector<TextEdit> edits = {places_.inserted(first, made + " = " + name + suffix)};
        for (std::size_t i = 0; i < tokens_.size(); ++i) {
          const SourceSpan at = tokens_[i].span;
          if (at.begin < first.span.begin || at.begin >= place.scope.end) continue;
          const bool on_line = group.lines.contains(places_.line_of(at.begin));
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
    const auto input = std::ranges::find(result_.run.scenario.inputs, name, &ScenarioInput::name);
    if (input == result_.run.scenario.inputs.end() || group.source->has_partial()) return;
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

  // No redistribution, or one to other placements.
  void asked(const Moves& group) {
    places_.each_expression([&](const Expression& part) {
      const ast::Attribute* method = method_of(part, "redistribute");
      if (method == nullptr || !group.lines.contains(places_.line_of(part.span.begin))) return;
      const std::string call(
          text_.text.substr(method->name_span.begin, part.span.end - method->name_span.begin));
      const std::string spares = std::to_string(part.span.begin);
      add({.edits = {text_.put(part, text_.of(*method->object))},
           .what = "no " + call,
           .spares = spares});
      for (const ast::CallArgument& argument : std::get<ast::Call>(part.node).arguments) {
        if (argument.keyword.empty() || text_.of(*argument.value) != "R") continue;
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
    places_.each_expression([&](const Expression& part) {
      const ast::Attribute* method = method_of(part, "redistribute");
      if (method == nullptr) return;
      const auto& arguments = std::get<ast::Call>(part.node).arguments;
      const auto* list = arguments.size() < 2 ? nullptr : arguments[1].value->get<ast::List>();
      if (list == nullptr) return;
      const std::string spares = std::to_string(part.span.begin);
      add({.edits = {text_.put(part, text_.of(*method->object))},
           .what = "no move to " + text_.of(*arguments[0].value),
           .spares = spares});
      for (const ast::ExpressionPtr& item : list->items) {
        for (int dim = 0; dim < 3 && text_.of(*item).starts_with('R'); ++dim) {
          const std::string word = text_.of(*item) == "R" ? "S({})" : "Shard({})";
          add({.edits = {{whole_span(text_.text, *item), fmt::format(fmt::runtime(word), dim)}},
               .what = fmt::format("a move to {} that leaves pieces of dim {}",
                                   text_.of(*arguments[0].value), dim),
               .spares = spares});
        }
      }
    });
  }

  // Moves and collectives with the same text, of names that are bound before them.
  void repeated() {
    std::map<std::string, std::vector<const Expression*>> by_text;
    places_.each_expression([&](const Expression& part) {
      const ast::Call* call = call_of(
          part, {"redistribute", "full_tensor", "all_reduce", "all_gather", "reduce_scatter"});
      if (call != nullptr) by_text[text_.of(part)].push_back(&part);
    });
    for (const auto& [text, parts] : by_text) once(text, parts);
  }

  void once(const std::string& text, const std::vector<const Expression*>& parts) {
    const StatementPlace* place = places_.at(parts.front()->span.begin);
    if (place == nullptr || (parts.size() < 2 && place->loop == nullptr)) return;
    const Statement& first = place->loop != nullptr ? *place->loop : *place->statement;
    const std::string made = places_.fresh(text.substr(0, text.find_first_not_of(kLetters)));
    const bool whole = parts.size() > 1;
    for (const Statement* before : {&first, place->statement}) {
      if (before == place->statement && !whole) break;
      std::vector<TextEdit> edits = {places_.inserted(*before, made + " = " + text)};
      for (const Expression* part : parts) edits.push_back({whole_span(text_.text, *part), made});
      const std::string called = text.substr(0, text.find('('));
      add({.edits = std::move(edits),
           .what = "one " + called.substr(called.rfind('.') + 1),
           .spares = text,
           .of_pieces = called.find('.') == std::string::npos});
    }
  }

  void add(CheaperEdit edit) { found_.push_back(std::move(edit)); }

  const ScenarioResult& result_;
  const ProgramPlaces& places_;
  const ProgramText& text_ = places_.text;
  const std::vector<Token>& tokens_ = places_.tokens;
  std::vector<CheaperEdit> found_ = {};
};

}  // namespace

std::vector<CheaperEdit> cheaper_edits(const ScenarioResult& result) {
  const ProgramPlaces places(*result.run.scenario.program);
  std::vector<CheaperEdit> all = MoveFinder{result, places}.all();
  std::ranges::move(pieces_for_wholes(places), std::back_inserter(all));
  for (CheaperEdit& edit : all) {
    std::ranges::sort(edit.edits, {}, [](const TextEdit& one) { return one.span.begin; });
  }
  std::set<std::string> seen;
  std::erase_if(all, [&](const CheaperEdit& edit) {
    return !seen.insert(edited_text(std::string(places.text.text), edit.edits) + edit.input +
                        edit.type)
                .second;
  });
  return all;
}

}  // namespace shardlab
