#include "sim/language/syntax/parser.h"
#include "sim/language/syntax/ast_walk.h"

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

using namespace shardlab;

namespace {

// python_subset.py gives the same list to Python 3.
constexpr std::string_view kSnippets =
#include "python_snippets.inc"
    ;

std::vector<std::string> cut(std::string_view text, std::string_view separator) {
  std::vector<std::string> out;
  while (true) {
    const std::size_t end = text.find(separator);
    out.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return out;
    text.remove_prefix(end + separator.size());
  }
}

constexpr const char* kWriteClass =
    "write defs, and keep what they share in a dict; a gradient of one's own is a class "
    "F(torch.autograd.Function) of static methods, called as F.apply(x)";

struct FaultRow {
  const char* program;
  const char* says;
  const char* at;
  const char* fix;
};
constexpr FaultRow kFaults[] = {
    {"x = ", "expected an expression, found the end of the line", ":1:5",
     "write a value, a name or a call here"},
    {"x = 1 2", "expected the end of the line, found a number", ":1:7",
     "write each statement on a line of its own"},
    {"x = 'abc", "this string is never closed", ":1:5", "add '"},
    {"x = \"\"\"abc", "this string is never closed", ":1:5", "add \"\"\""},
    {"x = 'a\\qb'", "this escape does not exist", ":1:7", "write \\\\ for a backslash"},
    {"x = '\\ud800'", "needs 4 hexadecimal digits", ":1:6", "write the character itself"},
    {"x = '\\x4'", "needs 2 hexadecimal digits", ":1:6", "write the character itself"},
    {"x = '\xa0'", "this byte is not part of a UTF-8 character", ":1:6", "save the file as UTF-8"},
    {"x = '\xed\xa0\x80'", "this byte is not part of a UTF-8 character", ":1:6",
     "save the file as UTF-8"},
    {"x = b'a'", "strings with the prefix 'b'", ":1:5", "use no prefix, r or f"},
    {"x = 1)", "')' closes nothing", ":1:6", "remove it, or open it before"},
    {"x = (1]", "']' does not close '(' of line 1", ":1:7", "write ')'"},
    {"  x = 1", "an indented line without a block", ":1:3", "remove the indentation"},
    {"if x:\ny = 1", "expected an indented block after the condition", ":2:1",
     "indent it, or write pass"},
    {"if x:\n    y = 1\n  z = 2", "this indentation matches no outer block", ":3:3",
     "align it with the block it belongs to"},
    {"if x:\n\ty = 1", "a tab in the indentation", ":2:1", "indent with spaces"},
    {"x =\u00a01", "a no-break space", ":1:4", "write a space"},
    {"if x:\n\u00a0\u00a0y = 1", "a no-break space", ":2:1", "write a space"},
    {"x\u00a0= 1", "a no-break space", ":1:2", "write a space"},
    {"print(\u201chi\u201d)", "a curly quote", ":1:7", "write ' or \""},
    {"x = y \u2212 1", "a typographic minus", ":1:7", "write -"},
    {"x = a.split\r(0)", "a carriage return without a newline", ":1:12",
     "end each line with a newline"},
    {"x = 1  # one\ry = 2\r\n", "a carriage return without a newline", ":1:13",
     "end each line with a newline"},
    {"for x of y:\n  pass", "expected 'in' after the names of the loop, found 'of'", ":1:7",
     "write it as for x in items:"},
    {"for 1 in y:\n  pass", "this cannot be assigned to", ":1:5", "assign to a name"},
    {"f(x) = 1", "this cannot be assigned to", ":1:1", "assign to a name"},
    {"a, b += 1", "this cannot be assigned to", ":1:1", "assign to a name"},
    {"x = 012", "a whole number does not start with 0", ":1:5",
     "leave the zeros out, or write 0o for octal"},
    {"x = 12ab", "this is not a number", ":1:5", "put a blank or an operator between"},
    {"x = 1__0", "this is not a number", ":1:5", "put a blank or an operator between"},
    {"x = 0b12", "this base does not have that digit", ":1:5",
     "0x takes 0-9 and a-f, 0o takes 0-7, 0b takes 0 and 1"},
    {"x = 9223372036854775808", "does not fit into 64 bits", ":1:5",
     "use numbers below 2^63, or a float: 1e20"},
    {"x = 2j", "not yet supported: complex numbers", ":1:5",
     "keep the real and the imaginary part in two tensors"},
    {"f(a=1, 2)", "a positional argument after a named one", ":1:8",
     "put it before the named ones, or name it"},
    {"f(a=1, a=2)", "'a' is given twice", ":1:8", "leave one of them out"},
    {"f(**d, 1)", "a positional argument after a named one", ":1:8",
     "put it before the named ones, or name it"},
    {"def f(a, a): pass", "two parameters are called 'a'", ":1:10",
     "give each parameter a name of its own"},
    {"def f(a=1, b): pass", "a parameter without a default after one with", ":1:12",
     "give it a default, too"},
    {"def f(**a, b): pass", "a parameter after the one with '**'", ":1:12",
     "write it before that one"},
    {"nonlocal x", "'nonlocal' is not in a def", ":1:10", "assign to the name: it is bound here"},
    {"x = *a", "a value with a star is not in a list or a tuple", ":1:5",
     "write [*a], or *a, with a comma"},
    {"*a, *b = c", "two targets have a star", ":1:1", "leave one of them out"},
    {"f(a for a in b, 1)", "a generator is not the only argument", ":1:15",
     "write it in brackets: f([g(x) for x in items], y)"},
    {"x := 1", "':=' is a statement of its own", ":1:1", "write name = value"},
    {"f(x.y := 1)", "':=' binds a name alone", ":1:3", "write it as (n := value)"},
    {"with (f(), g()): pass", "'with' is followed by a parenthesis", ":1:6",
     "write it without: with no_grad():, or with a as b, c as d:"},
    {"with f() as 1: pass", "this cannot be assigned to", ":1:13", "assign to a name"},
    {"with f()", "expected ':' after the context", ":1:9",
     "end the head of the block with ':', and indent what follows"},
    {"return 1", "'return' is outside of a def", ":1:1", "assign the value to a name"},
    {"break", "'break' is outside of a loop", ":1:1", "move it into a for or while"},
    {"for i in x:\n  def f():\n    break", "'break' is outside of a loop", ":3:5",
     "move it into a for or while"},
    {"import numpy", "the module 'numpy' is not part of the language", ":1:8",
     "leave the line out: torch, F, dist, math and all ops are there without it"},
    {"import torch as t", "'torch' has no other name in a program", ":1:17",
     "write torch in place of t"},
    {"from torch import nn as n", "'torch.nn' has no other name in a program", ":1:25",
     "write nn in place of n"},
    {"@cached\ndef f(): pass", "the decorator 'cached' is not part of the language", ":1:2",
     "a def is decorated by @torch.no_grad(); call what else it does around it"},
    {"raise", "expected an error, found the end of the line", ":1:6",
     "write it as raise ValueError(\"text\")"},
    {"del x.y", "'del' of what is no name and no item", ":1:5", "write del d[key]"},
    {"del x, y[0]", "'del' of a name and of an item", ":1:1", "write a line for each"},
    {"class A: pass",
     "'class' is not part of the language, but for autograd: A is no torch.autograd.Function",
     ":1:1", kWriteClass},
    {"class A(nn.Module):\n  pass",
     "'class' is not part of the language, but for autograd: A is no torch.autograd.Function",
     ":1:1", kWriteClass},
    {"class A(torch.autograd.Function):\n  def forward(ctx, x):\n    return x",
     "a torch.autograd.Function has static methods and nothing else", ":2:3",
     "write @staticmethod above def forward(ctx, ...) and def backward(ctx, ...)"},
    {"class A(torch.autograd.Function):\n  scale = 2",
     "a torch.autograd.Function has static methods and nothing else", ":2:3",
     "write @staticmethod above def forward(ctx, ...) and def backward(ctx, ...)"},
    {"class A(torch.autograd.Function):\n  @classmethod\n  def forward(ctx, x):\n    return x",
     "the decorator 'classmethod' is not part of the language", ":2:4",
     "methods are decorated by @staticmethod, and backward by @once_differentiable"},
    {"class A(torch.autograd.Function):\nx = 1", "expected an indented block after the class",
     ":2:1", "indent it, or write pass"},
    {"try:\n  a()", "expected 'except' or 'finally' after 'try', found the end of the text", ":2:6",
     "write it as try: ... except ValueError as error: ..."},
    {"except:\n  a()", "'except' is not part of the language", ":1:1",
     "programs have assignments, calls, if, for, while, def, with, assert, raise, try and return"},
    {"x = 1 = b", "this cannot be assigned to", ":1:5", "assign to a name"},
    {"x = y += b", "expected the end of the line, found '+='", ":1:7",
     "write each statement on a line of its own"},
    {"{a: 1, b: 2 for b in c}", "expected '}' after the entries of the dict", ":1:13",
     "separate entries with commas: {a: 1, b: 2}"},
    {"a, b: int = 1, 2", "only one target can have an annotation", ":1:1",
     "leave the annotation out"},
    {"1: int = 1", "this cannot be assigned to", ":1:1", "assign to a name"},
    {"x[]", "expected an index, found ']'", ":1:3", "write it as x[0], x[1:3] or x[:, 0]"},
    {"x.1", "expected the end of the line, found a number", ":1:2",
     "write each statement on a line of its own"},
    {"x.", "expected a name after '.', found the end of the line", ":1:3",
     "name an attribute or a method: x.shape"},
    {"x ? y", "'?' means nothing here", ":1:3", "remove it, or write it inside a string"},
    {"x = é", "this character means nothing outside of strings", ":1:5",
     "remove it, or write it inside a string"},
    {"xé = 1", "not an ASCII letter", ":1:2", "write the name with a-z, A-Z, 0-9 and _"},
    {"f'{x'", "'{' is never closed", ":1:3", "add '}'"},
    {"f'{}'", "expected an expression, found the end of the text", ":1:4",
     "write a value, a name or a call here"},
    {"f'x}'", "'}' opens nothing", ":1:4", "write }} for a brace"},
    {"f'{x!z}'", "this conversion does not exist", ":1:5", "write !r, !s or none"},
    {"f'{x:{y}'", "this field is never closed", ":1:3", "add '}'"},
    {"f'ab {x +}'", "expected an expression", ":1:10", "write a value, a name or a call here"},
    {"while x:\n  pass\nelse:\npass", "expected an indented block after 'else'", ":4:1",
     "indent it, or write pass"},
    {"x = [lambda: y for y in z]", "not yet supported: a lambda inside of a comprehension", ":1:6",
     "write a for loop"},
    {"if x: if y: pass", "expected a simple statement", ":1:7",
     "indent the inner block on lines of its own"},
    {"f(a, y for y in z)", "expected ')' after the arguments", ":1:8",
     "separate arguments with commas: f(a, b)"},
    {"else: pass", "expected an expression, found 'else'", ":1:1",
     "write a value, a name or a call here"},
};

SourcePtr source_of(std::string text) {
  return std::make_shared<const SourceText>("t.toml", std::move(text));
}

// The whole report of a program's mistakes; "" if it has none.
std::string report_of(std::string text) {
  try {
    parse_program(source_of(std::move(text)));
    return "";
  } catch (const ScenarioError& error) {
    return error.report();
  }
}

std::string print_of(std::string text) {
  return print(parse_program(source_of(std::move(text))).body);
}

std::string repeat(std::string_view text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += text;
  return out;
}

}  // namespace

TEST_CASE("B-63 programs parse to the tree that Python gives them") {
  const auto snippets = cut(kSnippets.substr(1), "----\n");
  CHECK(snippets.size() >= 40);
  for (const std::string& snippet : snippets) {
    CAPTURE(snippet);
    const auto halves = cut(snippet, "=>\n");
    REQUIRE(halves.size() == 2);
    if (halves[1] == "refused\n") {
      CHECK(report_of(halves[0]) != "");
      continue;
    }
    std::string printed;
    REQUIRE_NOTHROW(printed = print_of(halves[0]));
    CHECK(printed == print_of(halves[1]));
    CHECK(print_of(printed) == printed);
  }
}

TEST_CASE("B-63 a class of static methods is printed as it is read") {
  const std::string text =
      "class F(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x, n=2):\n"
      "        ctx.n = n\n        return x\n    @staticmethod\n    @once_differentiable\n"
      "    def backward(ctx, g):\n        return (g, None)\n";
  CHECK(print_of(text) == text);
  CHECK(print_of("class F(autograd.Function):\n  'what it does'\n  pass\n") ==
        "class F(torch.autograd.Function):\n");
}

TEST_CASE("B-63 printed expressions have all their parentheses") {
  CHECK(print_of("a+b*c") == "(a + (b * c))\n");
  CHECK(print_of("-a**-b**c") == "(-(a ** (-(b ** c))))\n");
  CHECK(print_of("a@b@c*2") == "(((a @ b) @ c) * 2)\n");
  CHECK(print_of("x[:, 1:3, None, ...]") == "x[:, 1:3, None, ...]\n");
  CHECK(print_of("a if b else c if d else e") == "(a if b else (c if d else e))\n");
  CHECK(print_of("not a == b and c or d") == "(((not (a == b)) and c) or d)\n");
}

TEST_CASE("B-63 an error shows the place, the line and a caret") {
  CHECK(report_of("y = 1\nx = gelu(x @ w\nz = 2\n") ==
        "error: '(' is never closed\n"
        "  at          t.toml:2:9\n"
        "      2 | x = gelu(x @ w\n"
        "        |         ^\n"
        "  fix         add ')'");
  CHECK(report_of("x = (1\n 2)\n") ==
        "error: expected ')' after the expression, found a number\n"
        "  at          t.toml:2:2\n"
        "      2 |  2)\n"
        "        |  ^\n"
        "  fix         join values with operators, or separate them with commas");
  // The caret counts characters, not bytes, and a tab is as wide as a blank.
  CHECK(report_of("s = 'é'\t$\n") ==
        "error: '$' means nothing here\n"
        "  at          t.toml:1:9\n"
        "      1 | s = 'é' $\n"
        "        |         ^\n"
        "  fix         remove it, or write it inside a string");
}

TEST_CASE("B-63 each syntax error has its own message") {
  for (const FaultRow& row : kFaults) {
    CAPTURE(std::string(row.program));
    const std::string report = report_of(row.program);
    CAPTURE(report);
    CHECK(report.find(row.says) != std::string::npos);
    CHECK(report.find(std::string("t.toml") + row.at + "\n") != std::string::npos);
    CHECK(report.substr(report.rfind('\n') + 1) == std::string("  fix         ") + row.fix);
  }
}

TEST_CASE("B-63 the deepest trees that are read can be printed and read again") {
  const std::pair<std::string_view, std::string_view> kLevels[] = {
      {"-", ""},   {"+(", ")"}, {"not ", ""},         {"1 + -(", ")"}, {"2 ** ", ""},
      {"f(", ")"}, {"[", "]"},  {"1 if y else ", ""}, {"a[", "]"},     {"not (", " < 1)"}};
  for (const auto& row : kLevels) {
    const auto& before = row.first;
    const auto& after = row.second;
    CAPTURE(before);
    int accepted = 0;
    for (int levels = 1; levels <= 220; ++levels) {
      const std::string text = repeat(before, levels) + "x" + repeat(after, levels) + "\n";
      if (report_of(text) != "") continue;
      CHECK(report_of(print_of(text)) == "");
      accepted = levels;
    }
    CHECK(accepted >= 98);
    CHECK(accepted <= 200);
  }
}

TEST_CASE("B-63 hostile nesting is refused before it can overflow the stack") {
  for (const int times : {300, 100000}) {
    CHECK(report_of("x = " + repeat("(", times) + "1" + repeat(")", times)) != "");
    CHECK(report_of("x = " + repeat("[", times)) != "");
    CHECK(report_of("x = " + repeat("-", times) + "1") != "");
    CHECK(report_of("x = " + repeat("not ", times) + "1") != "");
    CHECK(report_of("x = 1" + repeat("+1", times)) != "");
    CHECK(report_of("x = 2" + repeat("**2", times)) != "");
    CHECK(report_of("x = y" + repeat(".a", times)) != "");
    CHECK(report_of("x = y" + repeat("[0]", times)) != "");
    CHECK(report_of("x = " + repeat("1 if y else ", times) + "1") != "");
  }
  std::string blocks;
  for (int i = 0; i < 150; ++i) blocks += std::string(static_cast<std::size_t>(i), ' ') + "if x:\n";
  CHECK(report_of(blocks).find("blocks are nested deeper than 100") != std::string::npos);
  // Long but flat is fine.
  CHECK(report_of("x = [" + repeat("1, ", 10000) + "]") == "");
  CHECK(report_of(repeat("x = 1\n", 10000)) == "");
  CHECK(report_of("x = y" + repeat(" and y", 10000)) == "");
}

TEST_CASE("B-63 an expression begins and ends with the brackets of its parts") {
  for (const char* text :
       {"(a + b).sum()", "(a)(b)", "(a)[0]", "(a) * (b)", "(a) ** (b)", "(a) == (b)", "(a) or (b)",
        "(a) and (b)", "(a) if b else (c)", "-(a)", "not (a)", "((a) + b).x + (c)"}) {
    CAPTURE(text);
    const SourcePtr source = source_of("x = " + std::string(text) + "\n");
    const ast::Program program = parse_program(source);
    const auto& assign = std::get<ast::Assign>(program.body.at(0).node);
    CHECK(source->text(assign.value->span) == text);
  }
}

TEST_CASE("B-63 spans of nested nodes point to their text") {
  const SourcePtr source = source_of("y = f(a, dim=g(b)) + c\n");
  const ast::Program program = parse_program(source);
  const auto& assign = std::get<ast::Assign>(program.body.at(0).node);
  const auto& sum = std::get<ast::Binary>(assign.value->node);
  CHECK(source->text(assign.value->span) == "f(a, dim=g(b)) + c");
  CHECK(source->text(sum.left->span) == "f(a, dim=g(b))");
  const auto& call = std::get<ast::Call>(sum.left->node);
  CHECK(source->text(call.arguments.at(1).span) == "dim=g(b)");
  CHECK(source->text(call.arguments.at(1).value->span) == "g(b)");
}

TEST_CASE("B-63 bound_names: assignments, loops and defs, not those inside of functions") {
  const ast::Program program = parse_program(
      source_of("a, (b, [c]) = x\nfor i in y:\n  if z:\n    d += 1\n  else:\n    e = 2\n"
                "def f(p):\n  q = 1\nw[0] = 3\n"));
  CHECK(ast::bound_names(program.body) ==
        std::vector<std::string>{"a", "b", "c", "d", "e", "f", "i"});
  const auto& def = std::get<ast::Def>(program.body.at(2).node);
  CHECK(def.function->locals == std::vector<std::string>{"p", "q"});
}

TEST_CASE(
    "B-63 names of a def: its own, those it reads from around, and those it shares with defs "
    "inside") {
  const ast::Program program = parse_program(
      source_of("def f(a, b):\n  with c as d:\n    def g(e=a):\n      return b + d + e + h\n"
                "  return g\n"));
  const ast::Function& f = *std::get<ast::Def>(program.body.at(0).node).function;
  using Names = std::vector<std::string>;
  CHECK(f.locals == Names{"a", "b", "d", "g"});
  CHECK(f.shared == Names{"b", "d"});
  CHECK(f.free == Names{"c", "h"});
  const auto& with = std::get<ast::With>(f.body.at(0).node);
  const ast::Function& g = *std::get<ast::Def>(with.body.at(0).node).function;
  CHECK(g.path == "f.g");
  CHECK(g.locals == Names{"e"});
  CHECK(g.free == Names{"b", "d", "h"});
}
