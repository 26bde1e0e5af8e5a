// Edits of short programs, with the texts that each may become written by hand.
#include <doctest/doctest.h>

#include <set>

#include "sim/edit/line_edits.h"
#include "sim/edit/program_lines.h"
#include "sim/language/syntax/parser.h"

using namespace shardlab;

namespace {

ProgramLines lines(const std::string& text) { return lines_of(SourceText("t.py", text)); }

// `part` of the text gives way to the expression.
std::string put(std::string text, const std::string& part, const std::string& expression) {
  const auto begin = static_cast<std::uint32_t>(text.find(part));
  const auto end = begin + static_cast<std::uint32_t>(part.size());
  const TextEdit edit = put_expression(text, {begin, end}, expression);
  text.replace(edit.span.begin, edit.span.end - edit.span.begin, edit.text);
  return text;
}

std::set<std::string> smaller(const std::string& text) {
  const ProgramLines program = lines(text);
  std::set<std::string> all;
  for (const TextEdit& edit : smaller_parts(program)) all.insert(text_of(edited(program, edit)));
  return all;
}

}  // namespace

TEST_CASE("B-31 a line is a statement, however it was written") {
  const ProgramLines all = lines(
      "a = 1; b = 2  # two\n\nif a:\n    c = f(1,\n          2)\n    d = '''x\ny'''\nelse: e = "
      "3\n");
  CHECK(text_of(all) ==
        "a = 1\nb = 2\nif a:\n    c = f(1, 2)\n    d = '''x\ny'''\nelse:\n    e = 3\n");
  REQUIRE(all.size() == 7);
  CHECK(all[3].from == std::vector<int>{3});
  CHECK(block_end(all, 2) == 5);
  CHECK(statement_end(all, 2) == 7);
}

TEST_CASE("B-31 a header goes with the last statement of its block") {
  const ProgramLines all = lines("a = 1\nfor i in x:\n    if a:\n        b = 2\nc = 3\n");
  CHECK(text_of(without(all, 3, 4)) == "a = 1\nc = 3\n");
  CHECK(text_of(without(all, 0, 1)) == "for i in x:\n    if a:\n        b = 2\nc = 3\n");
}

TEST_CASE("B-31 an expression has brackets where it needs them") {
  CHECK(put("y = a * c", "a", "p + q") == "y = (p + q) * c");
  CHECK(put("y = a", "a", "p + q") == "y = p + q");
  CHECK(put("y = f(a, b)", "a", "p + q") == "y = f(p + q, b)");
  CHECK(put("y = (a + b) * c", "a + b", "d") == "y = d * c");
  CHECK(put("y = f(a + b)", "a + b", "d") == "y = f(d)");
  CHECK(put("y = a.t()", "a", "-b") == "y = (-b).t()");
}

TEST_CASE("B-31 calls and operators give way to what is inside of them") {
  CHECK(smaller("y = relu(a) + 3\n") ==
        std::set<std::string>{"y = relu(a)\n", "y = 3\n", "y = a + 3\n", "y = relu() + 3\n",
                              "y = relu(a) + 1\n", "y = relu(a) + 2\n"});
  CHECK(smaller("y = (a - b).sum(0)\n") ==
        std::set<std::string>{"y = a - b\n", "y = 0\n", "y = (a - b).sum()\n", "y = a.sum(0)\n",
                              "y = b.sum(0)\n"});
  CHECK(smaller("a, b = c, d\n") == std::set<std::string>{"a = c\n", "b = d\n"});
}

TEST_CASE("B-31 a name that is read once gives way to its value") {
  const std::vector<ProgramLines> found = folded(lines("a = x + 1\ny = a * 2\n"));
  REQUIRE(found.size() == 1);
  CHECK(text_of(found[0]) == "y = (x + 1) * 2\n");
  CHECK(found[0][0].from == std::vector<int>{1, 0});
  // Bound again, or long and read twice: it stays.
  CHECK(folded(lines("a = x\na = y\nz = a\n")).empty());
  CHECK(folded(lines("a = x.relu().exp().tanh()\nz = a + a\n")).empty());
  // Two draws are two values.
  CHECK(folded(lines("a = randn([2])\nz = a + a\n")).empty());
  CHECK_FALSE(folded(lines("a = zeros([2])\nz = a + a\n")).empty());
}

TEST_CASE("B-31 changed lines are those that differ, with their numbers in the file") {
  const SourceText before("t.py", "a = 1\nb = 2\nc = 3\nd = 4\n");
  const std::vector<ChangedLines> found =
      changed_lines(before, "a = 1\nnew = 0\nb = 5\nc = 3\nlast = 6\n");
  REQUIRE(found.size() == 2);
  CHECK(found[0].line == 2);
  CHECK(found[0].before == std::vector<std::string>{"b = 2"});
  CHECK(found[0].after == std::vector<std::string>{"new = 0", "b = 5"});
  CHECK(found[1].line == 4);
  CHECK(found[1].before == std::vector<std::string>{"d = 4"});
  CHECK(found[1].after == std::vector<std::string>{"last = 6"});
  CHECK(changed_lines(before, before.text()).empty());
  const std::vector<ChangedLines> gone = changed_lines(before, "a = 1\nc = 3\nd = 4\n");
  REQUIRE(gone.size() == 1);
  CHECK(gone[0].line == 2);
  CHECK(gone[0].after.empty());
}
