#!/usr/bin/env python3
"""Programs of plain Python have the output of Python.

    python_test.py PROGRAM [SEED...]

Statements are written down, here and in python/*.py; expressions are drawn: each is built from
parts whose values Python has computed, so that every one of them works and stays within 64 bits.
Snippets are drawn from snippets.py: each prints what it prints in Python, or is refused at a line.
"""

import contextlib
import io
import json
import pathlib
import random
import re
import sys
import unittest
import warnings

from program import Program
from snippets import snippets

SEEDS = [int(seed) for seed in sys.argv[2:]] or [1, 2, 3]

STATEMENTS = """
a = [1]
b = a
b += (2, 3)
b *= 2
print(a, a is b)
b = b + [4]
print(len(a), len(b))
def grow(items=[]):
    items += [len(items)]
    return items
grow()
print(grow(), grow([7]))
d = {'k': [1]}
d['k'] += range(2)
d['k'][0] += 4
e = d
e['z'] = d['k']
e['z'].append('end')
print(d, list(d), list(d.keys()), 'z' in d, d.get('y'), d.get('y', 3))
t = (1, 2)
s = t
s += (3,)
print(t, s, t + s, s[::-1], s[-2:])
x, (y, z) = 1, (2, 3)
x, y = y, x
print(x, y, z)
for (i, j), k in [((1, 2), 3), ((4, 5), 6)]:
    print(i, j, k)
print(i)
n = 0
for i in range(10):
    if i % 2:
        continue
    if i == 8:
        break
    n += i
else:
    n = -1
print(n, i)
while n > 0:
    n //= 2
else:
    n = 100
print(n)
outer = 1
def shadow():
    outer = 2
    return outer, [outer for outer in range(3)]
print(shadow(), outer)
def power(base, exponent=2):
    return 1 if exponent == 0 else base * power(base, exponent - 1)
print(power(3), power(exponent=5, base=2), power(-2, 3))
rows = [[0] * 2] * 2
rows[0][1] = 5
print(rows, [[i * j for j in range(i)] for i in range(4)], {k: v for k, v in zip('ab', [1, 2])})
f = 0.1
f += 0.2
f **= 2
print(f, 1e16, 1e15, 123456789.123456789, 1e-5, 0.0001, -0.0, 5e-324, 2.0, 1e22)
print([1.0, True, None, "it's", (1,), {}, ()], {1: 'a', True: 'b', 1.0: 'c'}, True * [2])
print(f'{f:.3f}|{3.0:4}|{3.0:.3}|{1234567.0:.3}|{7:+d}|{255:x}|{"ab":^6}|{n=}|{"q"!r:>5}|{{}}')
print(round(2.675, 2), round(0.5), round(1.5), round(-2.5), round(1250, -2), round(15, -1))
print(9007199254740993 == 9007199254740992.0, 3 == 3.0, True + True, not 1 == 2, 1 < 2 < 3 != 4)
print(True & (1 > 2), True | False, True ^ True, True & 3, ~True)
print(1.0 // 0.1, 3 % -1.0, -7.5 // 2, 0.0 // -1, 7 // -2, -7 % 3, 5.5 % -2, 2 ** -1, (-2) ** 3)
text = 'aé─'
print(len(text), list(text), text[1], text[::-1], text[-2:], sorted(text), f'{text:>5}|')
"""

FUNCTIONS_AS_VALUES = """
def counter():
    count = [0]
    def up(by=1):
        count[0] += by
        return count[0]
    return up
a, b = counter(), counter()
print(a(), a(), b(), a(5))
def late():
    made = []
    for i in range(3):
        def show():
            return i
        made.append(show)
    i = 10
    return [f() for f in made]
print(late())
def twice(f, x):
    return f(f(x))
def adder(n):
    def add(x):
        return x + n
    return add
print(twice(adder(3), 1), [f(1) for f in [adder(i) for i in range(3)]], adder(1)(2))
def outer():
    x = 1
    def middle():
        def inner():
            return x
        return inner
    x = 2
    return middle()()
print(outer())
def recursive():
    def fact(n):
        return 1 if n == 0 else n * fact(n - 1)
    return fact(5)
print(recursive())
x = 'global'
def shadows():
    def inner():
        return x
    r = inner()
    return r
print(shadows())
def defaults():
    made = []
    for i in range(3):
        def f(i=i):
            return i
        made.append(f)
    return [f() for f in made]
print(defaults())
table = {'add': adder(1), 'twice': twice}
print(table['add'](2), table['twice'](table['add'], 3))
y = 5
def reads():
    return y
print([reads() for y in range(3)], y, {y: reads() for y in 'ab'})
def own():
    y = 7
    def inner():
        return y
    return [inner() for y in range(3)], [[y for y in range(y)] for y in [2]], y
print(own())
def even(n):
    def odd(m):
        return False if m == 0 else even(m - 1)
    return True if n == 0 else odd(n - 1)
print(even(10), even(7))
def parameter(p):
    def inner():
        return p * 2
    p = p + 1
    return inner
print(parameter(1)())
f, g = adder(1), adder(1)
print(f == f, f == g, f is f, f is g, f in [g], f in [g, f], bool(f))
def deep(n):
    def wrap(f):
        def call(x):
            return f(x) + 1
        return call
    f = adder(0)
    for _ in range(n):
        f = wrap(f)
    return f
print(deep(20)(1))
print(isinstance(1, int), isinstance(True, int), isinstance(1.0, (int, str)), isinstance([], list))
"""

NUMBERS = [0, 1, 2, 3, 5, 7, 10, 64, 255, 2**31, 2**53 + 1, 2**62, -1, -7, -(2**40), True, False,
           0.0, 0.5, 1.0, 1.5, 2.675, 0.1, 3.0, 1e-5, 1e16, 1e300, 123.456, -0.0, -2.5, -1e-5]
OTHERS = ["", "a", "ab", "b c", "é─", None, [1, 2, 3], [], ["a", 2.5], (1, 2), ()]
OPERATORS = ["+", "-", "/", "//", "&", "|", "^", ">>", "==", "!=", "<", "<=", ">", ">=",
             "and", "or", "in", "not in"]
FUNCTIONS = ["abs", "len", "int", "float", "str", "bool", "list", "tuple", "sorted", "sum", "min",
             "max", "any", "all", "round"]
INDICES = ["0", "-1", "1:", ":-1", "::2", "::-1", "1"]
FORMATS = {
    int: ["d", "5d", "05d", "+d", "x", "<6", ">6", "^7", ".2f", "e"],
    float: [".3f", "8.2e", "+.1f", "6", ".3", "g", "<9", "09.2f", "10"],
    str: [">5", "<5", "^5", "5"],
}


def largest(value):
    """The largest of its integers and lengths."""
    if isinstance(value, (list, tuple)):
        return max([len(value), *map(largest, value)])
    return abs(value) if isinstance(value, int) else len(value) if isinstance(value, str) else 0


class Drawn:
    """Expressions that work in Python."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.known = []

    def part(self):
        """A value written out, or an expression from before."""
        if self.known and self.random.random() < 0.5:
            return self.random.choice(self.known)
        value = self.random.choice(self.random.choice([NUMBERS, NUMBERS, OTHERS]))
        return f"({value!r})" if isinstance(value, (int, float)) else repr(value)

    def formatted(self, part):
        formats = FORMATS.get(type(eval(part)))  # of this file's own making
        if formats is None or any(mark in part for mark in "'{\\"):
            return part
        return "f'{" + part + ":" + self.random.choice(formats) + "}'"

    def expression(self):
        a, b, c = self.part(), self.part(), self.part()
        choose, number = self.random.choice, self.random.randint
        return choose([
            *[f"({a} {choose(OPERATORS)} {b})"] * 4, f"({a} ** {number(-3, 5)})",
            f"({a} << {number(0, 70)})", f"({a} * {number(-1, 3)})",
            f"({choose(NUMBERS)!r} {choose('*%')} {choose(NUMBERS)!r})",
            f"(-{a})", f"(not {a})", f"(~{a})",
            f"{choose(FUNCTIONS)}({a})", f"max({a}, {b})", f"min({a}, {b})",
            f"({a} if {b} else {c})", f"{a}[{choose(INDICES)}]", f"[{a}, {b}]", f"({a}, {b})",
            f"round({a}, {number(-3, 6)})", f"[i for i in {a} if i]", f"({a} < {b} <= {c})",
            self.formatted(a),
        ])

    def expressions(self, count):
        found = []
        while len(found) < count:
            text = self.expression()
            if len(text) > 90:
                continue
            try:
                value = eval(text)  # of this file's own making
            except (ArithmeticError, TypeError, ValueError, IndexError, SyntaxError):
                continue
            if not isinstance(value, complex) and largest(value) < 2**63:
                found.append(text)
                self.known = self.known[-40:] + [text]
        return found


def printed_by_python(code):
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(code, "program", "exec"), {})  # of this file's own making
    return output.getvalue().removesuffix("\n").split("\n")


class PlainPython(Program):
    def printed(self, code):
        text = f'[mesh]\nx = 1\n[program]\ncode = """\n{code}\n"""\n'.replace("\\", "\\\\")
        return [line[2:] for line in self.section(self.fine("run", text=text), "printed")]

    def test_programs_of_the_folder(self):
        paths = sorted((pathlib.Path(__file__).parent / "python").glob("*.py"))
        self.assertGreaterEqual(len(paths), 6)
        for path in paths:
            with self.subTest(path.name):
                code = path.read_text(encoding="utf-8")
                (self.folder / "program.py").write_text(code, encoding="utf-8")
                text = '[mesh]\nx = 1\n[program]\nfile = "program.py"\n'
                printed = json.loads(self.fine("run", "--json", text=text))["printed"]
                lines = "\n".join(entry["text"] for entry in printed).split("\n")
                self.assertEqual(lines, printed_by_python(code))

    def test_statements(self):
        self.assertEqual(self.printed(STATEMENTS), printed_by_python(STATEMENTS))

    def test_functions_as_values(self):
        self.assertEqual(self.printed(FUNCTIONS_AS_VALUES), printed_by_python(FUNCTIONS_AS_VALUES))

    def test_expressions(self):
        for seed in SEEDS:
            drawn = Drawn(seed).expressions(300)
            code = "\n".join(f"print({number}, {text})" for number, text in enumerate(drawn))
            pairs = zip(drawn, self.printed(code), printed_by_python(code), strict=True)
            wrong = [(text, ours, theirs) for text, ours, theirs in pairs if ours != theirs]
            self.assertEqual(wrong, [], f"seed {seed}")

    def test_snippets(self):
        """All in one run of `test`; at least four of five are equal, none is different."""
        for seed in SEEDS[:1]:
            printed = {}

            def fine(text):
                try:
                    lines = printed_by_python(text)
                except (ArithmeticError, LookupError, SyntaxError, TypeError, ValueError):
                    return False
                printed[text] = "\n".join(lines)
                return True

            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SyntaxWarning)
                drawn = snippets(seed, 500, fine)
            for number, text in enumerate(drawn):
                (self.folder / f"s{number}.py").write_text(text + "\n", encoding="utf-8")
                self.plant(**{f"s{number}": f'title = "{number}"\n[mesh]\nx = 1\n[program]\n'
                                            f'file = "s{number}.py"\n'})
            code, output, errors = self.shardlab("test", "--json", ".")
            self.assertIn(code, (0, 1, 2), errors)
            runs = {run["title"]: run for run in map(json.loads, output.splitlines())}
            refused = set(re.findall(r"\n +at +\./s(\d+)\.py:\d+:\d+\n", errors))
            equal, wrong = 0, []
            for number, text in enumerate(drawn):
                run = runs.get(str(number))
                if run is None:
                    self.assertIn(str(number), refused, text)
                    continue
                found = "\n".join(entry["text"] for entry in run["printed"])
                error = run.get("error", {}).get("text", "")
                if error:
                    self.assertRegex(error, rf"at +rank 0, step \d+, \./s{number}\.py:\d+:\d+\n")
                    same = printed[text].startswith(found)
                else:
                    same = found.removesuffix("\n") == printed[text].removesuffix("\n")
                equal += same and not error
                wrong += [] if same else [(text, found, printed[text])]
            self.assertEqual(wrong, [], f"seed {seed}")
            self.assertGreaterEqual(equal, 400)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
