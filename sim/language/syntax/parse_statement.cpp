// Statements, one function per kind. What Python has and this language does not is named in the
// error, with what to write instead. The text must be UTF-8: the lexer looks at bytes.
#include <algorithm>
#include <array>
#include <set>

#include "sim/language/syntax/ast_walk.h"
#include "sim/language/syntax/parser.h"
#include "sim/language/syntax/parser_state.h"

namespace shardlab {

using ast::ExpressionPtr;

namespace {

constexpr std::string_view kWriteDef = "write it as def f(a, b=1):";

struct AugmentedRow {
  std::string_view text;
  ast::BinaryOp op;
};
constexpr std::array<AugmentedRow, 13> kAugmented = {{
    {"+=", ast::BinaryOp::kAdd},
    {"-=", ast::BinaryOp::kSub},
    {"*=", ast::BinaryOp::kMul},
    {"/=", ast::BinaryOp::kDiv},
    {"//=", ast::BinaryOp::kFloorDiv},
    {"%=", ast::BinaryOp::kMod},
    {"**=", ast::BinaryOp::kPow},
    {"@=", ast::BinaryOp::kMatMul},
    {"&=", ast::BinaryOp::kBitAnd},
    {"|=", ast::BinaryOp::kBitOr},
    {"^=", ast::BinaryOp::kBitXor},
    {"<<=", ast::BinaryOp::kLeft},
    {">>=", ast::BinaryOp::kRight},
}};

constexpr std::array<std::string_view, 10> kOutside = {
    "import", "from", "try", "raise", "del", "yield", "async", "await", "lambda", "except"};

constexpr const char* kWriteClass =
    "write defs, and keep what they share in a dict; a gradient of one's own is a class "
    "F(torch.autograd.Function) of static methods, called as F.apply(x)";

std::string in_place_of(std::string_view keyword) {
  if (keyword == "import" || keyword == "from") {
    return "leave the line out: torch, F, dist and all ops are there without it";
  }
  if (keyword == "lambda") return "write a def, also inside of a def, and use its name";
  return "programs have assignments, calls, if, for, while, def, with, assert and return";
}

}  // namespace

ast::Block Parser::program() {
  ast::Block body;
  while (peek().kind != TokenKind::kEnd) line(body);
  return body;
}

// One line: a compound statement, or simple statements separated by ';'.
void Parser::line(ast::Block& out) {
  if (peek().kind == TokenKind::kIndent) {
    refuse_at(peek(), "an indented line without a block", "remove the indentation");
  }
  if (at_keyword("if")) return out.push_back(if_statement());
  if (at_keyword("for")) return out.push_back(for_statement());
  if (at_keyword("while")) return out.push_back(while_statement());
  if (at_keyword("def")) return out.push_back(def_statement());
  if (at_keyword("class")) return out.push_back(class_statement());
  if (at_keyword("with")) return out.push_back(with_statement());
  while (true) {
    out.push_back(simple());
    if (!accept_operator(";")) break;
    if (peek().kind == TokenKind::kNewline) break;
  }
  if (peek().kind != TokenKind::kNewline) {
    unexpected("the end of the line", "write each statement on a line of its own");
  }
  next();
}

ast::Statement Parser::simple() {
  const Token& token = peek();
  const SourceSpan start = token.span;
  if (token.kind != TokenKind::kKeyword) return expression_or_assignment();
  if (accept_keyword("pass")) return {start, ast::Pass{}};
  if (at_keyword("break") || at_keyword("continue")) {
    if (loops_ == 0) {
      refuse_at(token, fmt::format("'{}' stands outside of a loop", token.text),
                "move it into a for or while");
    }
    if (accept_keyword("break")) return {start, ast::Break{}};
    next();
    return {start, ast::Continue{}};
  }
  if (at_keyword("return")) {
    if (path_.empty()) {
      refuse_at(token, "'return' stands outside of a def", "assign the value to a name");
    }
    next();
    if (peek().kind == TokenKind::kNewline || at_operator(";")) return {start, ast::Return{}};
    ExpressionPtr value = expression_list();
    return {join(start, last_span()), ast::Return{std::move(value)}};
  }
  if (accept_keyword("assert")) {
    ExpressionPtr condition = expression();
    ExpressionPtr message = accept_operator(",") ? expression() : nullptr;
    return {join(start, last_span()), ast::Assert{std::move(condition), std::move(message)}};
  }
  if (at_keyword("nonlocal") || at_keyword("global")) {
    refuse_at(token, fmt::format("'{}' is not part of the language", token.text),
              "keep what a def changes in a list or a dict: count[0] += 1");
  }
  if (std::find(kOutside.begin(), kOutside.end(), token.text) != kOutside.end()) {
    refuse_at(token, fmt::format("'{}' is not part of the language", token.text),
              in_place_of(token.text));
  }
  return expression_or_assignment();
}

ast::Statement Parser::expression_or_assignment() {
  const SourceSpan start = peek().span;
  ExpressionPtr target = expression_list();
  const auto span = [&] { return join(start, last_span()); };
  if (accept_operator("=")) {
    ast::Assign assign;
    do {
      check_target(*target);
      assign.targets.push_back(std::move(target));
      target = expression_list();
    } while (accept_operator("="));
    assign.value = std::move(target);
    return {span(), std::move(assign)};
  }
  for (const AugmentedRow& row : kAugmented) {
    if (!at_operator(row.text)) continue;
    const bool several = std::holds_alternative<ast::Tuple>(target->node) ||
                         std::holds_alternative<ast::List>(target->node);
    if (several) refuse(source_, target->span, "this cannot be assigned to", "assign to a name");
    check_target(*target);
    next();
    ExpressionPtr value = expression_list();
    return {span(), ast::AugmentedAssign{std::move(target), row.op, std::move(value)}};
  }
  if (at_operator(":")) {
    refuse_not_yet(source_, peek().span, "annotations", "write name = value");
  }
  return {span(), ast::ExpressionStatement{std::move(target)}};
}

ast::Block Parser::block(std::string_view after) {
  expect_operator(":", after, "end the head of the block with ':', and indent what follows");
  ast::Block body;
  if (peek().kind != TokenKind::kNewline) {
    constexpr std::string_view kCompound[] = {"if", "for", "while", "def", "class", "with"};
    if (std::ranges::any_of(kCompound, [&](std::string_view word) { return at_keyword(word); })) {
      unexpected("a simple statement on the line of the ':'",
                 "indent the inner block on lines of its own");
    }
    line(body);
    return body;
  }
  next();
  if (peek().kind != TokenKind::kIndent) {
    refuse_at(peek(), fmt::format("expected an indented block after {}", after),
              "indent it, or write pass");
  }
  next();
  while (peek().kind != TokenKind::kDedent && peek().kind != TokenKind::kEnd) line(body);
  if (peek().kind == TokenKind::kDedent) next();
  return body;
}

ast::Statement Parser::if_statement() {
  ast::If node;
  const SourceSpan start = next().span;
  ExpressionPtr condition = expression();
  const SourceSpan span = join(start, last_span());
  ast::Block body = block("the condition");
  node.branches.push_back({std::move(condition), std::move(body)});
  while (accept_keyword("elif")) {
    ExpressionPtr other = expression();
    ast::Block other_body = block("the condition");
    node.branches.push_back({std::move(other), std::move(other_body)});
  }
  if (accept_keyword("else")) node.branches.push_back({nullptr, block("'else'")});
  return {span, std::move(node)};
}

ast::Statement Parser::for_statement() {
  const SourceSpan start = next().span;
  ast::For node;
  node.target = target_list();
  if (!accept_keyword("in")) {
    unexpected("'in' after the names of the loop", "write it as for x in items:");
  }
  node.iterable = expression_list();
  const SourceSpan span = join(start, last_span());
  ++loops_;
  node.body = block("the loop");
  --loops_;
  if (accept_keyword("else")) node.otherwise = block("'else'");
  return {span, std::move(node)};
}

ast::Statement Parser::while_statement() {
  const SourceSpan start = next().span;
  ast::While node;
  node.condition = expression();
  const SourceSpan span = join(start, last_span());
  ++loops_;
  node.body = block("the condition");
  --loops_;
  if (accept_keyword("else")) node.otherwise = block("'else'");
  return {span, std::move(node)};
}

// Whether what is next is a list of contexts in parentheses. Brackets are known to match.
bool Parser::at_grouped_contexts() const {
  if (!at_operator("(")) return false;
  int depth = 0;
  for (std::size_t ahead = 0;; ++ahead) {
    const Token& token = peek(ahead);
    if (token.kind == TokenKind::kKeyword && token.text == "as" && depth == 1) return true;
    if (token.kind != TokenKind::kOperator) continue;
    if (token.text == "(" || token.text == "[" || token.text == "{") ++depth;
    if (token.text == ")" || token.text == "]" || token.text == "}") --depth;
    if (depth == 0) return false;
    if (token.text == "," && depth == 1) return true;
  }
}

ast::Statement Parser::with_statement() {
  const SourceSpan start = next().span;
  ast::With node;
  if (at_grouped_contexts()) {
    refuse_at(peek(), "'with' is followed by a parenthesis",
              "write it without: with no_grad():, or with a as b, c as d:");
  }
  do {
    ast::With::Item item{expression(), nullptr};
    if (accept_keyword("as")) {
      item.target = postfix();
      check_target(*item.target);
    }
    node.items.push_back(std::move(item));
  } while (accept_operator(","));
  const SourceSpan span = join(start, last_span());
  node.body = block("the context");
  return {span, std::move(node)};
}

namespace {

using Ids = std::set<std::string, std::less<>>;

void read_names(const ast::Expression& expression, Ids& ids) {
  if (const auto* name = std::get_if<ast::Name>(&expression.node)) ids.insert(name->id);
  ast::for_each_part(expression, [&](const ast::Expression& part) { read_names(part, ids); });
}

// `inner`: what defs in the block read from around them.
void read_names(const ast::Block& block, Ids& ids, Ids& inner) {
  for (const ast::Statement& statement : block) {
    const auto* def = std::get_if<ast::Def>(&statement.node);
    if (def != nullptr) inner.insert(def->function->free.begin(), def->function->free.end());
    ast::for_each_part(
        statement, [&](const ast::Expression& part) { read_names(part, ids); },
        [&](const ast::Block& body) {
          if (def == nullptr) read_names(body, ids, inner);  // of a class: its defs
        });
  }
}

void find_names(ast::Function& function) {
  Ids locals;
  for (std::string& name : ast::bound_names(function.body)) locals.insert(std::move(name));
  for (const auto& parameter : function.parameters) locals.insert(parameter.name);
  function.locals.assign(locals.begin(), locals.end());
  Ids ids, inner;
  read_names(function.body, ids, inner);
  for (const std::string& name : inner) {
    if (locals.contains(name)) function.shared.push_back(name);
  }
  ids.merge(inner);
  for (const std::string& name : ids) {
    if (!locals.contains(name)) function.free.push_back(name);
  }
}

}  // namespace

ast::Statement Parser::def_statement() {
  const SourceSpan start = next().span;
  auto function = std::make_shared<ast::Function>();
  function->name = expect_name("the name of the function", kWriteDef);
  function->path = path_ + function->name;
  function->parameters = parameters();
  const SourceSpan span = join(start, last_span());
  if (at_operator("->")) {
    refuse_not_yet(source_, peek().span, "annotations", "leave the annotation out");
  }
  const std::string outer = std::exchange(path_, function->path + ".");
  const int loops = std::exchange(loops_, 0);
  function->body = block("the parameters");
  loops_ = loops;
  path_ = outer;
  find_names(*function);
  return {span, ast::Def{std::move(function)}};
}

// "torch.autograd.Function".
std::string Parser::dotted_name() {
  std::string name = expect_name("a name", kWriteClass);
  while (accept_operator(".")) name += "." + expect_name("a name", kWriteClass);
  return name;
}

ast::Statement Parser::class_statement() {
  const Token& keyword = next();
  ast::Class node;
  const Token& name = peek();
  node.name = expect_name("the name of the class", kWriteClass);
  node.path = path_ + node.name;
  std::string base;
  if (accept_operator("(")) {
    if (!at_operator(")")) base = dotted_name();
    expect_operator(")", "one base class", kWriteClass);
  }
  constexpr std::string_view kBases[] = {"torch.autograd.Function", "autograd.Function",
                                         "Function"};
  if (std::ranges::count(kBases, base) == 0) {
    refuse_at(keyword,
              fmt::format("'class' is not part of the language, but for autograd: {} is "
                          "no torch.autograd.Function",
                          name.text),
              kWriteClass);
  }
  const SourceSpan span = join(keyword.span, last_span());
  expect_operator(":", "the class", kWriteClass);
  if (accept_keyword("pass")) {
    next();
    return {span, std::move(node)};
  }
  if (peek().kind != TokenKind::kNewline) unexpected("the end of the line", kWriteClass);
  next();
  if (peek().kind != TokenKind::kIndent) {
    refuse_at(peek(), "expected an indented block after the class", "indent it, or write pass");
  }
  next();
  const std::string outer = std::exchange(path_, node.path + ".");
  while (peek().kind != TokenKind::kDedent && peek().kind != TokenKind::kEnd) {
    const SourceSpan start = peek().span;
    const bool text = peek().kind == TokenKind::kString;
    if (text || at_keyword("pass")) {
      next();
      if (peek().kind != TokenKind::kNewline) unexpected("the end of the line", kWriteClass);
      next();
      continue;
    }
    ast::Def def = static_def();
    node.body.push_back({start, std::move(def)});
  }
  if (peek().kind == TokenKind::kDedent) next();
  path_ = outer;
  return {span, std::move(node)};
}

ast::Def Parser::static_def() {
  const Token& first = peek();
  bool is_static = false, once = false;
  while (accept_operator("@")) {
    const Token& decorator = peek();
    const std::string name = dotted_name();
    const bool is_once = name == "once_differentiable" || name.ends_with(".once_differentiable");
    if (name != "staticmethod" && !is_once) {
      refuse_at(decorator, fmt::format("the decorator '{}' is not part of the language", name),
                "methods are decorated by @staticmethod, and backward by @once_differentiable");
    }
    (is_once ? once : is_static) = true;
    if (peek().kind != TokenKind::kNewline) unexpected("the end of the line", kWriteClass);
    next();
  }
  if (!at_keyword("def") || !is_static) {
    refuse_at(first, "a torch.autograd.Function has static methods and nothing else",
              "write @staticmethod above def forward(ctx, ...) and def backward(ctx, ...)");
  }
  ast::Def def = std::get<ast::Def>(def_statement().node);
  def.is_static = true;
  def.once_differentiable = once;
  return def;
}

std::vector<ast::Parameter> Parser::parameters() {
  expect_operator("(", "the name of the function", kWriteDef);
  std::vector<ast::Parameter> out;
  while (!at_operator(")")) {
    const Token& token = peek();
    if (at_operator("*") || at_operator("**") || at_operator("/")) {
      refuse_not_yet(source_, token.span, fmt::format("'{}' among parameters", token.text),
                     "name the parameters one by one");
    }
    ast::Parameter parameter{expect_name("the name of a parameter", kWriteDef), nullptr,
                             token.span};
    if (at_operator(":")) {
      refuse_not_yet(source_, peek().span, "annotations", "leave the annotation out");
    }
    const bool twice = std::any_of(out.begin(), out.end(), [&](const ast::Parameter& other) {
      return other.name == parameter.name;
    });
    if (twice) {
      refuse_at(token, fmt::format("two parameters are called '{}'", parameter.name),
                "give each parameter a name of its own");
    }
    if (accept_operator("=")) {
      parameter.default_value = expression();
    } else if (!out.empty() && out.back().default_value) {
      refuse_at(token, "a parameter without a default after one with", "give it a default, too");
    }
    out.push_back(std::move(parameter));
    if (!accept_operator(",")) break;
  }
  expect_operator(")", "the parameters", kWriteDef);
  return out;
}

namespace {

// Python reads UTF-8 without zero bytes; a string could carry anything else past the lexer.
void check_characters(const SourceText& source) {
  const std::string_view text = source.text();
  const auto byte = [&](std::size_t i) { return i < text.size() ? text[i] & 0xFF : 0; };
  for (std::size_t i = 0; i < text.size();) {
    const int lead = byte(i);
    const std::size_t size = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    bool good = lead != 0 && (lead < 0x80 || (lead >= 0xC2 && lead <= 0xF4));
    for (std::size_t next = 1; next < size; ++next) good = good && byte(i + next) >> 6 == 2;
    const int second = byte(i + 1);
    // Longer than need be, a surrogate, beyond the last character.
    good = good && !(lead == 0xE0 && second < 0xA0) && !(lead == 0xED && second > 0x9F) &&
           !(lead == 0xF0 && second < 0x90) && !(lead == 0xF4 && second > 0x8F);
    if (!good) {
      const auto at = static_cast<std::uint32_t>(i);
      refuse(source, {at, at + 1}, "this byte is not part of a UTF-8 character",
             "save the file as UTF-8");
    }
    i += size;
  }
}

}  // namespace

ast::Program parse_program(SourcePtr source) {
  check_characters(*source);
  const SourceSpan all{0, static_cast<std::uint32_t>(source->text().size())};
  ast::Block body = Parser(*source, tokenize(*source, all, LexMode::kProgram)).program();
  return {std::move(source), std::move(body)};
}

}  // namespace shardlab
