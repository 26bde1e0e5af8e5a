#!/usr/bin/env python3
"""`shardlab shrink`: what is left fails in the same way, in a process of its own, and is short.

    shrink_test.py PROGRAM ZOO [--every N]

The oracle are the files of the zoo: each says the cause, verdict or error of its bug, and the line.
The scenario that is left must be held to the same, must still have that statement's calls, and has
at most 15 lines. --every N takes each N-th file.
"""

import json
import pathlib
import re
import sys
import unittest

from program import PROGRAM, Program

ZOO = pathlib.Path(sys.argv[2]).resolve()
EVERY = int(sys.argv[4]) if len(sys.argv) > 4 else 1
LONGEST = 15
COLLECTIVES = re.compile(
    r"\b(all_reduce|all_gather|reduce_scatter|all_to_all\w*|broadcast|barrier|send|recv)\(")

PLAIN = """
title = "many lines"
[matrix]
"mesh.tp" = [1, 4]
[mesh]
tp = 4
dp = 2
[params]
hidden = 12
layers = 3
[inputs]
x = "f32[8@dp, hidden]"
w = { type = "f32[hidden, hidden@tp]", scale = 0.3 }
b = "f32[hidden]"
unused = "f32[4]"
[program]
code = \'\'\'
def block(t):
    return t + 1
h = x.redistribute(dp=R)
for i in range(layers):
    with torch.no_grad():
        h = relu(h)
if layers > 2:
    h = h * 2
else:
    h = h - 1
z = block(h)
y = from_local((h @ w).to_local(), mesh=mesh)
out = y + b
print("done")
\'\'\'
[expect]
out = "f32[8, 12]"
"""


def key(text, name):
    found = re.search(rf'\b{name} = "([^"]*)"', text)
    return found[1] if found else None


def line_of(text):
    return text.splitlines()[int(re.search(r"\bline = (\d+)", text)[1]) - 1]


class Zoo(Program):
    def test_each_bug(self):
        names = [path for path in sorted(ZOO.glob("*.toml")) if not path.stem.endswith("_right")]
        self.assertGreaterEqual(len(names), 100)
        lengths = []
        for path in names[::EVERY]:
            with self.subTest(path.stem):
                before = path.read_text(encoding="utf-8")
                if key(before, "cause") == "cause.none":  # it could become another mistake
                    code, _, err = self.shardlab("shrink", str(path), "-o", path.name)
                    self.assertEqual(code, 2)
                    self.assertIn("its cause is not known", err)
                    continue
                self.fine("shrink", str(path), "-o", path.name)
                after = (self.folder / path.name).read_text(encoding="utf-8")
                lengths.append(after.count("\n"))
                self.assertLessEqual(lengths[-1], LONGEST, after)
                self.assertLessEqual(lengths[-1], before.count("\n"))
                for name in ("cause", "verdict"):
                    self.assertEqual(key(after, name), key(before, name), after)
                # An error whose cause is known is expected by that.
                error = "error = {" in before and not key(before, "cause")
                self.assertEqual("error = {" in after, error, after)
                was = set(COLLECTIVES.findall(line_of(before)))
                if key(before, "verdict"):
                    self.assertTrue(was <= set(COLLECTIVES.findall(line_of(after))), after)
        # All of them, each in a new process.
        self.assertIn(" 0 failed", self.fine("test", "."))
        print(f"{len(lengths)} bugs: {sorted(lengths)[len(lengths) // 2]} lines in the median, "
              f"{max(lengths)} at most")


class Shrink(Program):
    def test_structure(self):
        """Loops, branches, params, mesh dims and inputs go; the statement stays."""
        self.plant(big=PLAIN)
        self.fine("shrink", "big.toml", "-o", "small.toml")
        text = (self.folder / "small.toml").read_text(encoding="utf-8")
        for gone in ("layers", "hidden", "unused", "def", "for", "if ", "print", "dp", "matrix"):
            self.assertNotIn(gone, text)
        self.assertIn("from_local(", line_of(text))
        self.assertIn("tp = 2", text)
        self.fine("run", "small.toml")

    def test_it_is_the_same_each_time(self):
        self.plant(big=PLAIN)
        texts = {self.shardlab("shrink", "big.toml")[1] for _ in range(3)}
        self.assertEqual(len(texts), 1)

    def test_an_unmet_expectation_stays_one(self):
        self.plant(big="""
            [mesh]
            tp = 2
            [inputs]
            x = "f32[8@tp, 4]"
            [program]
            code = '''
            a = x * 2
            y = x.redistribute(tp=R)
            z = a + 1
            '''
            [expect]
            collectives = { all_gather = 0 }
            """.replace("            ", ""))
        self.fine("shrink", "big.toml", "-o", "small.toml")
        text = (self.folder / "small.toml").read_text(encoding="utf-8")
        self.assertNotIn("a = ", text)
        code, out, _ = self.shardlab("run", "small.toml")
        self.assertEqual(code, 1)
        self.assertIn("expected 0, got 1", out)

    def test_errors_keep_their_statement(self):
        self.plant(big="""
            [mesh]
            tp = 2
            [inputs]
            x = "f32[8@tp, 4]"
            w = "f32[5, 6]"
            [program]
            code = '''
            a = relu(x)
            b = x + a
            y = b @ w
            '''
            """.replace("            ", ""))
        self.fine("shrink", "big.toml", "-o", "small.toml")
        text = (self.folder / "small.toml").read_text(encoding="utf-8")
        self.assertRegex(line_of(text), r"x @ w")
        self.assertIn('error = { kind = "Value" }', text)
        self.fine("test", "small.toml")

    def test_a_right_program_is_refused(self):
        self.plant(right=PLAIN.replace("from_local((h @ w).to_local(), mesh=mesh)", "h @ w")
                   .replace('"f32[8, 12]"', '"f32[8, 12@tp]"'))
        code, _, err = self.shardlab("shrink", "right.toml")
        self.assertEqual(code, 2)
        self.assertIn("nothing is wrong", err)
        self.assertIn("fix", err)

    def test_time_ends_it(self):
        """However little time there is, what is left fails in the same way."""
        self.plant(big=PLAIN)
        code, out, _ = self.shardlab("shrink", "--json", "--budget", "0.001", "big.toml")
        self.assertEqual(code, 0)
        result = json.loads(out)
        self.plant(small=result["scenario"])
        self.fine("test", "small.toml")
        self.assertEqual(result["lines"], result["scenario"].count("\n"))


if __name__ == "__main__":
    assert PROGRAM
    unittest.main(argv=sys.argv[:1])
