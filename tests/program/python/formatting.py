# f-strings: widths, signs, fills, precision, types, !r, and = with its expression.
for n in [0, 1, -1, 7, -42, 255, 1000000]:
    print(f"{n}|{n:d}|{n:5d}|{n:<5d}|{n:^5d}|{n:>5d}|{n:05d}|{n:+d}|{n: d}")
    print(f"{n:x}|{n:X}|{n:o}|{n:b}|{n:#x}|{n:#o}|{n:#b}|{n:#010x}|{n:*^9d}|{n:->9}")
    print(f"{n:.2f}|{n:e}|{n:.3e}|{n:g}|{n:10.1f}|{n:+.0f}|{n:08.2f}")
for x in [0.0, -0.0, 0.5, -1.5, 2.5, 3.14159, 1e-5, 1e16, 123456.789, 1e300, 9.995]:
    print(f"{x}|{x:f}|{x:.0f}|{x:.1f}|{x:.3f}|{x:10.2f}|{x:<10.2f}|{x:^10.2f}|{x:010.2f}")
    print(f"{x:e}|{x:.0e}|{x:.3e}|{x:E}|{x:g}|{x:.2g}|{x:.10g}|{x:G}|{x:+}|{x: .1f}|{x:*>12}")
    print(f"{x!r}|{x!s}|{x!r:>25}|{x:}|{x:8}|{x:<8}|{x:.4}|{x:12.4}")
for s in ["", "a", "abc", "it's", 'say "x"', "tab\there", "é─", "a\\b", "line\nbreak"]:
    print(f"{s}|{s:5}|{s:<5}|{s:>5}|{s:^5}|{s:*^9}|{s!r}|{s!r:>14}|{s!s:>6}")
for flag in [True, False, None]:
    print(f"{flag}|{flag!r}|{flag!s:>7}|{flag!r:<7}|")
value = [1, (2.5, "x"), {"k": None}]
print(f"{value}|{value!r}|{value!s:>40}|{value[1][0]:.2f}|{value[2]['k']}|{len(value)}")
print(f"{value=}")
print(f"{len(value) = }")
print(f"{value[0] + 1=}|{value[1][0]=:.3f}|{value[1][1]=!s}|{ 1 + 1 = }")
print(f"{{}}|{{{1}}}|{{{{|}}}}|{'}'}|{'{'}")
print(f"{1 if value else 2}|{[i * i for i in range(4)]}|{ {'a': 1}['a'] }|{(1, 2)[0]}")
print("a" "b" f"{1}" "c" f"{2}{3}" "{not}")
print(f"{1 < 2}|{1 == 2 or 3}|{not 1}|{-1}|{2 ** 10}|{7 // 2}|{'x' in 'xyz'}")
rows = 4
print(f"{rows * 2:>6}|{rows:.1%}" if rows else "")
print(f"{'left':<8}{'mid':^8}{'right':>8}", f"{3:<3}{4:^3}{5:>3}.")
print(f"{1234567.891:.2f} {0.1 + 0.2} {0.1 + 0.2:.17f} {1 / 3:.5f} {2 / 3:.3}")
print(f"{10 ** 15} {10 ** 18} {float(10 ** 15)} {float(10 ** 16)} {float(10 ** 17):.1f}")
print(str(1.0), str(100000000000000000.0), str(1e22), str(1e-7), str(-2.5e-10), repr("a'b\"c"))
print(repr([1.5, "q", None, True]), str((1,)), str(()), str({}), str([[]]), repr({"a": (1, 2)}))
