#include "sim/language/run/interpreter.h"

#include <doctest/doctest.h>

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "schema/op_registry.h"
#include "tests/unit/scenario/scenario_text.h"

using namespace shardlab;

namespace {

/// Keeps the printed and assigned values of a program.
class Notes : public ValueSink {
 public:
  void assigned(const std::string& name, std::int64_t occurrence, const Value& value,
                const Where&) override {
    assignments.push_back(fmt::format("{}#{} = {}", name, occurrence, repr(value)));
  }
  void printed(const std::string& line) override { lines.push_back(line); }

  std::vector<std::string> lines;
  std::vector<std::string> assignments;
};

struct Run {
  std::vector<std::string> lines;
  std::vector<std::string> assignments;
  std::string error;  ///< Error::text() of the error that stopped it
};

Scenario scenario_of(const std::string& code, const std::string& params = "") {
  const std::string text =
      "[mesh]\ntp = 4\ndp = 2\n[params]\n" + params + "\n[program]\ncode = '''\n" + code + "'''\n";
  return test::scenario_of(text);
}

Run run(const std::string& code, std::int64_t rank = 0) {
  const Scenario scenario = scenario_of(code, "hidden = 16\nname = \"mlp\"");
  Arena arena;
  OpRegistry registry;
  Notes notes;
  ProgramSetup setup;
  setup.program = scenario.program.get();
  setup.params = &scenario.params;
  setup.registry = &registry;
  setup.layout = setup.reported = arena.layout({{4, 2}, {"tp", "dp"}, {}});
  setup.rank = rank;
  setup.world_size = 8;
  setup.sink = &notes;
  setup.step_limit = 1000;
  Run out;
  try {
    check_names(scenario, registry);
    Interpreter interpreter(setup);
    interpreter.run();
  } catch (const ScenarioError& error) {
    out.error = error.report();
  } catch (const Error& error) {
    out.error = fmt::format("{}: {}", to_string(error.kind()), error.text());
  }
  out.lines = std::move(notes.lines);
  out.assignments = std::move(notes.assignments);
  return out;
}

}  // namespace

TEST_CASE("expressions print what Python prints") {
  struct Row {
    const char* expression;
    const char* printed;
  };
  const Row rows[] = {
      {"1 + 2 * 3, 7 // 2, -7 // 2, -7 % 3, 7 / 2, 2 ** 10, 2 ** -1",
       "(7, 3, -4, 2, 3.5, 1024, 0.5)"},
      {"1 < 2 < 3, 1 < 3 < 2, not 1, 1 and 0, 0 or 'x', None or []",
       "(True, False, False, 0, 'x', [])"},
      {"[1, 2] + [3], (1,) * 3, 'ab' * 2, 'a' + 'b'", "([1, 2, 3], (1, 1, 1), 'abab', 'ab')"},
      {"[1, 2, 3, 4][1:3], (1, 2, 3)[::-1], 'hello'[-3:], [1, 2][-1]",
       "([2, 3], (3, 2, 1), 'llo', 2)"},
      {"[x * y for x in range(3) if x > 0 for y in [1, 10]]", "[1, 10, 2, 20]"},
      {"{'a': 1, 'b': [2]}['b'], {'a': 1} == {'a': 1}", "([2], True)"},
      {"[1, 2] == [1, 2], (1, 2) == [1, 2], 1 == 1.0, 'a' < 'b', [1, 2] < [1, 3]",
       "(True, False, True, True, True)"},
      {"2 in [1, 2], 'el' in 'hello', 3 not in range(0, 10, 2), 'a' in {'a': 1}",
       "(True, True, True, True)"},
      {"1 if hidden > 8 else 2, name, hidden", "(1, 'mlp', 16)"},
      {"f'{hidden:>4}|{1/3:.3f}|{name!r}|{hidden=}|{{}}|{1e-5}'",
       "  16|0.333|'mlp'|hidden=16|{}|1e-05"},
      {"len([1, 2]), sum([1, 2.5]), max(1, 3, 2), min([3, 1]), abs(-2), round(2.567, 2)",
       "(2, 3.5, 3, 1, 2, 2.57)"},
      {"f'{3.0:4}|{3.0:.3}|{1234567.0:.3}|{100.0:.3}|{-120.0:.3}|{100.0:.4}|{3.0:08}|{3.0:+}|{3.5:<"
       "5}|{0.0:.1}|'",
       " 3.0|3.0|1.23e+06|1e+02|-1.2e+02|100.0|000003.0|+3.0|3.5  |0e+00|"},
      {"9007199254740993 == 9007199254740992.0, 9007199254740993 > 9007199254740992.0, 3 == 3.0, 1 "
       "< 1.5",
       "(False, True, True, True)"},
      {"round(2.675, 2), round(1.005, 2), round(0.5, 0), round(-0.001, 2), round(1e300, 400), "
       "round(1.5, 0)",
       "(2.67, 1.0, 0.0, -0.0, 1e+300, 2.0)"},
      {"round(1250, -2), round(1350, -2), round(-25, -1), round(-26, -1), round(7, 3), round(7, "
       "-30), round(1234.5, -2)",
       "(1200, 1400, -20, -30, 7, 0, 1200.0)"},
      {"list(range(5, 0, -2)), list(enumerate('ab')), list(zip([1, 2], 'xy'))",
       "([5, 3, 1], [(0, 'a'), (1, 'b')], [(1, 'x'), (2, 'y')])"},
      {"int('12'), int(2.9), float(1), bool([]), str(1.0), any([0, 1]), all([])",
       "(12, 2, 1.0, False, '1.0', True, True)"},
      {"sorted([3, 1, 2]), reversed([1, 2]), ', '.join(['a', 'b']), {'a': 1}.get('b', 5)",
       "([1, 2, 3], [2, 1], 'a, b', 5)"},
      {"rank, world_size, mesh.size('tp'), mesh.size(), mesh.shape, mesh.names",
       "(0, 8, 4, 8, (4, 2), ('tp', 'dp'))"},
      {"S(0), R, P(sum), P('max'), P(avg), SS(0, 2), P()",
       "(S(0), R, P(sum), P(max), P(avg), SS(0,2), P(sum))"},
      {"f32, torch.float16, bf16 == torch.bfloat16", "(f32, f16, True)"},
      {"10 ** 3 & 7, 5 | 2, 5 ^ 1, ~5, 1 << 4, -16 >> 2", "(0, 7, 4, -6, 16, -4)"},
      {"None is None, [] is [], 1 is not None", "(True, False, True)"},
  };
  for (const Row& row : rows) {
    CAPTURE(std::string(row.expression));
    const Run got = run(fmt::format("x = {}\nprint(x)\n", row.expression));
    CHECK(got.error == "");
    REQUIRE(got.lines.size() == 1);
    CHECK(got.lines[0] == row.printed);
  }
}

TEST_CASE("statements: loops, functions, unpacking, in-place updates of lists") {
  CHECK(run("t = 0\nfor i in range(10):\n    if i == 3:\n        continue\n    if i == 6:\n"
            "        break\n    t += i\nprint(t)\n")
            .lines == std::vector<std::string>{"12"});
  CHECK(run("def f(x, scale=2):\n    y = x * scale\n    return y, scale\n"
            "a, b = f(3)\nc, _ = f(scale=5, x=1)\nprint(a, b, c)\n")
            .lines == std::vector<std::string>{"6 2 5"});
  CHECK(run("def fact(n):\n    return 1 if n < 2 else n * fact(n - 1)\nprint(fact(10))\n").lines ==
        std::vector<std::string>{"3628800"});
  CHECK(
      run("n = 10\nwhile n > 1:\n    n = n // 2 if n % 2 == 0 else 3 * n + 1\nprint(n)\n").lines ==
      std::vector<std::string>{"1"});
  CHECK(run("a = [1]\nb = a\nb.append(2)\nb[0] = 5\nd = {}\nd['k'] = (1, 2)\nprint(a, d, a is b)\n")
            .lines == std::vector<std::string>{"[5, 2] {'k': (1, 2)} True"});
  CHECK(run("a = [1]\nb = a\nb += (2, 3)\nb *= 2\nprint(a, a is b)\nb += b\nb = b + "
            "[4]\nprint(len(a), len(b))\n"
            "def f(l):\n    l += 'xy'\nc = {'k': []}\nf(c['k'])\nc['k'] += range(2)\nt = (1,)\ns = "
            "t\ns += (2,)\n"
            "print(c, t, s)\n")
            .lines == std::vector<std::string>{"[1, 2, 3, 1, 2, 3] True", "12 13",
                                               "{'k': ['x', 'y', 0, 1]} (1,) (1, 2)"});
  CHECK(run("a = []\na += [a]\n").error != "");
  CHECK(run("a = [1]\na += 2\n").error != "");
  CHECK(run("x = 1\ndef f():\n    return x\nx = 2\nprint(f(), [x for x in range(3)], x)\n").lines ==
        std::vector<std::string>{"2 [0, 1, 2] 2"});
  CHECK(run("d = {}\nd['w'] = {'k': [1]}\nd['w']['k'].append([2])\nd['n'] = d['w']['k']\n"
            "d['n'].append(3)\nprint(d)\n")
            .lines == std::vector<std::string>{"{'w': {'k': [1, [2], 3]}, 'n': [1, [2], 3]}"});
  CHECK(run("r = [[i, 2 * i] for i in range(3)]\nprint({k: v for k, v in r if k}, {})\n").lines ==
        std::vector<std::string>{"{1: 2, 2: 4} {}"});
  CHECK(run("p = q = [0]\np.append(1)\nx = y, z = 3, 4\nprint(q, p is q, x, y, z)\n").lines ==
        std::vector<std::string>{"[0, 1] True (3, 4) 3 4"});
  CHECK(run("for i in range(2):\n    pass\nelse:\n    print('for', i)\n"
            "for i in [5]:\n    break\nelse:\n    print('never')\n"
            "while i > 4:\n    i -= 1\nelse:\n    print('while', i)\n"
            "while True:\n    break\nelse:\n    print('never')\n")
            .lines == std::vector<std::string>{"for 1", "while 4"});
  CHECK(run("args = [1, 2]\nprint(*args, 3)\n").lines == std::vector<std::string>{"1 2 3"});
  CHECK(run("if rank == 3:\n    print('three')\nelse:\n    print('other')\n", 3).lines ==
        std::vector<std::string>{"three"});
  CHECK(run("print(mesh.coordinate(), mesh.coordinate('dp'))\n", 5).lines ==
        std::vector<std::string>{"(2, 1) 1"});
}

TEST_CASE("assignments are reported with their occurrence; those of a def under its name") {
  const Run got =
      run("x = 1\nx = 2\ndef f(a):\n    y = a\n    y += 1\n    return y\na, b = f(x), 5\nfor i in "
          "[1]:\n"
          "    x = i\n");
  CHECK(got.assignments == std::vector<std::string>{"x#0 = 1", "x#1 = 2", "f.y#0 = 2", "f.y#1 = 3",
                                                    "a#0 = 3", "b#0 = 5", "x#2 = 1"});
}

namespace {

struct Fault {
  const char* code;
  const char* says;
  const char* at;
};

void check_faults(std::span<const Fault> rows) {
  for (const Fault& row : rows) {
    CAPTURE(std::string(row.code));
    const Run got = run(row.code);
    CAPTURE(got.error);
    CHECK(got.error.find(row.says) != std::string::npos);
    CHECK(got.error.find(row.at) != std::string::npos);
  }
}

}  // namespace

TEST_CASE("containers neither hold themselves nor grow without bounds") {
  const Fault rows[] = {
      {"x = []\nx.append(x)\n", "Value: a list cannot hold itself", "t.toml:10:3"},
      {"x = []\nx.append({1: (2, x)})\n", "Value: a list cannot hold itself", "t.toml:10:3"},
      {"d = {}\nx = [d]\nd['k'] = x\n", "Value: a dict cannot hold itself", "t.toml:11:1"},
      {"x = [1]\nfor i in range(40):\n    y = []\n    y.append(x)\n    x = y\n",
       "Unsupported: containers are nested deeper than 32", "t.toml:12:7"},
      {"x = [1]\nfor i in range(40):\n    x = list(zip(x))\n",
       "Unsupported: containers are nested deeper than 32", "t.toml:11:"},
      {"h = [0]\nfor i in range(28):\n    y = []\n    y.append(h[0])\n    y.append(h[0])\n"
       "    h[0] = y\nprint(h)\n",
       "Value: the text of a value has more than 16777216 bytes", "t.toml:15:1"},
      {"h = [0, 0]\nfor i in range(28):\n    for j in range(2):\n        y = []\n"
       "        y.append(h[j])\n        y.append(h[j])\n        h[j] = y\nprint(h[0] == h[1])\n",
       "Unsupported: the values to compare have more than 10000000 items", "t.toml:16:7"},
  };
  check_faults(rows);
}

TEST_CASE("B-63 errors of a program say what and where") {
  const Fault rows[] = {
      {"x = 1\nassert x == 2, f'x is {x}'\n", "Assert: assert x == 2: x is 1", "t.toml:10:1"},
      {"x = 1 // 0\n", "Value: the divisor is zero", "t.toml:9:5"},
      {"x = [1][3]\n", "Value: index 3 is out of range for a list of size 1", "t.toml:9:5"},
      {"x = {'a': 1}['b']\n", "Value: the dict has no key 'b'", "t.toml:9:5"},
      {"a, b = [1, 2, 3]\n", "Value: there are 3 values for 2 names", "t.toml:9:1"},
      {"x = 'a' + 1\n", "Value: '+' does not work between a str and an int", "t.toml:9:5"},
      {"x = 'a' < 1\n", "Value: '<' does not work between a str and an int", "t.toml:9:5"},
      {"x = -'a'\n", "Value: '-' does not work on a str", "t.toml:9:5"},
      {"x = y\ny = 1\n", "Value: 'y' is used before it has a value", "t.toml:9:5"},
      {"def f():\n    z = w\n    w = 1\nf()\n", "Value: 'w' is used before it has a value in f",
       "t.toml:10:9"},
      {"def f(a):\n    pass\nf()\n", "Value: f: argument 'a' is missing", "t.toml:11:1"},
      {"def f(a):\n    pass\nf(1, 2)\n",
       "Value: f: the number of arguments is 2, and it takes at most 1", "t.toml:11:1"},
      {"def f(size):\n    pass\nf(sise=1)\n", "did you mean 'size'?", "t.toml:11:1"},
      {"x = 1\nx()\n", "Value: an int cannot be called", "t.toml:10:1"},
      {"x = 1\nx.append(2)\n", "Value: an int has no 'append'", "t.toml:10:3"},
      {"for i in 3:\n    pass\n", "Value: an int cannot be iterated over", "t.toml:9:1"},
      {"while True:\n    pass\n", "Runtime: more than 1000 passes through while loops",
       "t.toml:9:1"},
      {"for i in range(10 ** 12):\n    pass\n", "Runtime: more than 10000 passes through for loops",
       "t.toml:9:1"},
      {"def f(n):\n    return n if n < 2 else f(n - 1) + f(n - 2)\nf(22)\n",
       "Runtime: more than 10000 calls and passes through for loops", "t.toml:10:28"},
      {"x = [0 for i in range(200) for j in range(200)]\n",
       "Runtime: more than 10000 passes through for loops", "t.toml:9:37"},
      {"for i in range(-9223372036854775807, 9223372036854775807):\n    x = 1 // (i + 1)\n    "
       "break\n"
       "for i in range(3, -9223372036854775807, -9223372036854775807):\n    x = 1 // (i - 3)\n",
       "Value: the divisor is zero", "t.toml:13:9"},
      {"def f():\n    return f()\nf()\n", "Runtime: calls are nested too deeply", "t.toml:10:"},
      {"x = {i: j for i, j in [1]}\n", "Value: an int cannot be iterated over", "t.toml:9:23"},
      {"x = {[i]: i for i in [1]}\n", "Value: a list cannot be a key of a dict", "t.toml:9:5"},
      {"a = b, c = 1, 2, 3\n", "Value: there are 3 values for 2 names", "t.toml:9:5"},
      {"x = [1]\nfor i in range(40):\n    x = [x]\n",
       "Unsupported: containers are nested deeper than 32", "t.toml:11:9"},
      {"x = [1]\nfor i in range(30):\n    x = [x, x]\n",
       "Unsupported: a list holds more than 1000000 items", "t.toml:11:9"},
      {"x = [0] * 10 ** 9\n", "Unsupported: a list holds more than 1000000 items", "t.toml:9:5"},
      {"x = mesh['pp']\n", "Value: mesh[...]: 'pp' is not a mesh dim", "t.toml:9:5"},
      {"x = P('summ')\n", "did you mean 'sum'?", "t.toml:9:5"},
      {"x = f'{1:q}'\n", "Value: the format 'q' does not fit an int: 'q' is no type of it",
       "t.toml:9:5"},
      {"x = range(1, 2, 0)\n", "Value: range: the step is 0", "t.toml:9:5"},
      {"x = 2 ** 100\n", "Unsupported: 2 ** 100 does not fit into 64 bits", "t.toml:9:5"},
  };
  check_faults(rows);
}

TEST_CASE("unknown names, ops and methods are faults of the file") {
  const Fault rows[] = {
      {"x = hiden\n", "error: unknown name 'hiden'", "t.toml:9:5"},
      {"x = hiden\n", "did you mean 'hidden'?", "t.toml:9:5"},
      {"prnt(1)\n", "did you mean 'print'?", "t.toml:9:1"},
      {"if False:\n    redistibute(1)\n", "did you mean 'redistribute'?", "t.toml:10:5"},
      {"x = [y for y in range(3)]\nz = y\n", "unknown name 'y'", "t.toml:10:5"},
      {"def f(a):\n    return a\nx = a\n", "unknown name 'a'", "t.toml:11:5"},
      {"x = 1\nx.redistribut(tp=R)\n", "did you mean 'redistribute'?", "t.toml:10:3"},
      {"x = torch.nonsense(1)\n", "unknown op 'torch.nonsense'", "t.toml:9:11"},
      {"x = torch.nn.functional.tenser(1)\n", "did you mean 'tensor'?", "t.toml:9:25"},
      {"x = aten.nonsense.default(1)\n", "unknown op 'aten.nonsense'", "t.toml:9:10"},
      {"x = torch.bfloat61\n", "unknown op 'torch.bfloat61'", "t.toml:9:11"},
  };
  check_faults(rows);
}
