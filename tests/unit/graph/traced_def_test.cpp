// trace(f) in programs: the second call is the graph's, with the values of the def itself, which
// are known from the single-device run and plain calls of the same def.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "dispatch/all_ops.h"
#include "sim/judge/scenario_run.h"
#include "tests/unit/scenario/scenario_text.h"

namespace shardlab {
namespace {

ScenarioResult run(const std::string& program, const std::string& backend = "threads") {
  ScenarioOptions options;
  options.backend = backend;
  return run_scenario(test::scenario_of(fmt::format("seed = 5\n"
                                                    "[mesh]\n"
                                                    "dp = 2\n"
                                                    "tp = 2\n"
                                                    "[inputs]\n"
                                                    "x = \"f32[7@dp, 6]\"\n"
                                                    "y = \"f32[7@dp, 6]\"\n"
                                                    "short = \"f32[1@dp, 6]\"\n"
                                                    "none = \"f32[0@dp, 6]\"\n"
                                                    "five = \"f32[5@dp, 6]\"\n"
                                                    "eight = \"f32[8@dp, 6]\"\n"
                                                    "w = {{ type = \"f32[6, 5@tp]\", "
                                                    "requires_grad = true }}\n"
                                                    "[program]\n"
                                                    "code = \"\"\"\n{}\"\"\"\n",
                                                    program)),
                      all_ops(), options);
}

std::string outcome(const std::string& program) {
  const ScenarioResult result = run(program);
  if (result.run.error) return result.run.error->summary();
  return result.met() ? "fine" : "wrong";
}

const char* const kBlock = R"(
def block(a):
    h = (a @ w).softmax(-1)
    return [h.sum(0), a * 2]
step = trace(block)
)";

TEST_CASE("T-1 T-58 trace(f) gives what f gives, on other elements, uneven and empty rows") {
  const std::string block = kBlock;
  CHECK(outcome(block + R"(
first = step(x)
second = step(y)
own = block(y)
assert second[0].equal(own[0]) and second[1].equal(own[1])
assert second[0].placements == own[0].placements
assert len(step.graphs) == 1 and 'softmax' in step.graphs[0] and len(step.breaks) == 0
)") == "fine");
  for (const char* rows : {"short", "none"}) {
    CHECK(outcome(block + fmt::format("step({0})\na = step({0})\nb = block({0})\n"
                                      "assert a[0].equal(b[0]) and a[1].equal(b[1])\n",
                                      rows)) == "fine");
  }
}

TEST_CASE("T-55 X-64 hooks that a traced def registers and is done with run again in its graph") {
  // On an intermediate value, on a leaf that is gone, on one from outside that they are taken off,
  // and on a def; each changes the gradient, so that a replay without it would differ.
  CHECK(outcome(R"(
def layer(v):
    return (v @ w).tanh()
def tripled(module, grad_input, grad_output):
    return (grad_input[0] * 3,)
def fivefold(g):
    return g * 5
def clipped(g):
    return g.clamp(-0.5, 0.5)
def f(a):
    leaf = a.detach().requires_grad_()
    leaf.register_hook(fivefold)
    on_w = w.register_hook(clipped)
    on_layer = layer.register_full_backward_hook(tripled)
    w.grad = None
    h = layer(leaf)
    h.register_hook(fivefold)
    h.square().sum().backward()
    on_w.remove()
    on_layer.remove()
    return leaf.grad * 1, w.grad * 1
step = trace(f)
step(x)
a = step(y)
b = step(y)
own = f(y)
assert len(step.breaks) == 0
assert a[0].equal(own[0]) and a[1].equal(own[1]) and b[1].equal(own[1])
)") == "fine");
}

TEST_CASE("T-55 hooks from around a traced def that its calls pass are part of its graph") {
  CHECK(outcome(R"(
factor = x.sum() * 0 + 3
def layer(v):
    return v @ w
def scaled(module, grad_input, grad_output):
    return (grad_input[0] * factor,)
h = layer.register_full_backward_hook(scaled)
def f(a):
    leaf = a.detach().requires_grad_()
    layer(leaf).square().sum().backward()
    w.grad = None
    return leaf.grad * 1
step = trace(f)
step(x)
assert len(step.breaks) == 0
factor = factor * 2
assert step(y).equal(f(y))
)") == "fine");
  // Another hook is another def.
  CHECK(outcome(R"(
def nothing(module, grad_input, grad_output):
    pass
def layer(v):
    return v * 2
def f(a):
    return layer(a)
step = trace(f)
step(x)
layer.register_full_backward_hook(nothing)
step(x)
)")
            .find("outside.layer.hooks") != std::string::npos);
}

TEST_CASE("T-6 X-63 hooks that outlive a traced def are a break: on a leaf, a def, what it gives") {
  for (const char* body :
       {"    w.register_hook(same)\n    return a @ w\n",
        "    layer.register_full_backward_hook(nothing)\n"
        "    return layer(a)\n",
        "    h = a @ w\n    h.register_hook(same)\n    return h\n",
        "    early.remove()\n    return a @ w\n", "    other.remove()\n    return a @ w\n"}) {
    CAPTURE(body);
    CHECK(outcome(std::string("def layer(v):\n    return v * 2\n"
                              "def same(g):\n    return g\n"
                              "def nothing(m, i, o):\n    pass\n"
                              "early = w.register_hook(same)\n"
                              "other = layer.register_full_backward_hook(nothing)\n"
                              "def f(a):\n") +
                  body + "step = trace(f)\nstep(x)\nassert len(step.breaks) > 0\n") == "fine");
  }
}

TEST_CASE("T-58 variables that a traced def reads from outside have their values at the call") {
  CHECK(outcome(R"(
table = {'scale': x * 0 + 1}
def f(a):
    return a * table['scale']
step = trace(f)
step(x)
table['scale'] = y
assert step(x).equal(x * y)
)") == "fine");
}

TEST_CASE("T-58 gradients, their removal, and draws go on from call to call as without a graph") {
  CHECK(outcome(R"(
g = torch.Generator().manual_seed(3)
def f(a):
    w.grad = None
    (a @ w).sum().backward()
    return [w.grad * 1, randn([5], generator=g), rand([7, 2], dp=S(0), generator=g), rand([3])]
step = trace(f)
torch.manual_seed(9)
graph = [step(x), step(y)]
assert len(step.breaks) == 0
g.manual_seed(3)
torch.manual_seed(9)
own = [f(x), f(y)]
for i in range(2):
    for j in range(4):
        assert graph[i][j].equal(own[i][j])
)") == "fine");
}

TEST_CASE("T-4 T-56 a call that the guards do not admit is refused by the name of what differs") {
  const std::string block = kBlock;
  CHECK(outcome(block + "step(x)\nstep(short)\n") ==
        "the graph does not fit: a is f32[1@dp, 6], and was f32[7@dp, 6]");
  CHECK(outcome(block + "step(x)\nstep(x.redistribute(dp=R))\n") ==
        "the graph does not fit: a is f32[7, 6], and was f32[7@dp, 6]");
  CHECK(outcome(block + "step(x)\nwith no_grad():\n    step(x)\n") ==
        "the graph does not fit: grad mode is off, and was on");
  CHECK(outcome(R"(
def scaled(a, by=2):
    return a * by
step = trace(scaled)
step(x, 3)
step(x, by=3)
step(x, 4)
)") == "the graph does not fit: by is 4, and was 3");
  CHECK(outcome(R"(
def both(a, b):
    return a.add_(b)
step = trace(both)
z = x * 1
step(z, z)
step(z, y)
)") == "the graph does not fit: b is (nothing), and was the same as a");
}

TEST_CASE("T-5 X-63 a def that does what no graph has is called as it is, and says why") {
  CHECK(outcome(R"(
seen = []
def f(a):
    if a.sum().item() > 1e6:
        return a
    seen.append(1)
    return a * 2
step = trace(f)
step(x)
assert step(y).equal(y * 2)
assert len(seen) == 2 and len(step.breaks) == 2
assert step.breaks[0].startswith('data-dependent value')
assert step.breaks[1].startswith('side effect')
)") == "fine");
  CHECK(outcome("def f(a):\n    print('hello')\n    return a\nstep = trace(f)\nstep(x)\nstep(x)\n"
                "assert step.breaks[0] == 'side effect: print'\n") == "fine");
}

const char* const kSized = R"(
def block(a):
    rows = a.shape[0]
    h = (a @ w).softmax(-1)
    flat = h.redistribute(dp=R, tp=R).view([rows * 5])
    mean = a.sum(0) / rows
    noise = ones([a.size(0), 3], dp=S(0)) + rand([rows - 1, 3]).sum()
    if rows * 2 > 9:
        mean = mean + len(a)
    return [flat, mean, noise, h.unsqueeze(1).expand(rows, 2, h.shape[1]), a.numel()]
step = trace(block, dynamic={'a': 0})
)";

TEST_CASE("T-58 T-59 a graph with a dynamic dim gives the results of f for other sizes") {
  const std::string block = kSized;
  CHECK(outcome(block + R"(
torch.manual_seed(1)
step(x)
assert len(step.breaks) == 0
torch.manual_seed(2)
got = step(five)
torch.manual_seed(2)
own = block(five)
for i in range(4):
    assert got[i].equal(own[i]) and got[i].placements == own[i].placements
)") == "fine");
}

TEST_CASE("T-4 a size that the guards of a dynamic graph do not admit is refused by guard") {
  const std::string block = kSized;
  CHECK(outcome(block + "step(x)\nstep(eight)\n") ==
        "the graph does not fit: a.shape[0] % 2 is 0, and was not 0");
  CHECK(outcome(block + "step(x)\nstep(short)\n") ==
        "the graph does not fit: a.shape[0] >= 2 is False, and was True");
  CHECK(outcome(R"(
def f(a):
    if a.shape[0] * 2 > 11:
        return a * 2
    return a
step = trace(f, dynamic=True)
step(x)
step(five)
)") == "the graph does not fit: (a.shape[0] * 2) > 11 is False, and was True");
  CHECK(outcome(R"(
def f(a):
    for i in range(a.shape[0]):
        a = a * 2
    return a[1:]
step = trace(f, dynamic=True)
step(x)
step(five)
)") == "the graph does not fit: a.shape[0] == 7 is False, and was True");
}

TEST_CASE("trace(f) takes a def, and shapes alone are enough") {
  CHECK(outcome("trace(x)\n") ==
        "trace: argument 'f' is a tensor, " + std::string("f32[7@dp, 6]") + ", not a def");
  const std::string block = kBlock;
  CHECK_FALSE(run(block + "step(x)\na = step(y)\n", "fake").run.error.has_value());
}

}  // namespace
}  // namespace shardlab
