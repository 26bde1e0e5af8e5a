// Recursive descent with one function per level of precedence; binary operators between comparison
// and unary minus share one loop over a table (precedence climbing). Every node knows how deep the
// tree below it is, and too deep a tree is refused here, so that later walks may recurse on a
// rank's small stack.
#include <algorithm>
#include <array>

#include "sim/language/syntax/ast_walk.h"
#include "sim/language/syntax/parser.h"
#include "sim/language/syntax/parser_state.h"

namespace shardlab {

using ast::ExpressionPtr;

namespace {

constexpr std::string_view kWriteValue = "write a value, a name or a call here";

ast::CompareOp next_of(ast::CompareOp op) {
  return static_cast<ast::CompareOp>(static_cast<int>(op) + 1);
}

/// In the order of BinaryOp; ** binds tighter than a sign, so that it is not here.
constexpr std::array<int, 13> kPrecedence = {4, 4, 5, 5, 5, 5, -1, 5, 2, 0, 1, 3, 3};

}  // namespace

const Token& Parser::peek(std::size_t ahead) const {
  return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
}

const Token& Parser::next() {
  const Token& token = peek();
  if (at_ < tokens_.size()) ++at_;
  return token;
}

bool Parser::at_operator(std::string_view text) const {
  return peek().kind == TokenKind::kOperator && peek().text == text;
}

bool Parser::at_keyword(std::string_view text) const {
  return peek().kind == TokenKind::kKeyword && peek().text == text;
}

bool Parser::accept_operator(std::string_view text) {
  if (!at_operator(text)) return false;
  ++at_;
  return true;
}

bool Parser::accept_keyword(std::string_view text) {
  if (!at_keyword(text)) return false;
  ++at_;
  return true;
}

void Parser::expect_operator(std::string_view text, std::string_view after, std::string_view fix) {
  if (!accept_operator(text)) unexpected(fmt::format("'{}' after {}", text, after), fix);
}

std::string Parser::expect_name(std::string_view what, std::string_view fix) {
  if (peek().kind != TokenKind::kName) unexpected(what, fix);
  return next().text;
}

void Parser::unexpected(std::string_view wanted, std::string_view fix) const {
  refuse_at(peek(), fmt::format("expected {}, found {}", wanted, describe(peek())),
            std::string(fix));
}

void Parser::refuse_at(const Token& token, std::string summary, std::string fix) const {
  refuse(source_, token.span, std::move(summary), std::move(fix));
}

ExpressionPtr Parser::with_depth(std::unique_ptr<ast::Expression> made) const {
  ast::for_each_part(*made, [&](const ast::Expression& part) {
    made->depth = std::max(made->depth, part.depth + 1);
  });
  if (made->depth > ast::kDeepestTree) refuse_depth(made->span);
  return made;
}

std::vector<ExpressionPtr> Parser::listed(ExpressionPtr first, const std::function<bool()>& ends,
                                          const std::function<ExpressionPtr()>& read) {
  std::vector<ExpressionPtr> items;
  items.push_back(std::move(first));
  while (accept_operator(",") && !ends()) items.push_back(read());
  return items;
}

std::vector<ExpressionPtr> Parser::items_until(std::string_view close, ExpressionPtr first) {
  return listed(
      std::move(first), [&] { return at_operator(close); }, [this] { return item(); });
}

void Parser::refuse_depth(SourceSpan span) const {
  refuse(source_, span, fmt::format("this is nested deeper than {}", ast::kDeepestTree),
         "compute parts of it in statements of their own");
}

Parser::Nesting Parser::nest() {
  // A printed tree has one bracket and one operator per level, so that it can be parsed again.
  constexpr int kDeepest = 2 * ast::kDeepestTree;
  if (nesting_ >= kDeepest) refuse_depth(peek().span);
  return Nesting(nesting_);
}

ExpressionPtr Parser::whole_expression() {
  if (peek().kind == TokenKind::kEnd) unexpected("an expression", kWriteValue);
  ExpressionPtr found = expression_list();
  if (peek().kind != TokenKind::kEnd) {
    unexpected("the end of the expression", "join its parts with operators: a + b");
  }
  return found;
}

ExpressionPtr Parser::expression_list() {
  ExpressionPtr first = item(false);
  if (at_operator(":=")) {
    refuse(source_, first->span, "':=' is a statement of its own", "write name = value");
  }
  if (!at_operator(",")) {
    refuse_lone_star(*first);
    return first;
  }
  const std::uint32_t begin = first->span.begin;
  const auto ends = [this] {
    const TokenKind kind = peek().kind;
    return kind == TokenKind::kNewline || kind == TokenKind::kEnd || at_operator("=") ||
           at_operator(")") || at_operator(":") || at_operator(";");
  };
  ast::Tuple tuple{listed(std::move(first), ends, [this] { return item(false); })};
  return make({begin, last_span().end}, std::move(tuple));
}

// Reads an item of a display or a target: it may have a star.
ExpressionPtr Parser::item(bool named) {
  if (!at_operator("*")) return named ? named_expression() : expression();
  const SourceSpan start = next().span;
  ExpressionPtr value = binary(0);
  const SourceSpan span = join(start, value->span);
  return make(span, ast::Starred{std::move(value)});
}

void Parser::refuse_lone_star(const ast::Expression& expression) const {
  if (!expression.is<ast::Starred>()) return;
  refuse(source_, expression.span, "a value with a star is not in a list or a tuple",
         "write [*a], or *a, with a comma");
}

ExpressionPtr Parser::walrus(ExpressionPtr target) {
  const auto* name = target->get<ast::Name>();
  if (name == nullptr) {
    refuse(source_, target->span, "':=' binds a name alone", "write it as (n := value)");
  }
  next();
  ExpressionPtr value = expression();
  const SourceSpan span = join(target->span, value->span);
  return make(span, ast::Walrus{name->id, std::move(value)});
}

ExpressionPtr Parser::named_expression() {
  ExpressionPtr value = expression();
  return at_operator(":=") ? walrus(std::move(value)) : std::move(value);
}

ExpressionPtr Parser::expression() {
  const Nesting nesting = nest();
  if (at_keyword("lambda")) return lambda_expression();
  const SourceSpan start = peek().span;
  ExpressionPtr value = logical_or();
  if (!at_keyword("if")) return value;
  ++at_;
  ExpressionPtr condition = logical_or();
  if (!accept_keyword("else")) {
    unexpected("'else' of a conditional expression", "write it as a if condition else b");
  }
  ExpressionPtr other = expression();
  return make(join(start, last_span()),
              ast::Conditional{std::move(condition), std::move(value), std::move(other)});
}

ExpressionPtr Parser::logical_or() { return logical(ast::BoolOp::kOr, &Parser::logical_and); }
ExpressionPtr Parser::logical_and() { return logical(ast::BoolOp::kAnd, &Parser::logical_not); }

ExpressionPtr Parser::logical(ast::BoolOp op, ExpressionPtr (Parser::*operand)()) {
  const SourceSpan start = peek().span;
  ExpressionPtr first = (this->*operand)();
  if (!at_keyword(to_string(op))) return first;
  ast::Logical node{op, {}};
  node.operands.push_back(std::move(first));
  while (accept_keyword(to_string(op))) node.operands.push_back((this->*operand)());
  return make(join(start, last_span()), std::move(node));
}

ExpressionPtr Parser::logical_not() {
  if (!at_keyword("not")) return comparison();
  const Nesting nesting = nest();
  const SourceSpan start = next().span;
  ExpressionPtr operand = logical_not();
  return make(join(start, last_span()), ast::Unary{ast::UnaryOp::kNot, std::move(operand)});
}

bool Parser::accept_comparison(ast::CompareOp& op) {
  for (op = ast::CompareOp::kEqual; op < ast::CompareOp::kIs; op = next_of(op)) {
    if (accept_operator(to_string(op))) return true;
  }
  if (accept_keyword("in")) return op = ast::CompareOp::kIn, true;
  if (accept_keyword("is")) {
    op = accept_keyword("not") ? ast::CompareOp::kIsNot : ast::CompareOp::kIs;
    return true;
  }
  const bool not_in =
      at_keyword("not") && peek(1).kind == TokenKind::kKeyword && peek(1).text == "in";
  if (!not_in) return false;
  at_ += 2;
  op = ast::CompareOp::kNotIn;
  return true;
}

ExpressionPtr Parser::comparison() {
  const SourceSpan start = peek().span;
  ExpressionPtr first = binary(0);
  ast::CompareOp op{};
  if (!accept_comparison(op)) return first;
  ast::Compare node;
  node.operands.push_back(std::move(first));
  do {
    node.ops.push_back(op);
    node.operands.push_back(binary(0));
  } while (accept_comparison(op));
  return make(join(start, last_span()), std::move(node));
}

ExpressionPtr Parser::binary(int loosest) {
  const SourceSpan start = peek().span;
  ExpressionPtr left = unary();
  while (peek().kind == TokenKind::kOperator) {
    std::size_t op = 0;
    while (op < kPrecedence.size() && to_string(ast::BinaryOp(op)) != peek().text) ++op;
    if (op == kPrecedence.size() || kPrecedence[op] < loosest) break;
    ++at_;
    ExpressionPtr right = binary(kPrecedence[op] + 1);
    left = make(join(start, last_span()),
                ast::Binary{ast::BinaryOp(op), std::move(left), std::move(right)});
  }
  return left;
}

ExpressionPtr Parser::unary() {
  const bool prefix = at_operator("-") || at_operator("+") || at_operator("~");
  if (!prefix) return power();
  const Nesting nesting = nest();
  const Token& token = next();
  const ast::UnaryOp op = token.text == "-"   ? ast::UnaryOp::kNegative
                          : token.text == "+" ? ast::UnaryOp::kPositive
                                              : ast::UnaryOp::kInvert;
  const SourceSpan start = token.span;
  ExpressionPtr operand = unary();
  return make(join(start, last_span()), ast::Unary{op, std::move(operand)});
}

ExpressionPtr Parser::power() {
  const SourceSpan start = peek().span;
  ExpressionPtr base = postfix();
  if (!accept_operator("**")) return base;
  const Nesting nesting = nest();
  ExpressionPtr exponent = unary();
  return make(join(start, last_span()),
              ast::Binary{ast::BinaryOp::kPow, std::move(base), std::move(exponent)});
}

ExpressionPtr Parser::postfix() {
  const SourceSpan start = peek().span;
  ExpressionPtr object = atom();
  while (true) {
    if (accept_operator(".")) {
      const SourceSpan name_span = peek().span;
      std::string name = expect_name("a name after '.'", "name an attribute or a method: x.shape");
      object = make(join(start, name_span),
                    ast::Attribute{std::move(object), std::move(name), name_span});
    } else if (at_operator("(")) {
      object = call(start, std::move(object));
    } else if (at_operator("[")) {
      object = subscript(start, std::move(object));
    } else {
      return object;
    }
  }
}

ExpressionPtr Parser::call(SourceSpan start, ExpressionPtr function) {
  next();
  ast::Call node{std::move(function), {}};
  while (!at_operator(")")) {
    node.arguments.push_back(call_argument(node.arguments));
    if (!accept_operator(",")) break;
  }
  expect_operator(")", "the arguments", "separate arguments with commas: f(a, b)");
  return make(join(start, last_span()), std::move(node));
}

ast::CallArgument Parser::call_argument(const std::vector<ast::CallArgument>& before) {
  ast::CallArgument argument;
  const SourceSpan start = peek().span;
  if (accept_operator("**")) {
    argument.keyword = ast::kDoubleStar;
    argument.value = expression();
    argument.span = join(start, argument.value->span);
    return argument;
  }
  argument.starred = accept_operator("*");
  const bool keyword = !argument.starred && peek().kind == TokenKind::kName &&
                       peek(1).kind == TokenKind::kOperator && peek(1).text == "=";
  if (keyword) {
    argument.keyword = next().text;
    next();
    const bool twice = std::ranges::any_of(
        before, [&](const ast::CallArgument& other) { return other.keyword == argument.keyword; });
    if (twice) {
      refuse(source_, start, fmt::format("'{}' is given twice", argument.keyword),
             "leave one of them out");
    }
  } else if (!before.empty() && !before.back().keyword.empty()) {
    refuse(source_, start, "a positional argument after a named one",
           "put it before the named ones, or name it");
  }
  const bool named = argument.keyword.empty() && !argument.starred;
  argument.value = named ? named_expression() : expression();
  if (at_keyword("for") && before.empty()) {
    argument.value = comprehension(start.begin, nullptr, std::move(argument.value), "");
    if (at_operator(",")) {
      refuse_at(peek(), "a generator is not the only argument",
                "write it in brackets: f([g(x) for x in items], y)");
    }
  }
  argument.span = join(start, argument.value->span);
  return argument;
}

ExpressionPtr Parser::subscript(SourceSpan start, ExpressionPtr object) {
  const std::uint32_t begin = next().span.end;
  ExpressionPtr index = slice_or_expression();
  if (at_operator(",")) {
    ast::Tuple tuple{listed(
        std::move(index), [this] { return at_operator("]"); },
        [this] { return slice_or_expression(); })};
    index = make({begin, last_span().end}, std::move(tuple));
  }
  expect_operator("]", "the index", "separate indices with commas: x[a, b]");
  return make(join(start, last_span()), ast::Subscript{std::move(object), std::move(index)});
}

ExpressionPtr Parser::slice_or_expression() {
  const std::uint32_t begin = peek().span.begin;
  const auto part_ends = [&] { return at_operator(":") || at_operator(",") || at_operator("]"); };
  ast::Slice slice;
  if (at_operator("]") || at_operator(","))
    unexpected("an index", "write it as x[0], x[1:3] or x[:, 0]");
  if (!at_operator(":")) slice.start = named_expression();
  if (!accept_operator(":")) return std::move(slice.start);
  if (!part_ends()) slice.stop = expression();
  if (accept_operator(":") && !part_ends()) slice.step = expression();
  return make({begin, last_span().end}, std::move(slice));
}

ExpressionPtr Parser::atom() {
  using enum TokenKind;
  const TokenKind kind = peek().kind;
  const SourceSpan span = peek().span;
  if (kind == kName) return make(span, ast::Name{next().text});
  if (kind == kInt) return make(span, ast::Constant{next().integer});
  if (kind == kFloat) return make(span, ast::Constant{next().real});
  if (kind == kString || kind == kFString) return strings();
  if (accept_keyword("None")) return make(span, ast::Constant{ast::None{}});
  if (accept_keyword("True")) return make(span, ast::Constant{true});
  if (accept_keyword("False")) return make(span, ast::Constant{false});
  if (accept_operator("...")) return make(span, ast::Constant{ast::Ellipsis{}});
  if (at_operator("(")) return parenthesised();
  if (at_operator("[")) return list_display();
  if (at_operator("{")) return dict_display();
  unexpected("an expression", kWriteValue);
}

// Strings side by side are one string, as in Python.
ExpressionPtr Parser::strings() {
  const SourceSpan start = peek().span;
  ast::FormatString parts;
  std::string text;
  while (peek().kind == TokenKind::kString || peek().kind == TokenKind::kFString) {
    const Token& token = next();
    if (token.kind == TokenKind::kString) {
      text += token.text;
      continue;
    }
    const std::size_t first = parts.parts.size();
    append_format(token, parts);
    if (first < parts.parts.size()) {
      parts.parts[first].text = std::exchange(text, "") + parts.parts[first].text;
    }
    const bool open = !parts.parts.empty() && !parts.parts.back().expression;
    if (!open) continue;
    text = std::move(parts.parts.back().text);
    parts.parts.pop_back();
  }
  const SourceSpan span = join(start, last_span());
  if (parts.parts.empty()) return make(span, ast::Constant{std::move(text)});
  if (!text.empty()) parts.parts.push_back({.text = std::move(text)});
  return make(span, std::move(parts));
}

ExpressionPtr Parser::parenthesised() {
  const SourceSpan start = next().span;
  if (accept_operator(")")) return make(join(start, last_span()), ast::Tuple{});
  ExpressionPtr inner = item();
  if (at_keyword("for")) return comprehension(start.begin, nullptr, std::move(inner), ")");
  if (!at_operator(",")) {
    refuse_lone_star(*inner);
    expect_operator(")", "the expression",
                    "join values with operators, or separate them with commas");
    return inner;
  }
  ast::Tuple tuple{items_until(")", std::move(inner))};
  expect_operator(")", "the items of the tuple", "separate items with commas: (a, b)");
  return make(join(start, last_span()), std::move(tuple));
}

ExpressionPtr Parser::list_display() {
  const SourceSpan start = next().span;
  ast::List list;
  if (!at_operator("]")) {
    ExpressionPtr first = item();
    if (at_keyword("for")) return comprehension(start.begin, nullptr, std::move(first), "]");
    list.items = items_until("]", std::move(first));
  }
  expect_operator("]", "the items of the list", "separate items with commas: [a, b]");
  return make(join(start, last_span()), std::move(list));
}

// A generator is the list of its items: the language could not see the difference.
ExpressionPtr Parser::comprehension(std::uint32_t begin, ExpressionPtr key, ExpressionPtr element,
                                    std::string_view close, bool set) {
  ast::Comprehension node;
  node.set = set;
  node.key = std::move(key);
  node.element = std::move(element);
  while (accept_keyword("for")) {
    ast::Comprehension::Loop loop;
    loop.target = target_list();
    if (!accept_keyword("in")) {
      unexpected("'in' after the names of the loop", "write it as for x in items");
    }
    loop.iterable = logical_or();
    while (accept_keyword("if")) loop.conditions.push_back(logical_or());
    node.loops.push_back(std::move(loop));
  }
  // A def before the statement would not see the names of the comprehension.
  for (const ast::Statement& lambda : hoisted_) {
    if (lambda.span.begin < begin) continue;
    refuse_not_yet(source_, lambda.span, "a lambda inside of a comprehension", "write a for loop");
  }
  if (!close.empty()) {
    expect_operator(close, "the comprehension", "write it as [f(x) for x in items if p(x)]");
  }
  return make({begin, last_span().end}, std::move(node));
}

ExpressionPtr Parser::dict_display() {
  const SourceSpan start = next().span;
  ast::Dict dict;
  while (!at_operator("}")) {
    if (accept_operator("**")) {
      dict.keys.push_back(nullptr);
      dict.values.push_back(expression());
      if (!accept_operator(",")) break;
      continue;
    }
    dict.keys.push_back(item());
    const bool set = at_operator(",") || at_operator("}") || at_keyword("for");
    if (set && dict.keys.size() == 1) return set_display(start, std::move(dict.keys[0]));
    expect_operator(":", "the key", "write each entry as key: value");
    dict.values.push_back(expression());
    if (dict.keys.size() == 1 && at_keyword("for")) {
      return comprehension(start.begin, std::move(dict.keys[0]), std::move(dict.values[0]), "}");
    }
    if (!accept_operator(",")) break;
  }
  expect_operator("}", "the entries of the dict", "separate entries with commas: {a: 1, b: 2}");
  return make(join(start, last_span()), std::move(dict));
}

ExpressionPtr Parser::set_display(SourceSpan start, ExpressionPtr first) {
  if (at_keyword("for")) return comprehension(start.begin, nullptr, std::move(first), "}", true);
  ast::Set set{items_until("}", std::move(first))};
  expect_operator("}", "the items of the set", "separate items with commas: {a, b}");
  return make(join(start, last_span()), std::move(set));
}

// The names of a loop: like an expression list, but `in` is not an operator there.
ExpressionPtr Parser::target_list() {
  const auto target = [this] { return at_operator("*") ? item() : postfix(); };
  ExpressionPtr first = target();
  if (at_operator(",")) {
    const std::uint32_t begin = first->span.begin;
    ast::Tuple tuple{listed(
        std::move(first), [this] { return at_keyword("in"); }, target)};
    first = make({begin, last_span().end}, std::move(tuple));
  }
  check_target(*first);
  return first;
}

void Parser::check_target(const ast::Expression& target) const {
  const auto check_all = [&](const std::vector<ExpressionPtr>& items) {
    const auto starred = [](const ExpressionPtr& item) { return item->is<ast::Starred>(); };
    if (std::ranges::count_if(items, starred) > 1) {
      refuse(source_, target.span, "two targets have a star", "leave one of them out");
    }
    for (const auto& item : items) {
      const auto* rest = item->get<ast::Starred>();
      check_target(rest != nullptr ? *rest->value : *item);
    }
  };
  if (target.is<ast::Name>()) return;
  if (target.is<ast::Subscript>()) return;
  if (target.is<ast::Attribute>()) return;
  if (const auto* tuple = target.get<ast::Tuple>()) return check_all(tuple->items);
  if (const auto* list = target.get<ast::List>()) return check_all(list->items);
  refuse(source_, target.span, "this cannot be assigned to", "assign to a name");
}

ExpressionPtr parse_expression(const SourceText& source) {
  return parse_expression(source, {0, static_cast<std::uint32_t>(source.text().size())});
}

ExpressionPtr parse_expression(const SourceText& source, SourceSpan range) {
  return Parser(source, tokenize(source, range, LexMode::kExpression)).whole_expression();
}

}  // namespace shardlab
