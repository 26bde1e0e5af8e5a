// Lines are told by their ends in the text: a statement may share one with others.
#include "sim/edit/program_places.h"

#include <algorithm>

#include "sim/language/syntax/ast_walk.h"
#include "sim/report/moves.h"

namespace shardlab {

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

}  // namespace shardlab
