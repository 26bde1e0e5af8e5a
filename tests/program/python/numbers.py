# Integers and floats: every operator on pairs, conversions, rounding, comparisons of both kinds.
wholes = [0, 1, -1, 2, 3, -7, 10, 255, -256, 4294967296, -4611686018427387904]
reals = [0.0, -0.0, 0.5, -1.5, 2.5, 1e-3, 1e10, -1e-300, 123456789.125, 3.0]
for a in wholes:
    print(a, -a, +a, ~a, abs(a), not a, bool(a), float(a), str(a), repr(a), int(a), round(a))
    print([a == b for b in reals], [a < b for b in reals], [a >= b for b in reals])
    for b in wholes:
        print(a & b, a | b, a ^ b, a == b, a != b, a < b, a <= b, a > b, a >= b, max(a, b),
              min(a, b))
        if b != 0:
            print(a // b, a % b, a / b, (a // b) * b + a % b == a)
    for b in [0, 1, 5]:
        print(a >> b, a >> 70, (a % 1000) << b, (a % 7) ** b, (a % 10) * b - b)
for x in reals:
    print(x, -x, +x, abs(x), not x, bool(x), str(x), repr(x), round(x), round(x, 2), round(x, -1))
    for y in reals:
        print(x + y, x - y, x * y, x == y, x < y, x <= y, x != y, max(x, y), min(x, y))
        if y != 0:
            print(x / y, x // y, x % y)
    for n in [0, 1, 2, -1, 3]:
        if x != 0 or n >= 0:
            print(abs(x) ** n if abs(x) < 1e9 else "large", x + n, n - x, x * n)
    print(int(x), float(int(x)) <= x or x < 0, int(x) == x)
print(7 // 2, -7 // 2, 7 // -2, -7 // -2, 7 % 3, -7 % 3, 7 % -3, -7 % -3)
print(7.5 // 2, -7.5 // 2, 7.5 % -2, -7.5 % 2, 1e10 % 7, 5 % 0.3, -5 % 0.3, 1.0 // 0.1)
print(2 ** 62, 2 ** -3, (-2) ** 3, (-2) ** -3, 0 ** 0, 0.0 ** 0, 1 ** -5, 4 ** 0.5, 8 ** (1 / 3),
      2.5 ** 2)
print(True + 1, True * 2.5, True / 2, -True, ~True, True << 3, True == 1, True is True, True < 2,
      False ** 0)
print(True & False, True | 2, True ^ True, 6 & True, max(True, 0), sum([True, True]), abs(False))
print(1 / 3, 2 / 3, 10 / 4, 1e16 + 1, 0.1 + 0.2, 0.1 * 3, 1 - 0.9, 1e308 * 10, -1e308 * 10)
print(1e308 * 10 - 1e308 * 10 != 0, float("inf") > 1e300, float("-inf") < -1e300,
      float("inf") == float("inf"))
nan = float("nan")
print(nan, nan == nan, nan != nan, nan < 1, nan > 1, not nan < 1, bool(nan), [nan] == [1], -nan)
print(1 < 2 < 3, 1 < 3 < 2, 1 == 1.0 == True, 3 > 2 >= 2 != 1, not 1 < 2, 1 < (2 > 1) + 5)
print(9007199254740992 == 9007199254740992.0, 9007199254740993 == 9007199254740992.0)
print(9007199254740993 > 9007199254740992.0, -9007199254740993 < -9007199254740992.0)
print(9223372036854775807, -9223372036854775807 - 1)
print(round(0.5), round(1.5), round(2.5), round(-0.5), round(-1.5), round(2.675, 2),
      round(1e300, 2))
print(round(5, -1), round(15, -1), round(25, -1), round(-15, -1), round(14, -1), round(1234, -2),
      round(1250, -2))
print(round(1.25, 1), round(1.35, 1), round(-1.25, 1), round(0.05, 1), round(1234.5678, -2),
      round(5.5), round(6.5))
print(int(3.99), int(-3.99), int("42"), int("-0"), int(True), int(1e15), int("007"), int(-0.5))
print(float(3), float(True), float("inf"), float("-inf"), float(2 ** 53), float(10 ** 18))
print(0x1f, 0b101, 0o17, 1_000_000, 1e3, 1E-2, .5, 5., 0.1e1, 1_0.2_5, 0xDEAD_BEEF, 00)
print(1 if 0.0 else 2, 1 if -0.0 else 2, 1 if 1e-300 else 2, 0.0 == -0.0, 1 / 1e-300 > 0)
print(sum([0.1] * 10), sum([1, 2.5, True]), sum(range(101)), sum([], 5), max([3, 1.5, 2]),
      min(2, 1.0), max(1, True))
print(max([1, 2], [1, 3]), min("b", "a"), max((1, "b"), (1, "a")), min([[2], [1, 5]]),
      max([0.5, 0]), min(1, 1.0))
print(abs(-3), abs(-3.5), abs(True), abs(-0.0), 5 == 5.0, "5" == 5, None == 0, None is None)
i = 7
i += 3; print(i)
i -= 4; print(i)
i *= 6; print(i)
i //= 5; print(i)
i **= 3; print(i)
i %= 100; print(i)
i <<= 4; print(i)
i >>= 2; print(i)
i |= 9; print(i)
i &= 60; print(i)
i ^= 21; print(i)
i /= 8; print(i)
total, term, n = 0.0, 1.0, 0
while term > 1e-12:
    total += term
    n += 1
    term /= n
print(total, n)
a, b = 1071, 462
while b:
    a, b = b, a % b
print(a)
primes = []
for n in range(2, 60):
    if all([n % p for p in primes]):
        primes.append(n)
print(primes, len(primes), sum(primes))
def fibonacci(n):
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a
print([fibonacci(n) for n in range(12)], fibonacci(90))
def bits(n):
    return "".join([str((n >> i) & 1) for i in [3, 2, 1, 0]])
print([bits(n) for n in range(16)])
