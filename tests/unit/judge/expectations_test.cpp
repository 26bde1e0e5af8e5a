// Answers of [expect] about known runs, and the cases in which it must refuse.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "dispatch/all_ops.h"
#include "sim/judge/scenario_run.h"
#include "tests/unit/scenario/scenario_text.h"

using namespace shardlab;

namespace {

ScenarioResult run(const std::string& text) {
  return run_scenario(test::scenario_of(text), all_ops(), {});
}

/// Whether all of [expect] is met; `expect` is its lines.
bool met(const std::string& program, const std::string& expect) {
  return run(fmt::format("{}[expect]\n{}\n", program, expect)).met();
}

const char* const kCut = R"(
[mesh]
x = 2
y = 2
[inputs]
a = "f32[5@(x,y), 3]"
[program]
code = """
b = a.redistribute("[5, 3@y]")
b = a.clone()
p = a.full_tensor()
if a.shape[0] > 5:
    never = a
"""
)";

// World rank 0 is not in the mesh: it sends nothing.
const char* const kGather = R"(
world = 4
[mesh]
x = 3
ranks = [3, 1, 2]
[inputs]
a = "f32[5@x]"
[program]
code = """
b = a.redistribute(x=R)
"""
)";

}  // namespace

// 7 rows over 2 ranks: the first holds 4 x 3 x 4 bytes of x. Backward keeps the result of exp.
TEST_CASE("V-7 memory is that of the rank that holds most, at any time, in expressions") {
  const std::string program =
      "[mesh]\ndp = 2\n[params]\nn = 7\n[inputs]\nx = { type = \"f32[n@dp, 3]\", requires_grad = "
      "true }\n"
      "[program]\ncode = \"backward(x.exp().sum())\"\n";
  CHECK(met(program, "memory = { inputs = \"12 * (n + 1) / dp\", gradients = 48 }"));
  CHECK(met(program, "memory = { kept_for_backward = 48, gathered = 0, peak = \"<= 1 KiB\" }"));
  CHECK_FALSE(met(program, "memory = { inputs = 47 }"));
  CHECK_FALSE(met(program, "memory = { peak = \"<= 100 B\" }"));
}

TEST_CASE("V-7 an expected type is the shape, the dtype, the placements and their order") {
  CHECK(met(kCut, R"(b = "f32[5@(x,y), 3]")"));
  CHECK_FALSE(met(kCut, R"(b = "f32[5@(y,x), 3]")"));
  CHECK_FALSE(met(kCut, R"(b = "f32[5@x, 3@y]")"));
  CHECK_FALSE(met(kCut, R"(b = "f32[5, 3]")"));
  CHECK_FALSE(met(kCut, R"(b = "f32[6@(x,y), 3]")"));
  CHECK_FALSE(met(kCut, R"(b = "f64[5@(x,y), 3]")"));
}

TEST_CASE("V-7 a type is that of the last value of its name") {
  CHECK_FALSE(met(kCut, R"(b = "f32[5, 3@y]")"));
  CHECK_FALSE(met(kCut, R"(never = "f32[5@(x,y), 3]")"));
}

TEST_CASE("V-7 a plain value is expected whole") {
  CHECK(met(kCut, R"(p = "f32[5, 3]")"));
  CHECK_FALSE(met(kCut, R"(p = "f32[5@x, 3]")"));
}

TEST_CASE("V-8 collectives are those of the rank that entered most, and none that is not named") {
  CHECK(met(kGather, "collectives = { all_gather = 1 }"));
  CHECK(met(kGather, "collectives = { all_gather = \"<= 1\", all_reduce = 0 }"));
  CHECK_FALSE(met(kGather, "collectives = { all_gather = 0 }"));
  CHECK_FALSE(met(kGather, "collectives = { all_gather = 2 }"));
  CHECK_FALSE(met(kGather, "collectives = { all_reduce = 0 }"));
  CHECK_FALSE(met(kGather, "collectives = {}"));
}

// A ring of three sends two thirds of the 20 bytes.
TEST_CASE("V-9 bytes are those of the rank that sends most") {
  CHECK(met(kGather, "bytes = \"<= 14\""));
  CHECK_FALSE(met(kGather, "bytes = \"<= 13\""));
  CHECK_FALSE(met(kGather, "bytes = 0"));
}

TEST_CASE("V-10 an expected error has the kind and the words") {
  const std::string program = R"(
[mesh]
x = 2
[inputs]
a = "f32[3@x]"
[program]
code = """
b = a.sum()
assert b.numel() == 2, "two elements"
"""
)";
  CHECK(met(program, R"(error = { kind = "Assert", contains = "two elements" })"));
  CHECK(met(program, R"(error = { kind = "Assert" })"));
  CHECK(met(program, R"(error = { contains = "two elements" })"));
  CHECK_FALSE(met(program, R"(error = { kind = "Runtime", contains = "two elements" })"));
  CHECK_FALSE(met(program, R"(error = { kind = "Assert", contains = "three elements" })"));
  CHECK_FALSE(met(program, R"(verdict = "deadlock")"));
  CHECK_FALSE(met(kGather, R"(error = { kind = "Assert" })"));
  CHECK_FALSE(met(kGather, R"(verdict = "mismatch")"));
}

TEST_CASE("V-10 a verdict is not any other verdict") {
  const std::string late = R"(
[mesh]
x = 2
[program]
code = """
if rank == 0:
    barrier()
"""
)";
  CHECK(met(late, R"(verdict = "deadlock")"));
  CHECK_FALSE(met(late, R"(verdict = "mismatch")"));
}

TEST_CASE("V-36 an expected mistake has the cause and the line") {
  const std::string bias = R"(
[mesh]
tp = 2
[inputs]
x = "f32[3, 8@tp]"
w = "f32[8@tp, 5]"
b = "f32[5]"
[program]
code = """
h = x.to_local() @ w.to_local()
y = all_reduce(h + b.to_local(), "sum", group="tp")
out = from_local(y, mesh=mesh)
"""
)";
  CHECK(met(bias, R"(cause = "cause.term-added")"));
  CHECK(met(bias, "line = 11"));
  CHECK(met(bias, "cause = \"cause.term-added\"\nline = 11"));
  CHECK_FALSE(met(bias, R"(cause = "cause.missing-sum")"));
  CHECK_FALSE(met(bias, "cause = \"cause.term-added\"\nline = 12"));
  CHECK_FALSE(met(bias, "line = 12"));
  CHECK_FALSE(met(bias, "cause = \"cause.term-added\"\nout = \"f32[3, 4]\""));
  const ScenarioResult other = run(bias + "[expect]\ncause = \"cause.factor\"\n");
  REQUIRE(other.judgement.expectations.size() == 1);
  CHECK(other.judgement.expectations[0].text.starts_with(
      "expected cause.factor, got cause.term-added: add in line 11 adds what all ranks hold "
      "alike to a term of a sum over tp: it counts 2 times"));
  const ScenarioResult right = run(std::string(kCut) + "[expect]\nline = 9\n");
  REQUIRE(right.judgement.expectations.size() == 1);
  CHECK(right.judgement.expectations[0].text == "expected 9, got none: nothing is wrong");
  CHECK_FALSE(right.met());
}

TEST_CASE("V-36 the line of a failure is that of its error, or where ranks wait or parted") {
  const std::string refused = R"(
[mesh]
x = 2
[inputs]
a = "f32[4@x]"
[program]
code = """
b = a * 2
c = a + torch.ones([4])
"""
)";
  CHECK(met(refused, "line = 9"));
  CHECK_FALSE(met(refused, "line = 8"));
  CHECK_FALSE(met(refused, R"(cause = "cause.none")"));
  CHECK_FALSE(met(refused, "error = { kind = \"Runtime\" }\nline = 8"));
  const std::string parted = R"(
[mesh]
x = 2
[inputs]
a = { type = "f32[2@x]", values = [1, 3] }
[program]
code = """
t = a.to_local()
if t.item() > 2:
    t = all_reduce(t, "sum", group="x")
u = all_reduce(t.sum(), "sum", group="x")
"""
)";
  CHECK(met(parted, "cause = \"cause.parted-branch\"\nline = 9"));
  CHECK(met(parted, "verdict = \"mismatch\"\nline = 9"));
  CHECK_FALSE(met(parted, "line = 11"));
  CHECK_FALSE(met(parted, "verdict = \"deadlock\"\nline = 9"));
  const std::string alone = R"(
[mesh]
x = 2
[program]
code = """
if rank == 0:
    barrier(group="x")
else:
    t = all_reduce(torch.ones([2]), "sum", group="x")
"""
)";
  CHECK(met(alone, "line = 7"));
  CHECK(met(alone, "line = 9"));
  CHECK_FALSE(met(alone, "line = 6"));
}

TEST_CASE("V-36 the line of a gradient is that of the call of backward that is wrong") {
  const std::string program = R"(
[mesh]
tp = 2
[inputs]
x = "f32[5, 6]"
e = { type = "f32[6, 4]", requires_grad = true }
w = "f32[4, 10@tp]"
[program]
code = """
h = x @ e
l = h.to_local()
y = from_local(l @ w.to_local(), mesh=mesh, tp=S(1))
y.pow(2).sum().backward()
"""
)";
  CHECK(met(program, "cause = \"cause.missing-sum\"\nline = 11\ngrads = [\"e\"]"));
}

TEST_CASE("V-11 an expected gradient has to be there") {
  const std::string program = R"(
[mesh]
x = 2
[inputs]
a = "f32[3@x]"
w = "f32[3]"
[program]
code = """
loss = (a * a).sum()
backward(loss)
"""
)";
  CHECK(met(program, R"(grads = ["a"])"));
  CHECK_FALSE(met(program, R"(grads = ["a", "w"])"));
  CHECK_FALSE(met(program, "grads = [\"a\"]\n\"w.grad\" = \"f32[3]\""));
}

TEST_CASE("V-12 a forbidden redistribution is refused forward and backward") {
  const std::string forward = R"(
[mesh]
x = 2
[inputs]
a = "f32[3@x, 4]"
b = "f32[4@x, 3]"
[program]
code = """
c = a @ b
"""
)";
  CHECK(met(forward, R"(implicit = "forbid"
error = { kind = "Runtime", contains = "aten::mm" })"));
  CHECK(met(forward, R"(implicit = "allow")"));
  // Forward nothing moves; the gradient of softmax needs the pending sum that the rows left.
  const std::string backward = R"(
[mesh]
x = 2
[inputs]
a = "f32[3@x, 4]"
w = "f32[4]"
[program]
code = """
loss = (a * w.softmax(0)).sum()
backward(loss)
"""
)";
  CHECK(met(backward, R"(grads = ["w"]
implicit = "forbid"
error = { kind = "Runtime", contains = "_softmax_backward_data" })"));
  CHECK(met(backward, R"(grads = ["w"])"));
}

TEST_CASE("V-12 nothing is forbidden along a mesh dim of one rank") {
  const std::string alone = R"(
[mesh]
x = 1
[inputs]
a = "f32[3@x, 4]"
b = "f32[4@x, 3]"
[program]
code = """
c = a @ b
"""
)";
  CHECK(met(alone, R"(implicit = "forbid")"));
}
