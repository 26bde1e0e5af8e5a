# Loops with else, break and continue in every place, chains of conditions, short circuits.
seen = []
def note(value, result=True):
    seen.append(value)
    return result
print(note(1) and note(2, False) and note(3), note(4, 0) or note(5, []) or note(6, "x"), seen)
seen[0] = "kept"
print(1 < note(2, 2) < 3, 3 < note(4, 2) < note(5, 9), seen)
print(0 or None or [] or "last", 1 and "a" and 0 and "b", not 0 and not "",
      1 if [] else 2 if "" else 3)
for limit in [0, 1, 3, 5]:
    for i in range(4):
        if i == limit:
            break
        print("pass", i)
    else:
        print("no break at", limit)
        continue
    print("broke at", limit)
n = 0
while True:
    n += 1
    if n % 2:
        continue
    if n > 6:
        break
    print("even", n)
while n < 8:
    n += 1
else:
    print("while ended", n)
while n < 100:
    n *= 2
    if n > 50:
        break
else:
    print("never")
print(n)
for i in range(3):
    for j in range(3):
        if j == i:
            continue
        if j > i + 1:
            break
        print(i, j)
    else:
        print("inner ended", i)
def find(rows, wanted):
    for i, row in enumerate(rows):
        for j, value in enumerate(row):
            if value == wanted:
                return i, j
    return None
print(find([[1, 2], [3, 4]], 3), find([[1], []], 9), find([], 0))
def classify(n):
    if n < 0:
        return "negative"
    elif n == 0:
        return "zero"
    elif n % 2 == 0:
        return "even"
    else:
        return "odd"
print([classify(n) for n in [-3, 0, 4, 7, True, 2.0, -0.0]])
for i in []:
    print("never")
else:
    print("else of an empty loop")
i = "kept"
for i in range(0):
    pass
print(i)
for i in range(3):
    i = i * 10
    print(i)
for x, y in [(1, 2), [3, 4], "ab"]:
    print(x, y)
for (a, b), [c, d] in [((1, 2), (3, 4))]:
    print(a + b + c + d)
items = [1, 2, 3]
for x in items:
    if x < 3:
        items.append(x + 10)
    if len(items) > 8:
        break
print(items)
total = 0
for x in (1, 2.5, True):
    total += x
print(total, [x for x in range(20) if x % 3 == 0 if x % 2 == 0],
      [(x, y) for x in "ab" for y in range(x == "b", 2)])
print([[y for y in range(x)] for x in range(4)], [x for x in [x for x in range(3)] if x],
      [0 for _ in "abc"])
print({x: [y for y in range(x)] for x in range(3)}, [x if x % 2 else -x for x in range(5)])
assert total == 4.5, "a sum"
assert [1] and not [], f"{total}"
def early():
    for i in range(10):
        while True:
            if i > 2:
                return i
            break
    return "end"
print(early())
def nothing():
    pass
def bare():
    return
print(nothing(), bare(), nothing() is None, [nothing()])
if not seen:
    print("empty")
elif len(seen) > 100: print("long")
else: print("some"); print("more")
x = 1; y = 2; x, y = y, x + y; print(x, y)
a = b = c = [0]
b.append(1)
print(a, a is c)
a, b = b, [a]
print(a, b)
