# Lists, tuples, dicts: building, slices, equality, order, sharing.
items = [5, 3, 8, 1]
items.append(9)
items.extend([2, 2])
items.extend((7,))
items.extend(range(2))
items.extend("ab")
print(items, len(items), items.pop(), items.pop(0), items.pop(-2), items)
print(items.index(8), items.index(2), [1, 2.0, 3].index(2), (4, 5).index(5))
for start in [None, -10, -2, 0, 1, 3, 10]:
    for step in [None, 1, 2, -1, -3]:
        print(items[start::step], items[:start:step], tuple(items)[start::step])
items[0] = "first"
items[-1] = "last"
print(items)
nested = [[0, 1], [2, 3]]
alias = nested[0]
alias[0] = "seen"
copy = list(nested)
copy[1] = "own"
print(nested, copy, alias is nested[0], copy[0] is nested[0])
nested[1][1] += 10
nested[0] += [4, 5]
print(nested, alias)
grid = [[0] * 3 for _ in range(2)]
grid[0][1] = 1
shared = [[0] * 2] * 3
shared[0][0] = 7
print(grid, shared)
print([1, 2] + [3], [1] * 3, (1, 2) + (3,), (0,) * 2, [] + [], 2 * [1, 2], () + ())
print([1, 2] == [1, 2], [1, 2] == (1, 2), (1, 2) == (1, 2.0), [1] != [True], [[]] == [[]])
print([1, 2] < [1, 3], [1, 2] < [1, 2, 0], [] < [0], (2,) > (1, 9), (1, "b") < (1, "c"))
print([1, 2, 3] <= [1, 2, 3], [3] >= [2, 9], (0, 1) <= (0, 0), ["a"] < ["b"])
print(1 in [1, 2], 1.0 in [1], True in [1], "1" in [1], [1] in [[1]], (1,) in [[1]], None in [None])
table = {"a": 1, 2: "two", None: 3, True: 4, (1, 2): [5]}
table["a"] += 10
table["new"] = {}
table["new"]["inner"] = 1
table[1.0] = "one again"
print(table, len(table), list(table), "a" in table, 1 in table, 3 in table, (1, 2) in table)
print(table.get("a"), table.get("z"), table.get("z", 0), table[None], table[2], table[(1, 2)][0])
print(list(table.keys())[:2], list(table.values())[0], list(table.items())[1])
for key in table:
    print(key, table[key])
for key, value in table.items():
    print(key, value)
for i, (key, value) in enumerate({"x": (1, 2), "y": (3, 4)}.items()):
    print(i, key, value, value[0] * value[1])
same = {"y": 2, "x": 1} == {"x": 1, "y": 2}
print(same, {"x": 1} == {"x": 1.0}, {} == {}, {"x": 1} != {"x": 2}, {1: {2: 3}}[1][2])
print({k: v for k, v in [("a", 1), ("b", 2), ("a", 3)]}, {i: i * i for i in range(4) if i != 2})
print(dict(a=1, b=[2]), dict(), list((1, 2)), tuple([1, 2]), list({"k": 1}), tuple(), list())
print(sorted([3, 1, 2]), sorted((3, 1)), sorted({"b": 1, "a": 2}), list(reversed([1, 2])))
print(min([3, 1]), max((1, 5, 3)), sum([1, 2], 10), sum([[1], [2]], []), sum((0.5, 1)), sum([]))
print(any([]), all([]), any([0, "", None, []]), all([1, "x", [0]]), any([x > 2 for x in []]))
print(bool([]), bool([0]), bool(()), bool({}), bool({0: 0}), not [], not [1], [] or "empty",
      [1] and 2)
print(list(range(3)), list(range(2, 8, 3)), list(range(5, 0, -2)), list(range(0)),
      list(range(3, 1)))
print(range(10)[2], range(10)[-1], range(0, 10, 3)[1:3], 4 in range(0, 10, 2), len(range(1, 10, 4)))
print(list(enumerate(["a", "b"])), list(zip()), list(zip([1])))
print(list(zip([1, 2, 3], "ab", (True, False))), [x + y for x, y in zip([1, 2], [10, 20])])
many = set()
squares = {}
for i in range(30000):
    many.add(i * 7 % 30011)
    squares[(i, "x")] = i * i
for i in range(0, 30000, 3):
    many.discard(i)
    squares.pop((i, "x"))
del squares[(1, "x")]
print(len(many), sum(many), list(many)[:5], len(squares), list(squares)[0], squares[(2, "x")])
print({x for x in many if x % 3000 == 1}, squares == dict(squares), many == set(many))
