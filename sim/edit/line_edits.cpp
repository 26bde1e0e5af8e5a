// The parser's spans leave out brackets around an operand, so that a place is widened until its
// brackets match.
#include "sim/edit/line_edits.h"

#include <algorithm>
#include <memory>

#include "sim/language/syntax/ast_walk.h"
#include "sim/language/syntax/lexer.h"
#include "sim/language/syntax/parser.h"

namespace shardlab {

namespace {

using ast::Expression;

bool is_atom(const Expression& expression) {
  return !expression.is<ast::Unary, ast::Binary, ast::Compare, ast::Logical, ast::Conditional>();
}

// Collects the edits of one program.
struct SmallerParts {
  void look_at(const ast::Block& block) {
    for (const ast::Statement& statement : block) {
      if (const auto* assign = statement.get<ast::Assign>()) tuples(*assign);
      ast::for_each_part(
          statement, [&](const Expression& part) { look_at(part); },
          [&](const ast::Block& inner) { look_at(inner); });
    }
  }

  void replace(const Expression& whole, const Expression& part) {
    edits.push_back(text_.put(whole, text_.of(part)));
  }

  void look_at(const Expression& expression) {
    if (const auto* call = expression.get<ast::Call>()) {
      look_at_call(expression, *call);
    } else if (const auto* binary = expression.get<ast::Binary>()) {
      replace(expression, *binary->left);
      replace(expression, *binary->right);
    } else if (const auto* unary = expression.get<ast::Unary>()) {
      replace(expression, *unary->operand);
    } else if (const auto* subscript = expression.get<ast::Subscript>()) {
      replace(expression, *subscript->object);
    } else if (const auto* choice = expression.get<ast::Conditional>()) {
      replace(expression, *choice->when_true);
      replace(expression, *choice->when_false);
    } else if (const auto* list = expression.get<ast::List>()) {
      fewer_items(expression, list->items);
    } else if (const auto* number = expression.constant<std::int64_t>()) {
      for (const std::int64_t less : {1, 2}) {
        if (*number > less) edits.push_back({expression.span, std::to_string(less)});
      }
    }
    ast::for_each_part(expression, [&](const Expression& part) { look_at(part); });
  }

  void look_at_call(const Expression& expression, const ast::Call& call) {
    const auto* method = call.function->get<ast::Attribute>();
    if (method != nullptr) replace(expression, *method->object);
    for (const ast::CallArgument& argument : call.arguments) replace(expression, *argument.value);
    for (const ast::CallArgument& dropped : call.arguments) {
      std::string arguments;
      for (const ast::CallArgument& argument : call.arguments) {
        if (&argument == &dropped) continue;
        arguments += arguments.empty() ? "" : ", ";
        if (!argument.keyword.empty() && argument.keyword != ast::kDoubleStar) {
          arguments += argument.keyword + "=";
        }
        arguments += argument.starred ? "*" : argument.keyword == ast::kDoubleStar ? "**" : "";
        arguments += text_.of(*argument.value);
      }
      edits.push_back(
          {whole_span(text_.text, expression), text_.of(*call.function) + "(" + arguments + ")"});
    }
  }

  void fewer_items(const Expression& list, const std::vector<ast::ExpressionPtr>& items) {
    for (std::size_t dropped = 0; items.size() > 1 && dropped < items.size(); ++dropped) {
      edits.push_back({list.span, "[" + joined(items, dropped) + "]"});
    }
  }

  std::string joined(const std::vector<ast::ExpressionPtr>& items, std::size_t dropped) const {
    std::string out;
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i != dropped) out += (out.empty() ? "" : ", ") + text_.of(*items[i]);
    }
    return out;
  }

  // a, b = c, d: without one of both.
  void tuples(const ast::Assign& assign) {
    const auto* targets = assign.targets.front()->get<ast::Tuple>();
    const auto* values = assign.value->get<ast::Tuple>();
    const bool pairs = targets != nullptr && values != nullptr && assign.targets.size() == 1 &&
                       targets->items.size() == values->items.size();
    for (std::size_t i = 0; pairs && i < values->items.size(); ++i) {
      const SourceSpan span = {whole_span(text_.text, *assign.targets.front()).begin,
                               whole_span(text_.text, *assign.value).end};
      edits.push_back({span, joined(targets->items, i) + " = " + joined(values->items, i)});
    }
  }

  const ProgramText text_;
  std::vector<TextEdit> edits = {};
};

// The line that a place of text_of(lines) is in, and where in it.
std::pair<std::size_t, std::uint32_t> place_in(const ProgramLines& lines, std::uint32_t offset) {
  std::uint32_t begin = 0;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const auto blanks =
        static_cast<std::uint32_t>(kIndentation * static_cast<std::size_t>(lines[i].indent));
    const auto size = blanks + static_cast<std::uint32_t>(lines[i].text.size()) + 1;
    if (offset < begin + size) return {i, offset - begin - std::min(blanks, offset - begin)};
    begin += size;
  }
  return {lines.size(), 0};
}

// Written twice it would be two values.
bool draws(std::string_view text) {
  constexpr std::string_view kParts[] = {"rand", "drop", "normal", "bernoulli", "multinomial"};
  return std::ranges::any_of(
      kParts, [&](std::string_view part) { return text.find(part) != std::string_view::npos; });
}

struct Folding {
  std::vector<ProgramLines> all() {
    const ast::Program program = parse_program(source_);
    look_at(program.body);
    return std::move(found_);
  }

  void look_at(const ast::Block& block) {
    for (const ast::Statement& statement : block) {
      if (const auto assigned = plain_assignment(statement)) {
        fold(statement, assigned->first, *assigned->second);
      }
      ast::for_each_block(statement, [&](const ast::Block& inner) { look_at(inner); });
    }
  }

  // Reads of the name; nothing where another statement binds it, too.
  std::vector<SourceSpan> reads_of(const std::string& name, SourceSpan target) const {
    std::vector<SourceSpan> reads;
    for (std::size_t i = 0; i + 1 < tokens_.size(); ++i) {
      const Token& token = tokens_[i];
      if (token.kind != TokenKind::kName || token.text != name) continue;
      if (token.span.begin == target.begin) continue;
      if (i > 0 && tokens_[i - 1].text == ".") continue;
      if (tokens_[i + 1].text == "=" || token.span.begin < target.begin) return {};
      reads.push_back(token.span);
    }
    return reads;
  }

  void fold(const ast::Statement& statement, const std::string& name, const Expression& value) {
    const std::vector<SourceSpan> reads = reads_of(name, statement.span);
    const SourceSpan span = whole_span(source_->text(), value);
    const std::string text(source_->text(span));
    constexpr std::size_t kShort = 16;
    if (reads.empty() || (reads.size() > 1 && (text.size() > kShort || draws(text)))) return;
    ProgramLines lines = lines_;
    const std::size_t from = place_in(lines_, statement.span.begin).first;
    // From the end, so that places before it stay.
    for (std::size_t i = reads.size(); i-- > 0;) {
      TextEdit edit = put_expression(source_->text(), reads[i], text);
      const std::size_t to = place_in(lines_, reads[i].begin).first;
      lines = edited(lines, edit);
      lines[to].from.insert(lines[to].from.end(), lines_[from].from.begin(),
                            lines_[from].from.end());
      if (lines[to].text.size() + kIndentation * static_cast<std::size_t>(lines[to].indent) >
          kLongestLine) {
        return;
      }
    }
    found_.push_back(without(lines, from, from + 1));
  }

  const ProgramLines& lines_;
  SourcePtr source_ = std::make_shared<const SourceText>("", shardlab::text_of(lines_));
  std::vector<Token> tokens_ = tokens_of(*source_);
  std::vector<ProgramLines> found_ = {};
};

}  // namespace

std::optional<std::pair<std::string, const Expression*>> plain_assignment(
    const ast::Statement& statement) {
  const auto* assign = statement.get<ast::Assign>();
  if (assign == nullptr || assign->targets.size() != 1) return std::nullopt;
  const auto* name = assign->targets.front()->get<ast::Name>();
  if (name == nullptr) return std::nullopt;
  return std::pair{name->id, assign->value.get()};
}

SourceSpan whole_span(std::string_view text, const Expression& expression) {
  SourceSpan span = expression.span;
  int open = 0, unopened = 0;
  for (std::uint32_t i = span.begin; i < span.end; ++i) {
    if (std::string_view("([{").find(text[i]) != std::string_view::npos) ++open;
    if (std::string_view(")]}").find(text[i]) == std::string_view::npos) continue;
    if (open > 0) {
      --open;
    } else {
      ++unopened;
    }
  }
  while (unopened > 0 && span.begin > 0) unopened -= text[--span.begin] == '(' ? 1 : 0;
  while (open > 0 && span.end < text.size()) open -= text[span.end++] == ')' ? 1 : 0;
  return span;
}

TextEdit put_expression(std::string_view text, SourceSpan place, std::string expression) {
  ast::ExpressionPtr parsed;
  try {
    parsed = parse_expression(SourceText("", expression));
  } catch (const Error&) {
    return {place, std::move(expression)};
  }
  const auto before = text.find_last_not_of(' ', place.begin == 0 ? 0 : place.begin - 1);
  const auto after = text.find_first_not_of(' ', place.end);
  const char left = place.begin == 0 ? '\n' : text[before];
  const char right = after == std::string_view::npos ? '\n' : text[after];
  const bool alone = std::string_view("([{,=\n").find(left) != std::string_view::npos &&
                     std::string_view(")]},:\n").find(right) != std::string_view::npos;
  if (!alone && !is_atom(*parsed)) return {place, "(" + expression + ")"};
  const bool brackets = left == '(' && right == ')' && is_atom(*parsed);
  const char called = brackets && before > 0 ? text[before - 1] : '\n';
  const bool call = std::isalnum(static_cast<unsigned char>(called)) != 0 || called == '_' ||
                    called == ')' || called == ']';
  if (brackets && !call) {
    place = {static_cast<std::uint32_t>(before), static_cast<std::uint32_t>(after) + 1};
  }
  return {place, std::move(expression)};
}

std::string ProgramText::of(const Expression& expression) const {
  const SourceSpan span = whole_span(text, expression);
  return std::string(text.substr(span.begin, span.end - span.begin));
}

std::string ProgramText::operand(const Expression& expression) const {
  const std::string own = of(expression);
  const bool sum = expression.is<ast::Binary, ast::Unary>();
  return sum && !own.starts_with('(') ? "(" + own + ")" : own;
}

TextEdit ProgramText::put(const Expression& place, std::string expression) const {
  return put_expression(text, whole_span(text, place), std::move(expression));
}

std::string ProgramText::with_argument(const ast::Call& call, const std::string& keyword,
                                       const std::string& value) const {
  std::string out;
  bool done = false;
  const auto append = [&](const std::string& one) { out += (out.empty() ? "" : ", ") + one; };
  for (const ast::CallArgument& argument : call.arguments) {
    const bool here = argument.keyword == keyword;
    const std::string name = argument.keyword.empty() ? "" : argument.keyword + "=";
    if (here && !value.empty()) append(keyword + "=" + value);
    if (!here) append(name + of(*argument.value));
    done = done || here;
  }
  if (!done && !value.empty()) append(keyword + "=" + value);
  return of(*call.function) + "(" + out + ")";
}

std::vector<TextEdit> smaller_parts(const ProgramLines& lines) {
  const auto source = std::make_shared<const SourceText>("", text_of(lines));
  const ast::Program program = parse_program(source);
  SmallerParts parts{ProgramText(source->text())};
  parts.look_at(program.body);
  std::ranges::stable_sort(parts.edits, [](const TextEdit& a, const TextEdit& b) {
    return a.span.end - a.span.begin + b.text.size() > b.span.end - b.span.begin + a.text.size();
  });
  return std::move(parts.edits);
}

std::vector<ProgramLines> folded(const ProgramLines& lines) { return Folding{lines}.all(); }

ProgramLines edited(const ProgramLines& lines, const TextEdit& edit) {
  ProgramLines out = lines;
  const auto [line, at] = place_in(lines, edit.span.begin);
  if (line < out.size()) out[line].text.replace(at, edit.span.end - edit.span.begin, edit.text);
  return out;
}

}  // namespace shardlab
