// Statements, one function per kind. Python that this language does not have is named in the error,
// with the text to write instead. The text must be UTF-8: the lexer looks at bytes.
#include <algorithm>
#include <array>
#include <set>

#include "base/value_scope.h"
#include "sim/language/syntax/ast_walk.h"
#include "sim/language/syntax/parser.h"
#include "sim/language/syntax/parser_state.h"

namespace shardlab {

using ast::ExpressionPtr;

namespace {

constexpr std::string_view kWriteDef = "write it as def f(a, b=1):";

constexpr std::array<std::string_view, 5> kOutside = {"yield", "async", "await", "except",
                                                      "finally"};

/// Modules whose import is left out: their names are defined, or are refused at their use.
constexpr std::string_view kImported[] = {"__future__", "dataclasses", "functools", "math",
                                          "os",         "spmd_types",  "torch",     "typing"};
/// The other names that a program has for a module.
struct AliasRow {
  std::string_view module, alias;
};
constexpr AliasRow kAliases[] = {
    {"spmd_types", "spmd"},
    {"torch.distributed", "dist"},
    {"torch.distributed._functional_collectives", "funcol"},
    {"torch.distributed.distributed_c10d", "dist"},
    {"torch.nn.functional", "F"},
};
/// Decorators of a def that are contexts of its body.
constexpr std::string_view kContexts[] = {"enable_grad", "inference_mode", "no_grad",
                                          "no_typecheck"};

constexpr const char* kWriteClass =
    "write defs, and keep what they share in a dict; a gradient of one's own is a class "
    "F(torch.autograd.Function) of static methods, called as F.apply(x)";

constexpr const char* kStatements =
    "programs have assignments, calls, if, for, while, def, with, assert, raise, try and return";

constexpr const char* kWriteTry = "write it as try: ... except ValueError as error: ...";

}  // namespace

ast::Block Parser::program() {
  ast::Block body;
  while (peek().kind != TokenKind::kEnd) line(body);
  return body;
}

namespace {

constexpr std::string_view kCompound[] = {"if", "for", "while", "def", "class", "with", "try"};

// Before the statement that has the lambdas.
void append(ast::Block& out, ast::Block& hoisted, ast::Statement statement) {
  std::ranges::move(hoisted, std::back_inserter(out));
  hoisted.clear();
  out.push_back(std::move(statement));
}

}  // namespace

ast::Statement Parser::compound() {
  if (at_operator("@")) return decorated_def();
  if (at_keyword("if")) return if_statement();
  if (at_keyword("for")) return for_statement();
  if (at_keyword("while")) return while_statement();
  if (at_keyword("def")) return def_statement();
  if (at_keyword("class")) return class_statement();
  if (at_keyword("try")) return try_statement();
  return with_statement();
}

// One line: a compound statement, or simple statements separated by ';'.
void Parser::line(ast::Block& out) {
  if (peek().kind == TokenKind::kIndent) {
    refuse_at(peek(), "an indented line without a block", "remove the indentation");
  }
  const auto at = [this](std::string_view word) { return at_keyword(word); };
  if (at_operator("@") || std::ranges::any_of(kCompound, at)) {
    return append(out, hoisted_, compound());
  }
  while (true) {
    append(out, hoisted_, simple());
    if (!accept_operator(";")) break;
    if (peek().kind == TokenKind::kNewline) break;
  }
  end_line("write each statement on a line of its own");
}

void Parser::end_line(std::string_view fix) {
  if (peek().kind != TokenKind::kNewline) unexpected("the end of the line", fix);
  next();
}

ast::Statement Parser::simple() {
  const Token& token = peek();
  const SourceSpan start = token.span;
  if (token.kind != TokenKind::kKeyword) return expression_or_assignment();
  if (accept_keyword("pass")) return {start, ast::Pass{}};
  if (at_keyword("break") || at_keyword("continue")) {
    if (loops_ == 0) {
      refuse_at(token, fmt::format("'{}' is outside of a loop", token.text),
                "move it into a for or while");
    }
    if (accept_keyword("break")) return {start, ast::Break{}};
    next();
    return {start, ast::Continue{}};
  }
  if (at_keyword("return")) {
    if (path_.empty()) {
      refuse_at(token, "'return' is outside of a def", "assign the value to a name");
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
  if (at_keyword("nonlocal") || at_keyword("global")) return outer_names_statement();
  if (at_keyword("import") || at_keyword("from")) return import_statement();
  if (at_keyword("raise")) return raise_statement();
  if (at_keyword("del")) return del_statement();
  if (std::ranges::find(kOutside, token.text) != kOutside.end()) {
    refuse_at(token, fmt::format("'{}' is not part of the language", token.text), kStatements);
  }
  return expression_or_assignment();
}

ast::Statement Parser::expression_or_assignment() {
  const SourceSpan start = peek().span;
  ExpressionPtr target = expression_list();
  const auto span = [&] { return join(start, last_span()); };
  if (accept_operator("=")) {
    // f = lambda x: ... is def f(x): ...
    const auto* named = target->get<ast::Name>();
    if (named != nullptr && at_keyword("lambda")) lambda_name_ = named->id;
    ast::Assign assign;
    do {
      check_target(*target);
      assign.targets.push_back(std::move(target));
      target = expression_list();
    } while (accept_operator("="));
    assign.value = std::move(target);
    return {span(), std::move(assign)};
  }
  for (int i = 0; i <= static_cast<int>(ast::BinaryOp::kRight); ++i) {
    const auto op = static_cast<ast::BinaryOp>(i);
    if (!at_operator(fmt::format("{}=", to_string(op)))) continue;
    const bool several = target->is<ast::Tuple, ast::List>();
    if (several) refuse(source_, target->span, "this cannot be assigned to", "assign to a name");
    check_target(*target);
    next();
    ExpressionPtr value = expression_list();
    return {span(), ast::AugmentedAssign{std::move(target), op, std::move(value)}};
  }
  if (at_operator(":")) {
    check_target(*target);
    if (target->is<ast::Tuple, ast::List>()) {
      refuse(source_, target->span, "only one target can have an annotation",
             "leave the annotation out");
    }
    skip_annotation(":");
    if (!accept_operator("=")) return {span(), ast::Pass{}};
    ast::Assign assign;
    assign.targets.push_back(std::move(target));
    assign.value = expression_list();
    return {span(), std::move(assign)};
  }
  return {span(), ast::ExpressionStatement{std::move(target)}};
}

// A type after `mark`, if there is one: its names have no meaning here.
void Parser::skip_annotation(std::string_view mark) {
  if (accept_operator(mark)) expression();
}

// "import torch.nn.functional as F" binds nothing: the names are there.
ast::Statement Parser::import_statement() {
  constexpr const char* kLeaveOut =
      "leave the line out: torch, F, dist, math and all ops are there without it";
  const SourceSpan start = peek().span;
  const bool from = next().text == "from";
  do {
    const Token& first = peek();
    const std::string module = dotted_name();
    const std::string_view root = std::string_view(module).substr(0, module.find('.'));
    if (std::ranges::count(kImported, root) == 0) {
      refuse_at(first, fmt::format("the module '{}' is not part of the language", module),
                kLeaveOut);
    }
    const auto check_alias = [&](const std::string& whole, const std::string& last) {
      if (!accept_keyword("as")) return;
      const Token& alias = peek();
      const std::string name = expect_name("the other name", kLeaveOut);
      const bool known = name == last || std::ranges::any_of(kAliases, [&](const AliasRow& row) {
                           return row.module == whole && row.alias == name;
                         });
      if (known) return;
      refuse_at(alias, fmt::format("'{}' has no other name in a program", whole),
                fmt::format("write {} in place of {}", last, name));
    };
    if (!from) {
      check_alias(module, module.substr(module.rfind('.') + 1));
      continue;
    }
    if (!accept_keyword("import")) unexpected("'import' after the module", kLeaveOut);
    if (accept_operator("*")) break;
    const bool grouped = accept_operator("(");
    do {
      if (grouped && at_operator(")")) break;
      const std::string name = expect_name("a name", kLeaveOut);
      check_alias(module + "." + name, name);
    } while (accept_operator(","));
    if (grouped) expect_operator(")", "the names", kLeaveOut);
    break;
  } while (accept_operator(","));
  return {join(start, last_span()), ast::Pass{}};
}

// "nonlocal a, b": the def binds names of those around it.
ast::Statement Parser::outer_names_statement() {
  const SourceSpan start = peek().span;
  ast::OuterNames node{next().text == "global", {}};
  do {
    const Token& token = peek();
    const std::string name = expect_name("a name", "write it as nonlocal count");
    if (path_.empty() && !node.global) {
      refuse_at(token, "'nonlocal' is not in a def", "assign to the name: it is bound here");
    }
    if (!path_.empty()) (node.global ? globals_ : nonlocals_).push_back(name);
    node.names.push_back(name);
  } while (accept_operator(","));
  return {join(start, last_span()), std::move(node)};
}

// After except: nothing, one name, or several in parentheses.
std::vector<std::string> Parser::error_kinds() {
  std::vector<std::string> kinds;
  if (at_operator(":")) return kinds;
  const bool several = accept_operator("(");
  do {
    if (several && at_operator(")")) break;
    kinds.push_back(dotted_name());
  } while (several && accept_operator(","));
  if (several) expect_operator(")", "the errors", kWriteTry);
  return kinds;
}

ast::Statement Parser::try_statement() {
  const SourceSpan start = next().span;
  ast::Try node;
  node.body = block("'try'");
  while (accept_keyword("except")) {
    ast::Try::Handler handler;
    handler.kinds = error_kinds();
    if (accept_keyword("as")) handler.name = expect_name("a name for the error", kWriteTry);
    handler.body = block("'except'");
    node.handlers.push_back(std::move(handler));
  }
  if (!node.handlers.empty() && accept_keyword("else")) node.otherwise = block("'else'");
  const bool last = accept_keyword("finally");
  if (last) node.last = block("'finally'");
  if (node.handlers.empty() && !last) unexpected("'except' or 'finally' after 'try'", kWriteTry);
  return {start, std::move(node)};
}

// A name loses its value; reading it gives None, and in Python an error.
ast::Statement Parser::del_statement() {
  const SourceSpan start = next().span;
  ast::Assign names;
  ast::Delete items;
  do {
    ExpressionPtr target = postfix();
    const bool item = target->is<ast::Subscript>();
    if (!item && !target->is<ast::Name>()) {
      refuse(source_, target->span, "'del' of what is no name and no item", "write del d[key]");
    }
    (item ? items.items : names.targets).push_back(std::move(target));
  } while (accept_operator(","));
  const SourceSpan span = join(start, last_span());
  if (names.targets.empty()) return {span, std::move(items)};
  if (!items.items.empty()) {
    refuse(source_, span, "'del' of a name and of an item", "write a line for each");
  }
  names.value = make(span, ast::Constant{ast::None{}});
  return {span, std::move(names)};
}

// raise ValueError("text") ends the rank as assert False, "ValueError: text" does.
ast::Statement Parser::raise_statement() {
  constexpr const char* kWrite = "write it as raise ValueError(\"text\")";
  const SourceSpan start = next().span;
  if (peek().kind == TokenKind::kNewline) unexpected("an error", kWrite);
  const Token& error = peek();
  std::string name = dotted_name();
  ast::FormatString message;
  if (accept_operator("(")) {
    name += at_operator(")") ? "" : ": ";
    if (!at_operator(")")) message.parts.push_back({.text = name, .expression = expression()});
    expect_operator(")", "the text of the error", kWrite);
  }
  if (accept_keyword("from")) expression();
  const SourceSpan span = join(start, last_span());
  ExpressionPtr text;
  if (message.parts.empty()) {
    text = make(error.span, ast::Constant{std::move(name)});
  } else {
    text = make(span, std::move(message));
  }
  return {span, ast::Assert{make(start, ast::Constant{false}), std::move(text)}};
}

ast::Block Parser::block(std::string_view after) {
  expect_operator(":", after, "end the head of the block with ':', and indent what follows");
  ast::Block body;
  const ValueScope of_head(hoisted_, {});
  if (peek().kind != TokenKind::kNewline) {
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
  SourceSpan span = next().span;
  do {
    ast::If::Branch branch{named_expression(), {}};
    if (node.branches.empty()) span = join(span, last_span());
    branch.body = block("the condition");
    node.branches.push_back(std::move(branch));
  } while (accept_keyword("elif"));
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
  node.condition = named_expression();
  const SourceSpan span = join(start, last_span());
  ++loops_;
  node.body = block("the condition");
  --loops_;
  if (accept_keyword("else")) node.otherwise = block("'else'");
  return {span, std::move(node)};
}

// True when a list of contexts in parentheses follows. Brackets are known to match.
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
  if (const auto* name = expression.get<ast::Name>()) ids.insert(name->id);
  ast::for_each_part(expression, [&](const ast::Expression& part) { read_names(part, ids); });
}

// `inner`: names that defs in the block read from around them.
void read_names(const ast::Block& block, Ids& ids, Ids& inner) {
  for (const ast::Statement& statement : block) {
    const auto* def = statement.get<ast::Def>();
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
  for (const std::string& name : function.nonlocals) locals.erase(name);
  for (const std::string& name : function.globals) locals.erase(name);
  for (const auto& parameter : function.parameters) locals.insert(parameter.name);
  function.locals.assign(locals.begin(), locals.end());
  for (const auto& name : locals) function.first_letters |= ast::Function::first_letter(name);
  Ids ids, inner;
  read_names(function.body, ids, inner);
  for (const std::string& name : inner) {
    if (locals.contains(name)) function.shared.push_back(name);
  }
  ids.merge(inner);
  ids.insert(function.nonlocals.begin(), function.nonlocals.end());
  for (const std::string& name : function.globals) ids.erase(name);
  for (const std::string& name : ids) {
    if (!locals.contains(name)) function.free.push_back(name);
  }
}

}  // namespace

// A lambda is a def that is written before its statement: it sees the same names.
ExpressionPtr Parser::lambda_expression() {
  const SourceSpan start = next().span;
  auto function = std::make_shared<ast::Function>();
  function->name = std::exchange(lambda_name_, "");
  if (function->name.empty()) function->name = fmt::format("_lambda_{}", ++lambdas_);
  function->path = path_ + function->name;
  function->parameters = parameters_until(":");
  const ValueScope path(path_, function->path + ".");
  ast::Block of_statement = std::exchange(hoisted_, {});
  ExpressionPtr value = expression();
  const SourceSpan span = join(start, last_span());
  function->body = std::exchange(hoisted_, std::move(of_statement));
  function->body.push_back({span, ast::Return{std::move(value)}});
  find_names(*function);
  std::string name = function->name;
  hoisted_.push_back({start, ast::Def{std::move(function)}});
  return make(span, ast::Name{std::move(name)});
}

// @torch.no_grad() above a def: its body runs in the context. Below @spmd.local_map(...) the def is
// followed by f = spmd.local_map(...)(f).
ast::Statement Parser::decorated_def() {
  std::vector<ast::With::Item> around;
  std::vector<ExpressionPtr> typed;
  while (accept_operator("@")) {
    const Token& first = peek();
    ExpressionPtr context = postfix();
    const auto* call = context->get<ast::Call>();
    const std::string called = ast::print(call != nullptr ? *call->function : *context);
    const std::string_view last = std::string_view(called).substr(called.rfind('.') + 1);
    const bool types = call != nullptr && !call->arguments.empty();
    if (last == "local_map" || (last == "no_typecheck" && types)) {
      typed.push_back(std::move(context));
      end_line(kWriteDef);
      continue;
    }
    if (std::ranges::count(kContexts, last) == 0) {
      refuse_at(first, fmt::format("the decorator '{}' is not part of the language", called),
                "a def is decorated by @torch.no_grad(); call what else it does around it");
    }
    if (call == nullptr) {
      const SourceSpan span = context->span;
      context = make(span, ast::Call{std::move(context), {}});
    }
    around.push_back({std::move(context), nullptr});
    end_line(kWriteDef);
  }
  if (!at_keyword("def")) unexpected("a def after its decorators", kWriteDef);
  ast::Statement def = def_statement(std::move(around));
  if (typed.empty()) return def;
  const SourceSpan span = typed.front()->span;
  const std::string name = std::get<ast::Def>(def.node).function->name;
  hoisted_.push_back(std::move(def));
  ExpressionPtr value = make(span, ast::Name{name});
  for (; !typed.empty(); typed.pop_back()) {
    ast::Call wrapped{std::move(typed.back()), {}};
    wrapped.arguments.push_back({.value = std::move(value)});
    value = make(span, std::move(wrapped));
  }
  ast::Assign assign;
  assign.targets.push_back(make(span, ast::Name{name}));
  assign.value = std::move(value);
  return {span, std::move(assign)};
}

ast::Statement Parser::def_statement(std::vector<ast::With::Item> around) {
  const SourceSpan start = next().span;
  auto function = std::make_shared<ast::Function>();
  function->name = expect_name("the name of the function", kWriteDef);
  function->path = path_ + function->name;
  function->parameters = parameters();
  const SourceSpan span = join(start, last_span());
  skip_annotation("->");
  const ValueScope path(path_, function->path + ".");
  const ValueScope loops(loops_, 0);
  auto nonlocals = std::exchange(nonlocals_, {});
  auto globals = std::exchange(globals_, {});
  function->body = block("the parameters");
  function->nonlocals = std::exchange(nonlocals_, std::move(nonlocals));
  function->globals = std::exchange(globals_, std::move(globals));
  if (!around.empty()) {
    ast::With with{std::move(around), std::move(function->body)};
    function->body.clear();
    function->body.push_back({span, std::move(with)});
  }
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
  end_line(kWriteClass);
  if (peek().kind != TokenKind::kIndent) {
    refuse_at(peek(), "expected an indented block after the class", "indent it, or write pass");
  }
  next();
  const ValueScope path(path_, node.path + ".");
  while (peek().kind != TokenKind::kDedent && peek().kind != TokenKind::kEnd) {
    const SourceSpan start = peek().span;
    const bool text = peek().kind == TokenKind::kString;
    if (text || at_keyword("pass")) {
      next();
      end_line(kWriteClass);
      continue;
    }
    ast::Def def = static_def();
    node.body.push_back({start, std::move(def)});
  }
  if (peek().kind == TokenKind::kDedent) next();
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
    end_line(kWriteClass);
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
  return parameters_until(")");
}

// `named`: parameters that follow a star.
ast::Parameter Parser::parameter(std::string_view close, bool& named) {
  using Kind = ast::Parameter::Kind;
  Kind kind = named ? Kind::kNamed : Kind::kPlain;
  if (accept_operator("**")) kind = Kind::kKeywords;
  if (!named && accept_operator("*")) kind = Kind::kRest;
  named = named || kind == Kind::kRest;
  const SourceSpan span = peek().span;
  ast::Parameter out{expect_name("the name of a parameter", kWriteDef), nullptr, span, kind};
  if (close == ")") skip_annotation(":");
  return out;
}

std::vector<ast::Parameter> Parser::parameters_until(std::string_view close) {
  using Kind = ast::Parameter::Kind;
  std::vector<ast::Parameter> out;
  bool named = false;  // those that follow are given by name
  while (!at_operator(close)) {
    const Token& token = peek();
    const bool bare = (at_operator("*") || at_operator("/")) && peek(1).kind != TokenKind::kName;
    if (bare) {
      named = named || token.text == "*";
      next();
      if (!accept_operator(",")) break;
      continue;
    }
    if (!out.empty() && out.back().kind == Kind::kKeywords) {
      refuse_at(token, "a parameter after the one with '**'", "write it before that one");
    }
    ast::Parameter parameter = this->parameter(close, named);
    const bool twice = std::ranges::any_of(
        out, [&](const ast::Parameter& other) { return other.name == parameter.name; });
    if (twice) {
      refuse_at(token, fmt::format("two parameters are called '{}'", parameter.name),
                "give each parameter a name of its own");
    }
    if (accept_operator("=")) {
      parameter.default_value = expression();
    } else if (parameter.kind == Kind::kPlain && !out.empty() && out.back().default_value) {
      refuse_at(token, "a parameter without a default after one with", "give it a default, too");
    }
    out.push_back(std::move(parameter));
    if (!accept_operator(",")) break;
  }
  expect_operator(close, "the parameters", kWriteDef);
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
  ast::Block body = Parser(*source, tokens_of(*source)).program();
  return {std::move(source), std::move(body)};
}

}  // namespace shardlab
