# Stars in targets, displays and parameters; walrus; nonlocal and global; sets; try; functools.
first, *rest = [1, 2, 3]
print(first, rest)
*head, last = "abc"
print(head, last)
a, *b, c = (1, 2)
print(a, b, c)
(p, *q), r = [[1, 2, 3], 4]
print(p, q, r)
for x, *more in [(1,), (2, 3), (4, 5, 6)]:
    print(x, more)
print([*range(3), *"ab"], (*rest, 9), [*[]], {*rest, 2, 7}, {**{"k": 1}, "z": 2})
s = *rest, first
print(s)
def count(*args, scale=1, **kw):
    return len(args) * scale, args, kw
print(count(), count(1, 2), count(1, scale=3), count(5, 6, x=1, scale=2, y=[2]))
def named(a, *, b, c=3):
    return a, b, c
print(named(1, b=2), named(a=1, c=5, b=4))
def passes(f, *args, **kw):
    return f(*args, **kw)
print(passes(named, 1, b=2), passes(count, 1, 2, w=3), passes(max, 3, 4))
def only_keywords(**options):
    return sorted(options.items())
print(only_keywords(), only_keywords(b=1, a=2), only_keywords(**{"x": 1}))
def first_of(x, /, y=2):
    return x + y
print(first_of(1), first_of(1, 5))
def annotated(*sizes: int, scale: float = 2.0, **others) -> list:
    return [size * scale for size in sizes]
print(annotated(1, 2), annotated(3, scale=0.5))
if (n := len(rest)) > 1:
    print("n", n)
print([y for x in range(6) if (y := x * x) % 2 == 0], y)
total = 0
while (total := total + 3) < 10:
    print(total, end=" ")
print()
print((m := 5) + 1, m)
def counter():
    count = 0
    def up(by=1):
        nonlocal count
        count += by
        return count
    def reset():
        nonlocal count
        count = 0
    return up, reset
up, reset = counter()
print(up(), up(), up(5))
reset()
print(up())
def two_levels():
    x = 1
    def middle():
        def inner():
            nonlocal x
            x += 10
        inner()
        return x
    return middle(), x
print(two_levels())
calls = 0
def counted(x):
    global calls
    calls += 1
    return x * calls
print(counted(2), counted(2), calls)
def makes_global():
    global made
    made = [1]
makes_global()
print(made)
t = {3, 1, 2, 3}
print(t, len(t), 2 in t, 5 in t, set(), sorted(t), {1, 2} == {2, 1}, bool(set()))
t.add(7)
t.discard(1)
t.discard(100)
print(t, t | {1}, t & {2, 9}, t - {2}, t ^ {2, 5}, set([1, 1, 0]), isinstance(t, set))
t.update([8, 9], (10,))
t.remove(8)
print(t, sum(t), max(t), [i for i in t if i > 5], {i % 3 for i in range(10)})
print(len({"a", "b", "a"}), "b" in {"a", "b"}, sorted({"x", "y"}), list(set([4, 4])))
def risky(n):
    if n == 1:
        raise ValueError("one")
    if n == 2:
        raise KeyError("two")
    return n
def tried(n):
    try:
        value = risky(n)
    except ValueError as error:
        return f"value {error}"
    except (KeyError, IndexError):
        return "key"
    else:
        return f"fine {value}"
    finally:
        print("finally", n)
print(tried(0), tried(1), tried(2))
def cleaned():
    done = []
    try:
        for i in range(3):
            try:
                if i == 1:
                    raise RuntimeError("stop")
                done.append(i)
            except RuntimeError:
                done.append("handled")
                continue
            finally:
                done.append(f"end {i}")
    finally:
        done.append("last")
    return done
print(cleaned())
try:
    assert 1 == 2, "no"
except AssertionError as error:
    print("assert", error)
try:
    [1, 2][5]
except IndexError:
    print("index")
try:
    {}["k"]
except Exception:
    print("key")
def returns_early():
    try:
        return "body"
    finally:
        print("after")
print(returns_early())
import functools
from functools import partial, reduce
add3 = partial(lambda a, b, c=0: a + b + c, 3)
print(add3(4), add3(4, c=1), functools.partial(named, b=2)(1))
print(functools.partial(named, b=2)(1, b=9))
print(reduce(lambda a, b: a * b, [1, 2, 3, 4]), functools.reduce(max, [3, 9, 2], 5))
print(type(1) == int, type("a") is str, type([]) == list)
print(type({}) == type({1: 2}), type(1.0) == int)
print("a", "b", sep="-", end="!\n")
print("x", end="")
print("y", end="\n\n")
print(dict([("a", 1), ("b", 2)]), dict({"a": 1}, b=3), dict(zip("xy", [1, 2])))
print("open", end=",")
