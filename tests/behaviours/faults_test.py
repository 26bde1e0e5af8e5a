#!/usr/bin/env python3
"""Sources that faults.py makes, and faults that it refuses to plant."""

import unittest

from faults import Patch, Unclear, patched

SOURCE = """\
int half(int x) {
  if (x % 2 !=
      0) return -1;
  return x / 2;
}
"""


def planted(*patches):
    text = patched("half.cpp", SOURCE, [Patch(name, "half.cpp", old, new)
                                        for name, old, new in patches])
    return text.split('#line 1 "half.cpp"\n')[1]


class Patched(unittest.TestCase):
    def test_an_expression_becomes_a_choice_white_space_aside(self):
        text = planted(("odd-halves", "x % 2 != 0", "false"))
        self.assertIn("if ((planted_odd_halves ? (false) : (x % 2 !=\n      0))) return -1;", text)

    def test_statements_become_branches(self):
        text = planted(("third", "return x / 2;", "return x / 3;"))
        self.assertIn("{ if (planted_third) { return x / 3; } else { return x / 2; } }", text)

    def test_faults_of_one_text_share_its_place(self):
        text = planted(("third", "x / 2", "x / 3"), ("fourth", "x / 2", "x / 4"))
        self.assertIn("(planted_third ? (x / 3) : planted_fourth ? (x / 4) : (x / 2))", text)

    def test_a_text_that_is_not_there_is_refused(self):
        with self.assertRaisesRegex(Unclear, "fifth: its text is 0 times in half.cpp"):
            planted(("fifth", "x / 5", "x"))

    def test_several_arguments_are_refused(self):
        with self.assertRaisesRegex(Unclear, "sixth: several expressions"):
            planted(("sixth", "x / 2", "x, 2"))

    def test_a_text_that_is_there_twice_is_refused(self):
        with self.assertRaisesRegex(Unclear, "its text is 2 times in half.cpp, not once: return"):
            planted(("none", "return", ""))

    def test_texts_that_overlap_are_refused(self):
        with self.assertRaisesRegex(Unclear, "overlaps another fault of half.cpp"):
            planted(("third", "return x / 2;", ""), ("fourth", "x / 2", "x / 4"))

    def test_a_part_of_a_statement_is_refused(self):
        with self.assertRaisesRegex(Unclear, "third: its brackets do not end in it"):
            patched("a.cpp", "if (x > 2) { return f(x, '('); }",
                    [Patch("third", "a.cpp", "if (x > 2) {", "if (x > 3) {")])
        with self.assertRaisesRegex(Unclear, "third: its brackets do not end in it"):
            patched("a.cpp", "f(x) + g(y)", [Patch("third", "a.cpp", "x) + g(y", "y) + g(x")])
        with self.assertRaisesRegex(Unclear, "third: its last statement does not end in it"):
            patched("a.cpp", "a(); if (b()) return;",
                    [Patch("third", "a.cpp", "a(); if (b())", "if (b())")])
        text = patched("a.cpp", "return f(x, '(');",
                       [Patch("third", "a.cpp", "f(x, '(')", 'f(x, "[")')])
        self.assertIn("(planted_third ? (f(x, \"[\")) : (f(x, '(')))", text)

    def test_a_part_of_an_expression_is_refused(self):
        for text in ("x > 2 &&", "x > 2 ?", "|| y", "{x, y}"):
            with self.assertRaisesRegex(Unclear, "third: it is a part of an expression"):
                patched("a.cpp", f"f(a, {text} b)", [Patch("third", "a.cpp", text, "true")])
        for source in ("const bool more = x > 2;", "return x > 2;"):
            with self.assertRaisesRegex(Unclear, "third: its text begins within a statement"):
                patched("a.cpp", source, [Patch("third", "a.cpp", "x > 2;", "true;")])
        text = patched("a.cpp", "a();  // once\nb();", [Patch("third", "a.cpp", "b();", "")])
        self.assertIn("{ if (planted_third) {  } else { b(); } }", text)

    def test_a_declaration_is_refused(self):
        for text in ("int& half = halves[1];", "const Half half(halves[1]);", "Half half{1};"):
            with self.assertRaisesRegex(Unclear, "third: its text is a declaration"):
                patched("a.cpp", text, [Patch("third", "a.cpp", text, "Half half;")])


if __name__ == "__main__":
    unittest.main()
