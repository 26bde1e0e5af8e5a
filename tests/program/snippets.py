"""Small programs of plain Python, drawn from templates: snippets(seed, count).

In a template $i is a small whole number, $n one of any sign, $f a float, $s a text, $c one letter,
$l a list of numbers, $w a list of words, $d a dict, $o an operator of arithmetic, $r a comparison,
$v any value, $x an expression over the numbers a and b. Each snippet prints, and ends without an
error in Python.
"""

import random
import re

NUMBERS = [0, 1, 2, 3, 4, 5, 7, 8, 10, 12, 17, 64, 99, 255, 1000, -1, -2, -3, -5, -7, -8, -13, -100]
FLOATS = [0.0, 0.5, 1.0, 1.5, 2.5, 0.1, 3.14159, 1e-7, 1e16, 123456.789, -0.5, -2.675, -1e5, 7.0,
      1e22,
          2.0, 1e-4, 99.995]
WORDS = ["a", "b", "tp", "dp", "rank", "Mesh", "hello world", "x=1", "", "é─", "tab\tend", "it's",
         'say "hi"', "back\\slash", "A-b_C", "0042", "3.5", "  pad ", "aXbXc",
         "line\nbreak", "ab" * 3]

TEMPLATES = """
a, b = $n, $n
print(a + b, a - b, a * b, -a, +b, ~a, abs(b))
===
a, b = $n, $n or 3
b = b or 7
print(a // b, a % b, divmod(a, b), a / b, a - (a // b) * b == a % b)
===
a, b = $f, $f
print(a + b, a - b, a * b, -a, abs(b), a $r b, a == b)
===
a, b = $f, $n or 2
b = b or 5
print(a // b, a % b, divmod(a, b), a / b)
===
a, b = $i, $n
print(b ** a, (-b) ** a, 2 ** -a if a else 1, b << a, b >> a, b & a, b | a, b ^ a)
===
a, b = $n, $n
print($x, $x)
print($x)
===
a, b = $n, $f
print($x, $x)
===
a, b = $n, $n
print(a $r b, a $r b $r $n, not a $r b, a $r b or b, a and b, a or b, bool(a), bool(b))
===
print(round($f, $i), round($f), round($n, -1), round($f, 1), round(-$f, 2))
===
print(int($f), int(-$f), float($n), str($n), str($f), repr($f), int("$i"), float("$f"), bool($i))
===
print($f, $f, $f, [$f, $n], {$f: $n}, ($f,), $n / $n if $i else 0.1 + 0.2)
===
print(max($n, $n, $f), min($l), max($l), sum($l), sum($l, $n), sorted($l), sorted($l, reverse=True))
===
print($v, [$v, $v], ($v, $v), {"k": $v}, [[$v]], ($v,), str($v), repr($v))
===
print($v == $v, $v is None, $v != $v, not $v, $v in [$v, $v], len([$v]))
===
s = $s
print(s, len(s), repr(s), s + $s, s * $i, s[::-1], s[$i:], s[:-$i], s[$i:$i + 3], s[::2])
===
s = $s
print(s.upper(), s.lower(), s.strip(), s.split(), s.title(), s.replace($c, $s), s.count($c),
      s.find($c))
===
s = $s
print(s.startswith($c), s.endswith($c), s.isdigit(), s.isalpha(), s.rjust(12, "."),
      s.ljust(12) + "|", s.center(11, "*"), s.zfill(8))
===
s = $s
print($c.join($w), s.split($c), s.rsplit($c, 1), s.partition($c), s.rpartition($c), s.splitlines())
===
s = $s
print([ch for ch in s if ch != $c], sorted(s), list(s), tuple(s[:3]), set(s[:1]), $c in s, s < $s,
      s == $s)
===
s = $s
print(s.lstrip(), s.rstrip() + "|", s.lstrip($c), s.strip($c + "a"), s.capitalize(), s.swapcase(),
      s.isupper(), s.islower(), s.isspace())
===
s = $s
for i, ch in enumerate(s[:4]):
    print(i, ch, ord(ch), chr(ord(ch) + 1))
===
print("%d and %s" % ($n, $s), "%5d|%-5d|%05d" % ($i, $i, $i), "%.2f %8.3f %e" % ($f, $f, $f),
      "%x %o %%" % ($i, $i))
===
print("%s %r" % ($s, $s), "%+d" % $n, "%10s|%-10s|" % ($s, $s), "%s" % $l, "%g %g" % ($f, $n))
===
print("{} {}".format($v, $v), "{0} {1} {0}".format($n, $s), "{a} {b:>6}".format(a=$n, b=$s),
      "{:.3f}|{:8.2f}".format($f, $f))
===
print("{:05d} {:+d} {:x} {:b}".format($i, $n, $i, $i), "{:<8}|{:>8}|{:^8}|".format($s, $n, $f),
      "{{}} {!r}".format($s))
===
a, b = $n, $f
print(f"{a} {b:.2f} {a + $n} {a:5d}|{a:<5}|{a:^7}|{b:10.3e} {a!r} {$s!r} {a=} {b=:.1f}")
===
a, w, p = $f, $i + 6, $i
print(f"{a:{w}.{p}f}|{a:>{w}}|{$s:{w}}|{$n:0{w}d}|{$s:*^{w + 2}}")
===
print(f"{$n:,} {$f:,.2f} {$i:%} {$f:.1%} {$i:#x} {$i:08b} {$n:_} {$f:g} {$f:.3g} {$f}")
===
d = {"k": $v, 3: [$n]}
print(f"{d['k']} {d[3][0]:>4} {len(d)} {'yes' if d else 'no'} {[x * 2 for x in d[3]]} {{x}}")
===
xs = $l
print(xs[0] if xs else None, xs[-1:], xs[1:3], xs[::-1], xs[::2], xs[-2:], xs[$i:$i], xs + [$n],
      xs * 2)
===
xs = $l
xs.append($n)
xs.extend($l)
xs.insert($i, $n)
print(xs, xs.pop(), xs.pop(0), xs, len(xs))
===
xs = $l + [$n]
xs.sort()
print(xs, xs.index(xs[-1]), xs.count($n), xs.copy() == xs)
xs.reverse()
xs.remove(xs[0])
print(xs)
===
xs = $l + $l
xs[0:2] = [$n]
del xs[-1]
print(xs)
xs[0] += $n
xs[-1] = xs[0]
print(xs, sum(xs))
===
xs = $l
ys = xs
ys += [$n]
zs = xs[:]
zs.append($v)
print(xs, ys, zs, xs is ys, xs == zs[:-1])
===
a, *b = $l + [$n]
*c, d = $l + [$n]
(e, f), g = ($n, $n), $s
print(a, b, c, d, e, f, g)
===
a, b = $n, $v
a, b = b, a
x = y = $l
print(a, b, x is y)
===
xs = $w
print(sorted(xs), sorted(xs, key=len), sorted(xs, key=lambda w: (-len(w), w)),
      sorted(xs, key=str.lower), max(xs, key=len))
===
xs = [($n, $c), ($n, $c), ($n, $c)]
print(sorted(xs), sorted(xs, key=lambda t: t[1]), sorted(xs, key=lambda t: -t[0]), min(xs),
      dict((c, n) for n, c in xs))
===
xs = $l
print(list(reversed(xs)), list(enumerate(xs, $i)), list(zip(xs, $w)), list(map(str, xs)),
      list(filter(None, xs)))
===
xs = $l
print([x * 2 for x in xs], [x for x in xs if x % 2 == 0],
      [(x, y) for x in xs[:2] for y in range($i)], [[y for y in range(x % 3)] for x in xs])
===
xs = $l
print({x: x ** 2 for x in xs}, {x % 3 for x in xs} == set(x % 3 for x in xs),
      sum(x for x in xs if x $r $n), any(x > 3 for x in xs), all(xs))
===
print(list(range($i)), list(range($i, $i + 5)), list(range($i + 8, $i, -2)), range($i),
      len(range(1, $i + 9, 3)), 5 in range($i))
===
d = $d
print(d, len(d), list(d), list(d.keys()), list(d.values()), list(d.items()), $c in d, d.get($c),
      d.get($c, $n))
===
d = $d
d[$c] = $v
d.update({$c: $n}, z=$n)
print(d, d.pop("z"), d.pop("q", None), d.setdefault("y", $l), d)
===
d = $d
for k, v in sorted(d.items()):
    print(k, "->", v)
for k in d:
    d[k] += $n
print(d, sum(d.values()), max(d, key=d.get), {v: k for k, v in d.items()})
===
d = $d
e = {**d, $c: $n}
d.update(e)
print(d == e, e, dict(d, x=$n), dict([("a", $n), ("b", $n)]), d | {"m": $n})
del e[sorted(e)[0]]
print(e)
===
counts = {}
for ch in $s + $s:
    counts[ch] = counts.get(ch, 0) + 1
print(sorted(counts.items()), max(counts.values(), default=0))
===
groups = {}
for n in $l + $l:
    groups.setdefault(n % 3, []).append(n)
print(groups, sorted(groups), {k: len(v) for k, v in groups.items()})
===
a, b = set($l), set($l)
print(sorted(a | b), sorted(a & b), sorted(a - b), sorted(a ^ b), a <= b, len(a), $n in a, a == b)
===
s = set($l)
s.add($n)
s.discard($n)
s.update($l)
print(sorted(s), len(s), sum(s), min(s), s.issubset(s | {$n}), s.isdisjoint({1000000}),
      sorted(s.union([1]), reverse=True))
===
print(set($l), {$n, $n}, list(set($l + $l)), sorted(set($l)), set(), {1}, set(range($i + 9)))
for x in set($l):
    print(x, end=" ")
===
s, t = {$n, $n, $n, $f}, {$n, $n, $n, $n, $n}
print(s, t, {$n, $n, $n})
t.update($l, [$n], range($i))
print(t, s | t, t | s, s & t, s - t, t - s, s ^ t, t ^ s, set(t), t.copy(), t.union(s, $l))
for n in $l:
    s.add(n)
    s.discard(n + 1)
    s.add(n * 8 + 3)
print(s, set(s), s.intersection($l), s.difference($l), s.difference(t, [$n]), t.intersection(s))
===
s, t = set(range($i, $i + 20)), set($l)
u = s
s |= t
print(s, s is u)
s -= {$n, $n}
s.add($n)
print(s)
s ^= t
s ^= {$n, 2, 3, 5}
print(s, u)
s &= set(range(4, 99))
print(s, s.symmetric_difference($l), u)
u.clear()
u.update($l)
print(u, s == u)
===
s = {($n, $i), ($i, $n), (), ($i,), ($f, (1, $n))}
s.add(($i, 2))
s.discard(($i,))
print(s, [x for x in {(x, y) for x in range(4) for y in range(3)}], {x * 0.5 for x in range($i)})
===
d = {x: x * x for x in range($i)}
e = d
d |= {$n: 0, "z": 1}
print(d, e is d, e == {**d}, d.pop("z"), list(e), d.popitem())
===
s = {$n, $n, $n}
print(len(s) <= 3, sorted(s), sorted(s.intersection($l)), sorted(s.difference($l)),
      sorted(x for x in s))
===
t = ($n, $s, $f)
print(t, t[0], t[-1], t[1:], t + ($n,), t * 2, len(t), $n in t, t.count($n), t == ($n, $s, $f),
      t < ($n + 1, "", 0))
===
try:
    print($n // 0)
except ZeroDivisionError as e:
    print("caught")
finally:
    print("done")
===
try:
    x = [1, 2][$i + 2]
    print(x)
except IndexError:
    print("index", $n)
else:
    print("no")
===
d = $d
try:
    print(d["missing"])
except KeyError as e:
    print("key", e)
===
try:
    raise ValueError($s)
except (TypeError, ValueError) as e:
    print("error:", e)
===
def f(x):
    if x < 0:
        raise ValueError("negative: " + str(x))
    return x * 2
for x in ($n, $n):
    try:
        print(f(x))
    except ValueError as e:
        print("bad", e)
    else:
        print("good")
===
def f(n):
    try:
        return 10 // n
    except ZeroDivisionError:
        return None
    finally:
        print("end", n)
print(f(0), f($i + 1))
===
try:
    int("x$i")
except ValueError:
    print("not a number")
===
try:
    "a" + $n
except TypeError:
    print("type")
===
def f(a, b=$n, *rest, c=$n, **kw):
    return a, b, rest, c, sorted(kw.items())
print(f($n), f($n, $n), f($n, $n, $n, $n), f($n, c=$n, z=$n), f(*[$n, $n], **{"y": $n}))
===
def f(*args):
    return len(args), sum(args)
def g(**kw):
    return {k: v for k, v in kw.items()}
print(f(), f(*$l), g(a=$n, b=$s), f($n, *$l))
===
def f(x, acc=None):
    acc = acc if acc is not None else []
    acc.append(x)
    return acc
print(f($n), f($n), f($n, [$n]))
===
def f(x, acc=[]):
    acc.append(x)
    return len(acc)
print(f($n), f($n), f($n, [$n]))
===
def outer():
    n = $n
    def inner(k):
        nonlocal n
        n += k
        return n
    inner($n)
    inner($n)
    return n
print(outer())
===
total = $n
def add(k):
    global total
    total += k
add($n)
add($n)
print(total)
===
def make(n):
    def f(x):
        return x $o n
    return f
fs = [make(k) for k in (2, 3, 5)]
print([f($n) for f in fs], make($i + 1)($n))
===
f = lambda x, y=$n: x $o (y or 1)
g = lambda *a: a
print(f($n), f($n, $i + 1), g(), g($n, $s), (lambda: $v)())
===
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)
print([fib(k) for k in range($i + 6)])
===
def fact(n):
    r = 1
    while n > 1:
        r *= n
        n -= 1
    return r
print(fact($i), fact($i + 8))
===
def gcd(a, b):
    while b:
        a, b = b, a % b
    return a
print(gcd($n, $n), gcd(abs($n), 36), gcd(48, $i + 12))
===
n = $i + 5
while n > 0:
    n -= 1
    if n == $i:
        continue
    if n == 1:
        break
    print(n, end=" ")
else:
    print("all", end=" ")
print(n)
===
for x in $l:
    if x == $n:
        print("found", x)
        break
else:
    print("none")
print(x)
===
for i in range($i + 2):
    for j in range(i):
        if (i + j) % 2:
            continue
        print(i, j, i * j, sep="-", end=";")
print()
===
n, steps = $i + 7, 0
while n != 1:
    n = n // 2 if n % 2 == 0 else 3 * n + 1
    steps += 1
print(steps)
===
primes = [p for p in range(2, 20 + $i) if all(p % q for q in range(2, p))]
print(primes, len(primes))
===
xs = $l
for i in range(len(xs)):
    for j in range(len(xs) - 1 - i):
        if xs[j] > xs[j + 1]:
            xs[j], xs[j + 1] = xs[j + 1], xs[j]
print(xs)
===
m = [[$n, $n], [$n, $n]]
print([list(r) for r in zip(*m)], sum(m[i][i] for i in range(2)),
      [[sum(a * b for a, b in zip(r, c)) for c in zip(*m)] for r in m])
===
rows = [[$n] * 3 for _ in range(2)]
rows[0][1] = $n
same = [[$n] * 2] * 2
same[0][0] = $v
print(rows, same, len(rows[0]))
===
x = $n
r = "neg" if x < 0 else "zero" if x == 0 else "pos"
print(r, $i < x < 100, 0 <= $i <= 5 < 9, 1 == 1.0 == True, x is x)
===
x = $n
if x > 5 and x % 2 == 0:
    print("even")
elif x > 5 or x == $n:
    print("odd or so")
elif not x:
    print("zero")
else:
    print("else", x)
===
if (n := len($w)) > 2:
    print("long", n)
print(n, [y for x in $l if (y := x * 2) > 3])
===
x = $n
x += $n; x -= $n; x *= 3
x //= 2
x %= 7
y = $f
y **= 2
y /= 4
print(x, y)
===
x = $n
x |= 8; x &= 13; x ^= 5; x <<= 2; x >>= 1
print(x, bin(abs(x)), hex(abs(x)), oct(abs(x)))
===
print(1, $n, $s, None, True, sep=", ", end="!\\n")
print()
print("a", "b", sep="")
===
print(type($n).__name__, type($f).__name__, type($s).__name__, isinstance($v, int),
      isinstance($v, (str, list)), type($v) == type($v))
===
print(None, True, False, [None, True], (), [], {}, "", [""], [()], {"a": {}}, ((),), [[], [[]]])
===
print([$s, $s], ($s,), {$s: $s}, repr([$s]), str(($s, $n)))
===
print(float("inf"), -float("inf"), float("nan"), float("inf") > $n, float("nan") == float("nan"),
      1e308 * 10)
===
import math
print(math.sqrt($i), math.floor($f), math.ceil($f), math.trunc($f), math.gcd($n, $n), math.pi,
      math.log($i + 1), math.exp($i))
===
import math
print(math.prod($l), math.fabs($f), math.pow(2, $i), math.isclose($f, $f), math.inf,
      math.isnan($f), math.log2($i + 1), math.hypot($i, $i))
===
from functools import reduce
print(reduce(lambda a, b: a + b, $l, $n), reduce(lambda a, b: a if a > b else b, $l + [$n]))
===
from functools import partial
def f(a, b, c=$n):
    return a $o (b or 1), c
print(partial(f, $n)($i + 1), partial(f, b=$i + 1)($n), partial(f, c=$s)($n, $i + 1))
===
words = $w
print({w: len(w) for w in words}, [w.upper() for w in words if len(w) > 1], " ".join(words),
      max(len(w) for w in words))
===
s = $s
out = ""
for ch in s:
    out = ch + out
print(out, out == s[::-1], [s[i:i + 2] for i in range(0, len(s), 2)], "".join(sorted(set(s))))
===
def caesar(s, k):
    return "".join(chr((ord(c) - 97 + k) % 26 + 97) if "a" <= c <= "z" else c for c in s)
print(caesar($s, $n), caesar(caesar($s, 3), -3))
===
def flatten(x):
    return [y for z in x for y in flatten(z)] if isinstance(x, list) else [x]
print(flatten([$n, [$n, [$l]], $s]))
===
def binary(xs, t):
    lo, hi = 0, len(xs)
    while lo < hi:
        mid = (lo + hi) // 2
        if xs[mid] < t:
            lo = mid + 1
        else:
            hi = mid
    return lo
print(binary(sorted($l), $n), binary([], $n))
===
stack = []
for t in "3 4 + $i *".split():
    if t in "+*":
        b, a = stack.pop(), stack.pop()
        stack.append(a + b if t == "+" else a * b)
    else:
        stack.append(int(t))
print(stack)
===
def pieces(n, k):
    size = -(-n // k)
    return [max(0, min(n, (i + 1) * size) - min(n, i * size)) for i in range(k)]
print(pieces($i + 7, 4), sum(pieces($i + 20, 8)), pieces(1, 3))
===
x = [$n, $n, $n]
a, b, c = x
(d, [e, f]) = (1, [2, 3])
for i, (p, q) in enumerate([(1, 2), (3, 4)]):
    print(i, p, q)
print(a, b, c, d, e, f)
===
xs = [3, 1, 2]
assert sorted(xs) == [1, 2, 3], "sorted"
assert xs[0] == 3
pass
print("ok", xs.index(1), $n if xs else $s)
===
def f(n):
    if n == 0:
        return
    yield_ = n
    return yield_
print(f(0), f($n))
===
def f():
    for i in range(10):
        for j in range(10):
            if i * j > $i + 5:
                return i, j
    return None
print(f())
===
nested = {"a": {"b": [$n, {"c": $s}]}}
print(nested["a"]["b"][1]["c"], nested["a"].get("z", {}).get("y"), list(nested["a"]),
      "b" in nested["a"])
nested["a"]["b"].append($v)
print(nested)
===
x = $n
y = x
y += 1
s = $s
t = s
t += "!"
print(x, y, s, t)
===
print(sum([0.1] * 3), 0.1 + 0.2, 1 / 3, 2 / 3, 10 / 5, 1e3, 1e-3, 123e-5, 5 // 2.0, 5 % 3.5,
      -5 % 3, -5 // 3, 5 % -3)
===
print("\\t|".strip(), "a\\nb", r"raw\\n", 'single', \"\"\"two
lines\"\"\", "con" "cat", "\\u00e9", len("\\\\"))
===
print(all([]), any([]), sum([]), max([$n], default=0), min([], default=$s), sorted([]),
      list(zip()), list("ab"), tuple([1]), dict())
===
print(str(True), int(True), True + 1, True == 1, [True, 1].count(True), {True: "a"}[1],
      bool("False"), bool(0.0), bool([0]), not None)
===
a = b = $n
a += 1
print(a, b, a != b, a is not b, a not in [b], (a, b) == (b, a), [a, b] < [b, a],
      min((a, "x"), (b, "y")))
===
s = "k1=v1;k2=$i;k3"
pairs = [p.split("=", 1) for p in s.split(";")]
print({p[0]: p[1] if len(p) > 1 else None for p in pairs})
===
s = $s
print(s.encode if False else "-", s.find("zz"), s.index(s[:1]), s.rfind($c), s.removeprefix($c),
      s.removesuffix($c), s.expandtabs(4))
===
print("abc" < "abd", "Z" < "a", "" < "a", [1, 2] < [1, 3], (1,) < (1, 0), $s <= $s, $s > $s,
      max($s, $s))
===
class_ = "x"
_private = $n
camelCase, snake_case = 1, 2
print(class_, _private, camelCase, snake_case, 1_000_000, 0xff, 0b101, 0o17, 1e1, .5, 5.)
===
x = (1 +
     2 +
     $n)
y = [1,
     2,
     ]
z = 1 + \\
    2
print(x, y, z)  # a comment
===
def f(x: int, y: float = 1.0) -> float:
    "the text of a def"
    return x * y
n: int = $n
print(f(n), f(n, y=$f))
===
evens = list(filter(lambda x: x % 2 == 0, $l))
doubled = list(map(lambda x, y: x + y, $l, $l))
print(evens, doubled, list(map(int, ["1", "2"])), list(map(abs, $l)), sum(map(len, $w)))
===
it = iter($l)
print(next(it), next(it), next(it, None), next(iter([]), $n))
===
def gen(n):
    for i in range(n):
        yield i * i
print(list(gen($i)), sum(gen(4)))
===
print(*$l)
print(*$w, sep="|")
print([*$l, *$l], (*$w, 1), {**$d})
===
xs = list(range(10))
print(xs[2:8:3], xs[-3:-1], xs[8:2:-2], xs[:100], xs[100:], xs[::-3], xs[slice(1, 4)])
xs[1:3] = []
del xs[0], xs[-1]
del xs[1:3]
print(xs)
===
with_default = {}.get("x", $v)
print(with_default, [].copy(), {}.copy(), {1: 2}.items(), {1: 2}.keys(), {1: 2}.values())
===
d = {}
d[1, 2] = $n
d[$f] = $s
d[None] = d.get((1, 2))
print(d, (1, 2) in d, len(d), list(d)[0], d.popitem())
d.clear()
print(d)
===
a = [1, 2, 3]
b = a.copy()
b[0] = $n
c = [a, b]
c[0].append(4)
print(a, b, c, a == [1, 2, 3, 4], a.index(2), 4 in a, a.count(1))
===
try:
    try:
        raise KeyError("inner")
    except KeyError:
        raise RuntimeError("outer $i")
except RuntimeError as e:
    print(e, repr(str(e)))
===
try:
    a, b = $l + [1, 2, 3]
except ValueError:
    print("unpack")
try:
    [].pop()
except IndexError as e:
    print("empty")
===
try:
    print(undefined_name)
except NameError:
    print("name")
===
try:
    assert $n == "no", "message"
except AssertionError as e:
    print("assert", e)
===
try:
    {}["k"]
except Exception as e:
    print(type(e).__name__, e)
===
s = 0
for i in range(1, $i + 10):
    if i % 15 == 0: print("FizzBuzz", end=" ")
    elif i % 5 == 0: print("Buzz", end=" ")
    elif i % 3 == 0: print("Fizz", end=" ")
    else: s += i
print(s)
===
acc = []
for a, b in zip($l, $l):
    acc += [a * b]
else:
    acc.append("end")
print(acc, len(acc))
===
print(abs(-$f), pow(2, $i), pow($n, 3, 7), divmod(-$i, 3), round(2.5), round(3.5), round(-0.5),
      round(1e15 + 0.5), hash(1) == 1)
===
print(str([1.0, 2.50, 1e100]), [0.1 + 0.2], 1e15, 1e17, 12345678901234567.0, 1.0e-5, 0.00012, -0.0,
      100.0, 1e5)
===
text = "the cat the dog the end"
words = text.split()
print(sorted(set(words)), {w: words.count(w) for w in words}, words.index("dog"),
      text.count("the"), text.title(), text.split("the"))
===
x = 7
def f():
    x = $n
    def g():
        return x
    return g
print(f()(), x)
===
fs = []
for i in range(3):
    fs.append(lambda i=i: i * $n)
print([f() for f in fs])
gs = [lambda: i for i in range(3)]
print([g() for g in gs])
===
def compose(*fs):
    def run(x):
        for f in fs:
            x = f(x)
        return x
    return run
print(compose(lambda x: x + $n, lambda x: x * 2, str)($n), compose()($s))
===
def count(n, *, step=1, start=0):
    return [start + k * step for k in range(n)]
print(count($i), count($i, step=$n), count(n=2, start=$n))
===
def f(a, /, b, *, c):
    return a, b, c
print(f($n, $n, c=$n), f($n, b=$n, c=$s))
""".strip("\n").split("\n===\n")


class Draw:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def one(self, kind):
        choose, count = self.random.choice, self.random.randrange
        numbers = [choose(NUMBERS) for _ in range(count(2, 6))]
        return {
            "i": lambda: str(count(0, 6)),
            "n": lambda: repr(choose(NUMBERS)),
            "f": lambda: repr(choose(FLOATS)),
            "s": lambda: repr(choose(WORDS)),
            "c": lambda: repr(choose("abxX =-_")),
            "l": lambda: repr(numbers),
            "w": lambda: repr([choose(WORDS) for _ in range(count(1, 5))]),
            "d": lambda: repr({choose("abcde"): choose(NUMBERS) for _ in range(count(1, 4))}),
            "o": lambda: choose(["+", "-", "*", "//", "%"]),
            "r": lambda: choose(["<", "<=", ">", ">=", "==", "!="]),
            "v": lambda: self.one(choose("nfsl")) if count(6) else choose(["None", "True", "()"]),
            "x": lambda: self.expression(3),
        }[kind]()

    def expression(self, depth):
        if depth == 0 or self.random.random() < 0.2:
            return self.random.choice(
                ["a", "b", self.one("i"), "(a or 2)", "(b or 3)", self.one("n")])
        left, right = self.expression(depth - 1), self.expression(depth - 1)
        form = self.random.choice(["({} + {})", "({} - {})", "{} * {}", "({} // ({} or 4))",
                                   "({} % ({} or 5))", "({} / ({} or 6))", "max({}, {})",
                                   "({0} if {1} > 0 else {0})", "-({} - {})", "min({}, {})",
                                   "({} and {})", "({} or {})", "({} == {})", "abs({} + {})"])
        return form.format(left, right)

    def snippet(self, template):
        # In quotes a kind is its bare text.
        return re.sub(r"\$([infsclwdorvx])", lambda match: self.one(match[1]), template)


def snippets(seed, count, fine):
    """As many, those that FINE(text) takes; of each template as many as of the others."""
    draw, found, turn = Draw(seed), [], 0
    while len(found) < count:
        text = draw.snippet(TEMPLATES[turn % len(TEMPLATES)])
        turn += 1
        if fine(text):
            found.append(text)
    return found
