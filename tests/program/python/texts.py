# Strings: indices, slices, comparisons, methods, iteration, escapes.
text = "shardlab"
for i in range(-8, 8):
    print(i, text[i])
for start in [None, -20, -8, -3, 0, 2, 7, 8, 20]:
    for stop in [None, -9, -1, 0, 5, 8, 9]:
        for step in [None, 1, 2, 3, -1, -2, -5]:
            print(text[start:stop:step], start, stop, step)
print("a" < "b", "a" < "B", "abc" < "abd", "abc" < "abcd", "" < "a", "é" > "z", "Z" < "a")
print("a" == "a", "a" == 1, "a" != "b", "abc" >= "abc", "b" > "abc", "aa" <= "ab")
print("" in "", "" in "abc", "abc" in "abc", "ac" in "abc", "c" not in "abc", "bc" in "abcbc")
print("a" + "b" * 3 + "c", 3 * "xy", "x" * 0, "x" * -2, "-" * 10)
print(",".join(["a", "b", "c"]), "".join([]), ", ".join(("x",)), "-".join("word"))
print("-".join([str(i) for i in range(5)]), " ".join({"k": 1, "l": 2}))
print(text.startswith("sh"), text.startswith(""), text.startswith("Sh"), text.endswith("lab"))
print(text.endswith(""), text.endswith("shardlabs"), "".startswith("a"))
print(len(""), len(text), len("é─x"), len("a\tb\n"), len("\\"), len(r"\n"))
print(list("abc"), tuple("ab"), sorted("shard"), list(reversed("abc")), list(enumerate("ab")))
print(list(zip("abc", [1, 2])), max("shard"), min("shard"), "s" in list("shard"))
print([c for c in "a b" if c != " "], {c: c * 2 for c in "xy"}, bool(""), bool(" "))
for c in "ab":
    for d in c + "!":
        print(c, d)
print('single \'quoted\'', "double \"quoted\"", "mixed 'x' \"y\"", repr("'"), repr('"'),
      repr("'\""))
print(repr("\t\n\r\\"), repr("\x41\u00e9\x7f\x00"), "\x41\u00e9", repr("é─"))
print("""three
lines
here""", '''and "these"''')
print("joined \
over lines", "adjacent " 'texts')
print(str(text) is text, str(5) + "5", int("12") + 1, int("-7"), int("+3"), float("inf"))
print(text[2:][1:][0], text[::-1][::-1] == text, text[:3] + text[3:] == text)
names = ["up", "down", "gate"]
print([n + ".weight" for n in names if n.startswith("g") or n.endswith("n")])
print(sorted(names), sorted(names)[0][0], max(names), min(names), names.index("down"))
print(names == ["up", "down", "gate"], "up" in names, "Up" in names, "u" in names[0])
