# Defs: defaults, keywords, star arguments, scopes, closures, recursion, functions as values.
def area(width, height=2, scale=1):
    return width * height * scale
print(area(3), area(3, 4), area(3, scale=2), area(width=1, height=1), area(scale=3, width=2),
      area(2, 3, 4))
print(area(*[1, 2]), area(*(1, 2), 3), area(*[5], scale=2), area(1, *[2, 3]), area(*range(3)))
def collect(item, into=[]):
    into.append(item)
    return into
print(collect(1), collect(2), collect(3, []), collect(4))
base = 10
def shifted(x, by=base):
    return x + by
base = 20
print(shifted(1), shifted(1, base), base)
def reads():
    return base
base = 30
print(reads())
def local():
    base = 1
    return base + reads()
print(local(), base)
def several():
    return 1, [2, 3], {"k": 4}
a, (b, c), d = several()
print(a, b, c, d, several()[1][0], several()[2]["k"])
def nested(x):
    y = x * 2
    def inner(z=y):
        return x + y + z
    y = 100
    return inner(), inner(0)
print(nested(1))
def accumulate():
    state = {"total": 0}
    def add(n):
        state["total"] += n
        return state["total"]
    def reset():
        state["total"] = 0
    return add, reset
add, reset = accumulate()
print(add(5), add(6), reset(), add(1))
other, _ = accumulate()
print(other(100), add(1))
def compose(f, g):
    def both(x):
        return f(g(x))
    return both
def double(x):
    return x * 2
def increment(x):
    return x + 1
print(compose(double, increment)(5), compose(increment, double)(5), compose(str, abs)(-3) + "!")
print([f(10) for f in [double, increment, compose(double, double)]], {"d": double}["d"](4))
pipeline = [double, increment] * 2
value = 1
for f in pipeline:
    value = f(value)
print(value)
def mapped(f, items):
    return [f(x) for x in items]
print(mapped(double, [1, 2]), mapped(len, ["a", "bc"]), mapped(sum, [[1], [2, 3]]),
      mapped(bool, [0, "x"]))
def chosen(f=double, g=None):
    return f(1) if g is None else g(f(1))
print(chosen(), chosen(increment), chosen(g=double), chosen(g=increment, f=increment))
def hanoi(n, a, b, c, moves):
    if n == 0:
        return 0
    before = hanoi(n - 1, a, c, b, moves)
    moves.append(a + c)
    return before + 1 + hanoi(n - 1, b, a, c, moves)
moves = []
print(hanoi(4, "a", "b", "c", moves), moves, len(moves))
def permutations(items):
    if not items:
        return [[]]
    return [[x] + rest for i,
            x in enumerate(items) for rest in permutations(items[:i] + items[i + 1:])]
print(permutations([1, 2, 3]), len(permutations([1, 2, 3, 4])))
def flatten(value):
    if isinstance(value, (list, tuple)):
        return [y for x in value for y in flatten(x)]
    return [value]
print(flatten([1, (2, [3, "four"]), [[[5]]], ()]))
def ackermann(m, n):
    if m == 0:
        return n + 1
    return ackermann(m - 1, 1) if n == 0 else ackermann(m - 1, ackermann(m, n - 1))
print(ackermann(2, 3))
def quick(items):
    if len(items) < 2:
        return items
    pivot = items[0]
    below, above = [x for x in items[1:] if x < pivot], [x for x in items[1:] if x >= pivot]
    return quick(below) + [pivot] + quick(above)
print(quick([5, 2, 9, 2, 7, 1]), quick(list("hello")))
def matrix(rows, columns, value=0):
    return [[value for _ in range(columns)] for _ in range(rows)]
def product(a, b):
    out = matrix(len(a), len(b[0]))
    for i in range(len(a)):
        for j in range(len(b[0])):
            for k in range(len(b)):
                out[i][j] += a[i][k] * b[k][j]
    return out
print(product([[1, 2], [3, 4]], [[5, 6], [7, 8]]), matrix(2, 3, "x"))
def counted(words):
    counts = {}
    for word in words:
        counts[word] = counts.get(word, 0) + 1
    return counts
print(counted(["b", "a", "b"]), sorted(counted("mississippi").items()), counted([]))
def bisect(f, low, high):
    while high - low > 1e-9:
        middle = (low + high) / 2
        if f(middle) > 0:
            high = middle
        else:
            low = middle
    return low
def parabola(x):
    return x * x - 2
print(f"{bisect(parabola, 0, 2):.6f}", round(bisect(parabola, 0.0, 2.0), 5))
def shadow(list_of, sum_of=sum):
    sum = 3
    return sum_of(list_of) + sum
print(shadow([1, 2]))
def documented():
    "what it does"
    pass
print(documented(), documented is documented, documented == shadow, [documented][0] is documented)
x = 5
def uses_comprehension():
    return [x for x in range(3)], x
print(uses_comprehension(), x, [x * y for y in range(3)], x)
def keyword_order(a, b=1, c=2):
    return [a, b, c]
print(keyword_order(c=3, a=1), keyword_order(1, c=5), keyword_order(*[1]))
def loop_functions():
    return [made() for made in [late(i) for i in range(3)]]
def late(i):
    def inner():
        return i * i
    return inner
print(loop_functions())
