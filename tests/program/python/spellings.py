# Spellings that programs bring along: lambdas, generators, annotations, imports, keywords from
# dicts, math, and the methods of lists, dicts and texts.
from __future__ import annotations
import math
import os, functools
from typing import (List, Optional,
                    Dict)
n: int = 3
later: List[int]
later = [n]
def scaled(x: float, by: Optional[float] = 2.0) -> float:
    return x * by
print(n, later, scaled(1.5), scaled(by=3, x=2))
square = lambda x: x * x
add = lambda a, b=10: a + b
constant = lambda: n
print(square(4), add(1), add(1, 2), constant(), (lambda x: x + 1)(1))
n = 5
print(constant(), sorted([3, 1, 2], key=lambda x: -x), sorted(["bb", "a"], key=len, reverse=True))
fact = lambda k: 1 if k == 0 else k * fact(k - 1)
print(fact(6), list(map(lambda x: x * 2, range(3))), list(filter(lambda x: x % 2, [1, 2, 3])))
def counter():
    seen = []
    tick = lambda step=1: seen.append(step) or len(seen)
    tick()
    tick(5)
    return tick(), seen, [f(2) for f in [square, add]]
print(counter())
print(max([1, -7, 3], key=abs), min([], default=4), max("abc", "abd"))
print(max((len(s) for s in ["a", "bb"])))
print(sum(x * x for x in range(4)), any(x > 2 for x in [1, 2]), all(x for x in []))
print(list(x for x in "ab"))
print((x for x in [1]) is None, tuple(i * j for i in range(3) for j in range(2) if i != j))
options = {"by": 4}
print(scaled(2, **options), {**options, "x": 1, **{"by": 5}}, dict(**options, c=1))
print(scaled(**{"x": 1}, **options))
gone = [1, 2]
kept = gone
del gone
print(kept)
items = [3, 1, 2]
items.insert(1, 9)
items.insert(-1, 8)
items.insert(99, 7)
items.remove(3)
print(items, items.count(9), items.index(8))
items.reverse()
print(items, items.copy() == items, items.copy() is items)
items.sort()
print(items, (1, 2, 1).count(1))
items.sort(key=lambda x: -x)
print(items)
items.sort(reverse=False)
items.clear()
print(items)
d = {"a": 1}
print(d.setdefault("a", 5), d.setdefault("b", 6), d.setdefault("c"), d)
d.update({"a": 7}, z=8)
d.update(y=9)
print(d, d.pop("z"), d.pop("no", 3), d, d.copy())
d.clear()
print(d)
t = "  The quick, brown fox  "
print(t.strip(), t.lstrip() + "|", "|" + t.rstrip(), "xxaxx".strip("x"), t.upper(), t.lower())
print(t.split(), "a,b,,c".split(","), "a b c".split(" ", 1), "a  b".split(maxsplit=1), "".split())
print("".split(","))
print("banana".replace("an", "-"), "banana".count("an"), "banana".replace("x", "y"))
print("{} of {}".format(1, "two"), "{1}-{0}-{1}".format("a", "b"))
print("{x:.2f}|{y!r:>5}|{{}}".format(x=1.5, y="q"))
print("%d of %s: %.3f %5d|%-5d|%05d %e %g %%" % (3, "four", 2.0 / 3, 7, 7, 7, 12345.678, 0.5))
print("%s" % "one", "%r" % ["x"], "%5s|%-5s|" % ("ab", "cd"), "%d" % 3.9, "%x" % 255, "%+d" % 4)
print(1, 2, sep="-")
print("a", "b", sep="", flush=True)
print(math.sqrt(16), math.floor(-1.5), math.ceil(1.2), math.floor(3), math.pi, math.inf)
print(-math.inf, math.e)
print(math.exp(0), math.log(8, 2), math.log2(8), math.log10(1000), math.log(1), math.cos(0))
print(math.hypot(3, 4))
print(math.prod([2, 3, 4]), math.prod([]), math.prod([1.5, 2]), math.gcd(12, 18))
print(math.isnan(math.nan))
print(math.isinf(math.inf), math.isfinite(1), math.pow(2, 10), math.fabs(-2), math.trunc(-2.7))
print(math.tau)
print(math.atan2(1, 1), math.fmod(7, 3), math.tanh(0), math.erf(0))
print(callable(scaled), callable(3), callable(len), list(zip([1], [2], strict=True)))
if n < 0:
    raise ValueError("never")
for step in range(2):
    if step > 5:
        raise RuntimeError(f"step {step}") from None
    label = lambda: step
    print(label())
