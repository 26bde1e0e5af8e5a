// Programs on plain tensors with one mistake each: the wrong value, its cause, and its line. The
// mistakes are the test's own; so are the sentences' numbers.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>

#include "dispatch/all_ops.h"
#include "sim/judge/scenario_run.h"
#include "tests/unit/scenario/scenario_text.h"

namespace shardlab {
namespace {

// The first line of `code` is line 7 where `inputs` has one line.
ScenarioResult judged(const std::string& inputs, const std::string& code,
                      const std::string& mesh = "tp = 2", const ScenarioOptions& options = {}) {
  return run_scenario(
      test::scenario_of(fmt::format(
          "[mesh]\n{}\n[inputs]\n{}\n[program]\ncode = \"\"\"\n{}\"\"\"\n", mesh, inputs, code)),
      all_ops(), options);
}

const ValueReport* first_wrong(const ScenarioResult& result) {
  for (const ValueReport& value : result.judgement.values) {
    if (is_wrong(value)) return &value;
  }
  return nullptr;
}

// "y: cause.on-pieces: softmax in line 7 runs on ...", or "right".
std::string said(const ScenarioResult& result) {
  const ValueReport* value = first_wrong(result);
  if (value == nullptr) return result.met() ? "right" : "failed";
  return fmt::format("{}: {}: {}", value->name, value->cause.id, value->cause.text);
}

void check_has(const std::string& text, std::string_view part) {
  CHECK_MESSAGE(text.find(part) != text.npos, text);
}

constexpr const char* kRows = "x = \"f64[4, 6@tp]\"";

}  // namespace

TEST_CASE("V-33 a value is wrong whether or not its cause is asked for") {
  for (const bool explain : {true, false}) {
    ScenarioOptions options;
    options.explain = explain;
    const ScenarioResult result = judged(kRows,
                                         "p = F.softmax(x.to_local(), dim=1)\n"
                                         "y = from_local(p, mesh=mesh, tp=S(1))\n",
                                         "tp = 2", options);
    const ValueReport* wrong = first_wrong(result);
    REQUIRE(wrong != nullptr);
    CHECK(wrong->name == "y");
    CHECK(wrong->cause.empty() != explain);
  }
}

TEST_CASE("V-33 the call at which pieces lose their meaning is named") {
  check_has(said(judged(kRows,
                        "p = F.softmax(x.to_local(), dim=1)\n"
                        "y = from_local(p, mesh=mesh, tp=S(1))\n")),
            "y: cause.on-pieces: softmax in line 7 runs on pieces of dim 1, which tp cuts: each "
            "rank has its own 3 of 6");
  CHECK(said(judged(kRows,
                    "p = F.softmax(x.to_local(), dim=0)\n"
                    "y = from_local(p, mesh=mesh, tp=S(1))\n")) == "right");
  check_has(said(judged("x = \"f64[5@tp, 2]\"",
                        "m = x.to_local().mean(0)\ny = all_reduce(m, \"avg\", group=\"tp\")\n")),
            "y: cause.uneven-mean: mean in line 7 is a mean over dim 0, which tp cuts into 3 + "
            "2");
}

TEST_CASE("V-33 a number added to a term counts once on every rank") {
  const std::string inputs = "x = \"f64[4, 6@tp]\"\nw = \"f64[6@tp, 3]\"\nb = \"f64[3]\"";
  check_has(said(judged(inputs,
                        "t = x.to_local() @ w.to_local() + b.to_local()\n"
                        "y = all_reduce(t, \"sum\", group=\"tp\")\n")),
            "y: cause.term-added: add in line 9 adds what all ranks hold alike to a term of a sum "
            "over tp: it counts 2 times");
  check_has(said(judged(inputs,
                        "t = (x.to_local() @ w.to_local() + b.to_local()).pow(2)\n"
                        "y = all_reduce(t, \"sum\", group=\"tp\")\n")),
            "y: cause.term-added: add in line 9 adds what all ranks hold alike to a term of a sum "
            "over tp: it counts 2 times");
  CHECK(said(judged(inputs,
                    "t = x.to_local() @ w.to_local()\n"
                    "y = all_reduce(t, \"sum\", group=\"tp\") + b.to_local()\n")) == "right");
}

TEST_CASE("V-33 a term that is taken for the whole has a sum missing") {
  const std::string inputs = "x = \"f64[4, 6@tp]\"\nw = \"f64[6@tp, 3]\"";
  check_has(said(judged(inputs,
                        "t = (x.to_local() @ w.to_local()).relu()\n"
                        "y = all_reduce(t, \"sum\", group=\"tp\")\n")),
            "y: cause.missing-sum: relu in line 8 takes a term of a sum over tp for the whole");
}

TEST_CASE("V-33 terms that another reduction puts together, and pieces along another dim") {
  const auto reduced = [](const char* op) {
    return said(judged("x = \"f64[4@tp, 6]\"",
                       fmt::format("s = x.to_local().sum(0)\ns = all_reduce(s, \"{}\", "
                                   "group=\"tp\")\ny = s * 2\n",
                                   op)));
  };
  check_has(
      reduced("max"),
      "y: cause.other-reduction: all_reduce in line 8 takes the max over tp of terms of a sum: "
      "reduce them with sum");
  CHECK(reduced("sum") == "right");
  const std::string gather =
      "h = x.to_local() * 2\ny = funcol.all_gather_tensor(h, 0, "
      "mesh.get_group(\"tp\"))\nz = from_local(";
  const std::string joined = said(judged(kRows, gather + "y.view(4, 6), mesh=mesh)\n"));
  check_has(joined, "z: cause.other-label: ");
  check_has(joined, "pieces of dim 1 are put together along dim 0");
  CHECK(said(judged(kRows, gather + "torch.cat(y.chunk(world_size), dim=1), mesh=mesh)\n")) ==
        "right");
}

TEST_CASE("V-33 pieces in an order of their own, and an offset by rank after a running sum") {
  for (const int n : {2, 3, 4}) {
    const std::string mesh = fmt::format("tp = {}", n);
    const std::string take =
        "def mine(t):\n    c = t.chunk(2 * world_size)\n"
        "    return torch.cat([c[rank], c[-1 - rank]])\n";
    const auto zigzag = [&](const char* targets) {
      return said(judged("x = \"f64[24, 3]\"\nt = { type = \"i64[24]\", init = \"randint(0, 3)\" }",
                         take + "y = " + targets +
                             "\ns = F.cross_entropy(mine(x.to_local()), y, reduction=\"sum\")\n"
                             "dist.all_reduce(s)\nprint(s.item())\n",
                         mesh));
    };
    CHECK(zigzag("mine(torch.roll(t.to_local(), -1, 0))") == "right");
    const auto rolled = judged("x = \"f64[24, 3]\"\nt = \"f64[24]\"",
                               take +
                                   "y = torch.roll(mine(t.to_local()), -1, 0)\n"
                                   "s = (mine(x.to_local()).sum(1) * y).sum()\n"
                                   "dist.all_reduce(s)\nout = from_local(s, mesh=mesh)\n",
                               mesh);
    const auto& values = rolled.judgement.values;
    const auto off = std::ranges::find_if(values, is_off);
    REQUIRE(off != values.end());
    check_has(off->cause.text, "roll in line 11 runs on pieces of dim 0, which tp cuts");
  }
}

TEST_CASE("V-34 a value that the program reads under no name is compared") {
  check_has(
      said(judged(kRows, "m = x.to_local().mean()\ndist.all_reduce(m)\nprint(m.item())\nm = 0\n")),
      "m: cause.factor: all_reduce in line 8 takes the sum over all ranks of terms of an average");
  CHECK(said(judged(kRows,
                    "m = all_reduce(x.to_local().mean(), \"avg\", group=\"tp\")\n"
                    "print((m * 3).item())\n")) == "right");
  check_has(said(judged(kRows,
                        "def check(m):\n    dist.all_reduce(m)\n    assert m < 9000\n"
                        "check(x.to_local().mean())\n")),
            "check.(m): cause.factor: ");
  // A rank may read its own values; a named value counts once.
  const ScenarioResult own = judged(kRows, "print(x.to_local().sum().item())\n");
  CHECK(said(own) == "right");
  CHECK(count_values(own.judgement.values)[Outcome::kLeftAsTerms] == 1);
  const ScenarioResult named =
      judged(kRows, "s = all_reduce(x.to_local().sum(), \"sum\", group=\"tp\")\nprint(s.item())\n");
  CHECK(named.judgement.values.size() == 1);
}

TEST_CASE("V-34 a sum over ranks that the program divides is no mistake") {
  const std::string sum = "m = x.to_local().mean()\ndist.all_reduce(m)\n";
  CHECK(said(judged(kRows, sum + "y = m / world_size\n")) == "right");
  CHECK(said(judged(kRows, sum + "print(m.item() / world_size)\n")) == "right");
  CHECK(said(judged(kRows, sum + "n = m.item()\nprint(n / world_size)\n")) == "right");
  check_has(said(judged(kRows, sum + "y = m / 3\n")), "cause.factor");
  check_has(said(judged(kRows, sum + "print(m.item() * 3)\n")), "(m.item() * 3): cause.factor");
}

TEST_CASE("V-34 numbers that follow from the rank or the world are read as they are") {
  const ScenarioResult world = judged(
      kRows,
      "s = all_reduce(x.to_local().sum(), \"sum\", group=\"tp\")\nprint((s * world_size).item())\n"
      "print((s + rank).item())\n");
  CHECK(said(world) == "right");
  CHECK(count_values(world.judgement.values).not_verified == 2);
}

TEST_CASE("V-33 means over unequal pieces are named where only gradients have them") {
  const std::string step =
      "wl = torch.ones([6]).requires_grad_()\nlog = x.to_local().norm()\n"
      "for i in range(2):\n    (x.to_local() * wl).pow(2).mean().backward()\n"
      "dist.all_reduce(wl.grad, op=dist.ReduceOp.AVG)\nnew = from_local(wl.grad, mesh=mesh)\n";
  check_has(said(judged("x = \"f64[5@tp, 6]\"", step)),
            "new: cause.uneven-mean: what line 10 averages is a mean over dim 0, which tp cuts "
            "into 3 + 2");
  CHECK(said(judged("x = \"f64[4@tp, 6]\"", step)) == "right");
}

TEST_CASE("V-33 a view with the number of all heads is named") {
  const auto heads = [](const char* count) {
    return said(
        judged("x = \"f64[4, 8@tp]\"", fmt::format("log = x.to_local().norm()\n"
                                                   "q = x.to_local().view({}, 2).transpose(0, 1)\n"
                                                   "s = (q @ q.transpose(-1, -2)).softmax(-1)\n"
                                                   "o = (s @ q).transpose(0, 1).reshape(4, -1)\n"
                                                   "y = from_local(o, mesh=mesh, tp=S(1))\n",
                                                   count)));
  };
  check_has(heads("-1, 4"), "y: cause.on-pieces: view in line 8 runs on pieces of dim 1");
  CHECK(heads("4, -1") == "right");
}

TEST_CASE("V-33 unequal pieces without a shape are told whatever else is wrong") {
  const std::string places =
      "h = x.to_local()\np = torch.arange(h.shape[0]) + h.shape[0] * rank\n"
      "y = from_local(h + p[:, None], mesh=mesh, tp=S(0){})\n";
  const std::string rows = "x = \"f64[5@tp, 2]\"";
  check_has(said(judged(rows, fmt::format(fmt::runtime(places), ""))),
            "make [5, 2]: without shape=");
  CHECK(said(judged(rows, fmt::format(fmt::runtime(places), ", shape=[5, 2]"))) == "right");
}

TEST_CASE("V-33 sizes that do not fit name the piece and the whole") {
  const auto result = judged("x = \"f64[3, 4@tp]\"\nw = \"f64[4]\"",
                             "h = x.to_local()\nlog = h.norm()\ny = h * w.to_local()\n");
  check_has(result.judgement.parted.text,
            "in line 10 h is this rank's 2 of 4 along dim 1, and w is whole, [4]");
  const auto whole =
      judged("x = \"f64[3, 4@tp]\"\nw = \"f64[5]\"", "y = x.full_tensor() * w.to_local()\n");
  CHECK(whole.judgement.parted.text == "");
}

TEST_CASE("V-34 pieces that are each as large as one device's have no counterpart there") {
  const auto rows = [](const char* seed, const char* claim) {
    const ScenarioResult result =
        judged("w = \"f64[6]\"", fmt::format("torch.manual_seed({})\n"
                                             "t = torch.rand(1, 6, dtype=torch.float64)\n"
                                             "y = from_local(t + w.to_local(), mesh=mesh, {})\n",
                                             seed, claim));
    return std::string(1, result.judgement.values.back().row->letter);
  };
  CHECK(rows("7 + rank", "tp=S(0)") == "X");
  CHECK(rows("7", "tp=R") == "V");
  CHECK(rows("7", "tp=S(0)") == "F");
}

TEST_CASE("V-33 a whole tensor cut by the size of a piece is named, whatever is made of it") {
  const std::string inputs = "x = \"f64[3, 6@tp]\"\nw = \"f64[6]\"";
  const std::string claim = "y = from_local(p, mesh=mesh, tp=S(1))\n";
  const std::string part = "mine = w.to_local()[:x.to_local().shape[1]]\n";
  const std::string cause =
      "y: cause.other-chunk: slice in line 8 takes 3 of 6 along dim 0, and the same ones on all "
      "ranks: each rank's own are meant";
  check_has(said(judged(inputs, part + "p = x.to_local() * mine\n" + claim)), cause);
  check_has(said(judged(inputs, part + "p = torch.exp(x.to_local() - mine)\n" + claim)), cause);
  CHECK(said(judged(inputs, "mine = w.to_local().chunk(2)[rank]\np = x.to_local() * mine\n" +
                                claim)) == "right");
}

TEST_CASE("V-33 rows of a table that ranks take for others are named") {
  const std::string inputs = "i = { type = \"i64[3]\", values = [1, 4, 3] }\ne = \"f64[6@tp, 2]\"";
  const std::string code =
      "start = 3 * rank\nown = (i.to_local() >= start) & (i.to_local() < start + 3)\n"
      "h = e.to_local()[{}] * own[:, None].double()\n"
      "y = from_local(all_reduce(h, \"sum\", group=\"tp\"), mesh=mesh)\n";
  const auto told = [&](const char* index) {
    std::string text = code;
    text.replace(text.find("{}"), 2, index);
    return said(run_scenario(
        test::scenario_of(fmt::format("[mesh]\ntp = 2\n[inputs]\n{}\n[program]\ncode = \"\"\"\n{}"
                                      "\"\"\"\n[reference]\ncode = \"y = e[i]\"\n",
                                      inputs, text)),
        all_ops(), {}));
  };
  check_has(told("i.to_local().clamp(max=2)"),
            "y: cause.other-chunk: its row 1 is row 5 of e, not row 4");
  CHECK(told("(i.to_local() - start) * own") == "right");
}

TEST_CASE("V-33 causes of integers are those of floats") {
  const std::string counts = "i = { type = \"i64[8@tp]\", init = \"arange\" }";
  check_has(said(judged(counts, "c = i.to_local().sum()\ny = from_local(c, mesh=mesh)\n")),
            "y: cause.missing-sum: ");
  check_has(said(judged(counts,
                        "c = all_reduce(i.to_local().sum(), \"sum\", group=\"tp\")\n"
                        "y = from_local(c * world_size, mesh=mesh)\n")),
            "right");  // the number of ranks: [reference] says what is meant
  check_has(said(judged(counts,
                        "c = all_reduce(i.to_local().sum(), \"max\", group=\"tp\")\n"
                        "print(c)\n")),
            "c: cause.other-reduction: ");
  // A value of no label, which the program's text does not explain.
  check_has(said(run_scenario(
                test::scenario_of("[mesh]\ntp = 2\n[inputs]\nb = { type = \"i64[4]\", init = "
                                  "\"arange\" }\n[program]\ncode = \"\"\"\nc = b.to_local() * "
                                  "2\nprint(c)\n\"\"\"\n[reference]\ncode = \"c = b\"\n"),
                all_ops(), {})),
            "c: cause.factor: it is 2 times the expected value");
}

TEST_CASE("V-33 unequal pieces without the shape of the whole name it") {
  const std::string inputs = "x = \"f64[5@tp, 3]\"\nw = \"f64[3, 2]\"";
  check_has(
      said(judged(inputs,
                  "h = x.to_local() @ w.to_local()\ny = from_local(h, mesh=mesh, tp=S(0))\n")),
      "y: cause.other-label: the ranks' pieces have unequal lengths and make [5, 2]: without "
      "shape= from_local takes all for as long as this rank's; write shape=[5, 2]");
  CHECK(said(judged(inputs,
                    "h = x.to_local() @ w.to_local()\n"
                    "y = from_local(h, mesh=mesh, tp=S(0), shape=[5, 2])\n")) == "right");
}

TEST_CASE("V-33 a line whose value nothing reads changes no cause") {
  const std::string claim = "y = from_local(x.to_local().softmax(1), mesh=mesh, tp=S(1))\n";
  std::string logs;
  for (const char* name : {"a", "b", "c", "d"}) {
    logs += fmt::format("{} = x.to_local().norm()\n", name);
  }
  check_has(said(judged(kRows, logs + claim)), "y: cause.on-pieces: ");
  check_has(said(judged(kRows, "n = x.to_local().norm().item()\n" + claim)),
            "y: cause.on-pieces: ");
  check_has(said(judged(kRows,
                        "n = x.to_local().norm().item()\n"
                        "y = from_local(x.to_local() * n, mesh=mesh, tp=S(1))\n")),
            "y: cause.unequal-number: n is not the same on all ranks");
}

TEST_CASE("V-33 counts that a maximum combines are named where they are told") {
  const std::string drawn = "e = { type = \"i64[11@tp]\", init = \"randint(0, 5)\" }";
  const std::string count = "c = torch.bincount(e.to_local(), minlength=5)\n";
  const std::string most = "dist.all_reduce(c, op=dist.ReduceOp.MAX)\n";
  check_has(said(judged(drawn, count + most + "print(c.tolist())\n", "tp = 3")),
            "cause.other-reduction: all_reduce in line 8 takes the max over all ranks of terms of "
            "a sum: reduce them with sum");
  CHECK(said(judged(drawn, count + "dist.all_reduce(c)\nprint(c.tolist())\n", "tp = 3")) ==
        "right");
  // A capacity is the largest count of a rank, and what is made of it is right.
  CHECK(said(judged(drawn,
                    count + most + "k = c.max().item()\nb = torch.zeros([5, k])\n" +
                        "b[:, 0] = 1\nprint(b.sum().item())\n",
                    "tp = 3")) == "right");
}

TEST_CASE("V-34 entries of a list that ranks take by their place make pieces") {
  const auto outcome = [](const char* before) {
    const ScenarioResult result =
        judged("x = \"f64[6@tp, 3]\"",
               fmt::format("l = x.to_local()\ng = [torch.zeros([3], dtype=x.dtype) for _ in "
                           "range(world_size)]\ndist.all_gather(g, l.sum(0))\n"
                           "y = from_local(l.cumsum(0) + {}, mesh=mesh, tp=S(0))\n",
                           before),
               "tp = 3");
    return result.judgement.values.back().outcome();
  };
  CHECK(outcome("(sum(g[:rank]) if rank > 0 else 0)") == Outcome::kVerified);
  CHECK(outcome("(g[rank - 1] if rank > 0 else 0)") != Outcome::kVerified);
}

TEST_CASE("V-33 a sum in place that is taken twice is told at the second") {
  const ScenarioResult result = judged("x = \"f64[4, 6@tp]\"\nw = \"f64[6@tp, 3]\"",
                                       "y = x.to_local() @ w.to_local()\ndist.all_reduce(y)\n"
                                       "dist.all_reduce(y)\ny = y + 1\n"
                                       "z = from_local(y, mesh=mesh)\n");
  REQUIRE(first_wrong(result) != nullptr);
  CHECK(first_wrong(result)->cause.id == causes::kFactor);
  CHECK(first_wrong(result)->cause.line == 10);
}

TEST_CASE("V-33 counts of pieces that are equal by chance are no mistake of what counts") {
  const std::string ones = "m = { type = \"f64[6@tp]\", values = [1, 0, 0, 1, 1, 0] }";
  check_has(
      said(judged(ones,
                  "n = (m.to_local() > 0.5).sum()\n"
                  "dist.all_reduce(n, op=dist.ReduceOp.MAX)\n"
                  "print((n / 6).item())\n",
                  "tp = 3")),
      "cause.other-reduction: all_reduce in line 8 takes the max over all ranks of terms of a sum: "
      "reduce them with sum");
}

TEST_CASE("V-33 a reduction over another group is named, whatever that group cuts") {
  const std::string given = "x = \"f64[4@dp, 6@tp]\"\nw = \"f64[6@tp, 3]\"";
  const auto code = [](const char* group) {
    return fmt::format(
        "h = x.to_local() @ w.to_local()\ndist.all_reduce(h, group=mesh.get_group(\"{}\"))\n"
        "y = from_local(torch.relu(h), mesh=mesh, dp=S(0))\n",
        group);
  };
  const std::string mesh = "dp = 2\ntp = 3";
  check_has(said(judged(given, code("dp"), mesh)),
            "y: cause.wrong-group: all_reduce in line 10 reduces over dp, and ranks hold terms "
            "over tp");
  CHECK(said(judged(given, code("tp"), mesh)) == "right");
}

TEST_CASE("V-33 a term that two steps take for the whole has one reduction missing") {
  const auto code = [](const char* reduced) {
    return fmt::format(
        "l = x.to_local()\nm = l.amax(1, keepdim=True)\n{}"
        "s = torch.exp(l - m).sum(1, keepdim=True)\ndist.all_reduce(s)\n"
        "y = from_local(l - m - s.log(), mesh=mesh, tp=S(1))\n",
        reduced);
  };
  check_has(
      said(judged(kRows, code(""))),
      "y: cause.on-pieces: amax in line 8 runs on pieces of dim 1, which tp cuts: each rank has "
      "its own 3 of 6, and sub in line 9 takes its result for the whole");
  CHECK(said(judged(kRows, code("dist.all_reduce(m, op=dist.ReduceOp.MAX)\n"))) == "right");
}

TEST_CASE("V-33 a gradient that is taken for the whole behind a gather has its sum missing") {
  const std::string inputs =
      "x = { type = \"f64[4@tp, 3]\", requires_grad = true }\n"
      "gain = { type = \"f64[3]\", requires_grad = true, init = \"ones\" }\n"
      "up = { type = \"f64[3, 4@tp]\", requires_grad = true }";
  const auto code = [](const char* backward) {
    return fmt::format(
        "class Gather(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x):\n"
        "        out = torch.empty([x.size(0) * mesh.size(\"tp\"), 3], dtype=f64)\n"
        "        dist.all_gather_into_tensor(out, x.contiguous(), group=\"tp\")\n"
        "        return out\n"
        "    @staticmethod\n    def backward(ctx, gradient):\n        {}"
        "        return gradient.chunk(mesh.size(\"tp\"))[mesh.get_local_rank(\"tp\")]\n"
        "n = layer_norm(x.to_local(), [3], gain.to_local(grad_placements=[P(sum)]))\n"
        "h = Gather.apply(n) @ up.to_local()\n"
        "y = from_local(h.detach(), mesh=mesh, tp=S(1))\nh.pow(2).sum().backward()\n"
        "\"\"\"\n[reference]\ncode = \"\"\"\n"
        "y = layer_norm(x, [3], gain) @ up\ny.pow(2).sum().backward()\n",
        backward);
  };
  check_has(
      said(judged(inputs, code("pass\n"))),
      "x.grad: cause.missing-sum: the backward of split in line 18 takes a term of a sum over "
      "tp for the whole");
  CHECK(said(judged(inputs, code("gradient = all_reduce(gradient, \"sum\", group=\"tp\")\n"))) ==
        "right");
}

TEST_CASE("V-33 a sum over each rank's own count that is averaged is a mean of means") {
  const std::string given =
      "l = \"f64[5@tp, 4]\"\nm = { type = \"i64[5@tp, 4]\", init = \"randint(0, 3)\" }";
  const auto code = [](const char* before, const char* after) {
    return fmt::format(
        "s, n = (l.to_local() * m.to_local()).sum(), m.to_local().sum()\n{}y = s / n\n{}"
        "print(y.item())\n",
        before, after);
  };
  check_has(said(judged(given, code("", "dist.all_reduce(y, op=dist.ReduceOp.AVG)\n"))),
            "cause.uneven-mean: div in line 9 is a mean over counts that differ along tp, ");
  // No average follows: both sums are missing.
  check_has(said(judged(given, code("", ""))), "missing");
  CHECK(said(judged(given, code("dist.all_reduce(s)\ndist.all_reduce(n)\n", ""))) == "right");
}

TEST_CASE("V-33 one factor of a mesh dim is told, its root, and of two dims that which is meant") {
  // The sum over tp of 6 columns, through the root of 3 in place of that of 6.
  const auto scores = [](const char* width) {
    return fmt::format(
        "xl = x.to_local()\ns = all_reduce(xl @ xl.t(), \"sum\", group=\"tp\") / {} ** 0.5\n"
        "y = from_local(s.softmax(-1), mesh=mesh)\n",
        width);
  };
  check_has(said(judged(kRows, scores("xl.shape[-1]"))),
            "y: cause.factor: div in line 8 gives the root of 2 times the expected value, and 2 is "
            "the size of tp");
  CHECK(said(judged(kRows, scores("x.shape[-1]"))) == "right");
  // Terms of a sum over cp and of an average over dp, all of them divided.
  const auto step = [](const char* ranks) {
    return fmt::format(
        "wl = w.to_local().detach().requires_grad_()\ny = (x.to_local() @ wl).pow(2)\n"
        "n = all_reduce(torch.tensor(1.0 * y.numel()), \"sum\", group=\"cp\")\n"
        "(y.sum() / n).backward()\ng = all_reduce(wl.grad, \"sum\") / {}\n"
        "new = from_local(w.to_local() - 0.5 * g, mesh=mesh)\n",
        ranks);
  };
  const std::string given = "x = \"f64[4@dp, 6@cp, 5]\"\nw = \"f64[5, 2]\"";
  const std::string mesh = "dp = 2\ncp = 2";
  check_has(said(judged(given, step("world_size"), mesh)),
            "new: cause.factor: div in line 13 gives 1/2 of the expected value, and 2 is the size "
            "of cp");
  CHECK(said(judged(given, step("mesh.size(\"dp\")"), mesh)) == "right");
}

TEST_CASE("V-33 pieces in another order than those that they meet are told") {
  const auto code = [](const char* columns) {
    return fmt::format(
        "r = mesh.coordinate(\"tp\")\nown = x.to_local()[:, {}]\n"
        "h = all_reduce(own @ w.to_local()[3 * r:3 * r + 3], \"sum\", group=\"tp\")\n"
        "y = from_local(h, mesh=mesh)\n",
        columns);
  };
  const std::string given = "x = \"f64[2, 6]\"\nw = \"f64[6, 3]\"";
  check_has(said(judged(given, code("r::2"))),
            "y: cause.other-chunk: mm in line 10 puts pieces of dim 1 that ranks took in another "
            "order with pieces of dim 0 in the order of tp");
  CHECK(said(judged(given, code("3 * r:3 * r + 3"))) == "right");
}

TEST_CASE("V-33 a division by each rank's own number is an average of averages") {
  const auto code = [](const char* count, const char* reduction) {
    return fmt::format(
        "wl = w.to_local().detach().requires_grad_()\nxl = x.to_local()\n"
        "((xl @ wl).square().sum() / {}.shape[0]).backward()\n"
        "g = all_reduce(wl.grad, \"{}\", group=\"tp\")\n"
        "new = from_local(w.to_local() - g, mesh=mesh)\n",
        count, reduction);
  };
  const std::string given = "x = \"f64[5@tp, 4]\"\nw = \"f64[4, 3]\"";
  check_has(said(judged(given, code("xl", "avg"))),
            "new: cause.uneven-mean: div in line 10 divides by each rank's own number, 3 and 2");
  CHECK(said(judged(given, code("x", "sum"))) == "right");
}

TEST_CASE("V-33 a product with each rank's own number is told where that has its name") {
  const auto code = [](const char* rate) {
    return fmt::format(
        "g = all_reduce(x.to_local().mean(0), \"avg\", group=\"tp\")\nrate = {}\nother = 0.1 + 1\n"
        "new = from_local(w.to_local() - rate * g * other, mesh=mesh)\n",
        rate);
  };
  const std::string given = "x = \"f64[4@tp, 3]\"\nw = \"f64[3]\"";
  check_has(said(judged(given, code("0.1 / (1 + rank)"))),
            "new: cause.factor: mul in line 11 multiplies by each rank's own number, 0.1 and 0.05");
  CHECK(judged(given, code("0.1 / (1 + rank)")).judgement.values.back().cause.line == 9);
  CHECK(said(judged(given, code("0.1 / (1 + world_size - world_size)"))) == "right");
}

TEST_CASE("V-33 rows times columns that one mesh dim cuts are a block") {
  const auto code = [](const char* columns) {
    return fmt::format(
        "a = x.to_local() * 2\ns = a @ {}.t()\nz = s.logsumexp(-1).mean()\n"
        "out = from_local(all_reduce(z, \"avg\", group=\"tp\"), mesh=mesh)\n",
        columns);
  };
  const std::string given = "x = \"f64[4@tp, 3]\"\ny = \"f64[4@tp, 3]\"";
  check_has(said(judged(given, code("y.to_local()"))),
            "out: cause.on-pieces: mm in line 9 multiplies rows and columns that tp cuts");
  CHECK(said(judged(given, code("all_gather(y.to_local(), 0, group=\"tp\")"))) == "right");
}

TEST_CASE("V-33 a loop that makes a value of itself is judged at its end, a written ring is open") {
  const std::string given = "x = { type = \"f64[2@tp]\", values = [1, 3e38] }";
  const auto loop = [](const char* reduction) {
    return fmt::format(
        "w = x.to_local()\nfor i in range(3):\n"
        "    g = all_reduce((w > 1e30).any(), \"{}\", group=\"tp\")\n"
        "    if not g.item():\n        w = all_reduce(w, \"avg\", group=\"tp\")\n",
        reduction);
  };
  check_has(said(judged(given, loop("min"))), "w: ");
  CHECK(said(judged(given, loop("max"))) == "right");
  const ScenarioResult ring =
      judged("k = \"f64[6@tp, 2]\"",
             "kl = k.to_local()\nacc = kl.exp().sum(0)\nfor i in range(2):\n"
             "    buf = torch.empty_like(kl)\n"
             "    ops = [dist.P2POp(dist.isend, kl, (rank + 1) % 3),\n"
             "           dist.P2POp(dist.irecv, buf, (rank + 2) % 3)]\n"
             "    for work in dist.batch_isend_irecv(ops):\n        work.wait()\n"
             "    kl = buf\n    acc = acc + kl.exp().sum(0)\ny = from_local(acc, mesh=mesh)\n",
             "tp = 3");
  CHECK(said(ring) == "right");
  CHECK(ring.judgement.values.back().row->letter == 'X');
}

TEST_CASE("V-35 a branch on what one rank holds is named, with its numbers") {
  const std::string inputs = "x = { type = \"f32[4@tp]\", values = [1.0, 2.0, 7.0, 9.0] }";
  const auto warned = [&](const std::string& code) {
    const std::vector<std::string> warnings = judged(inputs, code).judgement.warnings;
    return warnings.empty() ? std::string() : warnings.front();
  };
  const std::string numbers = " decides on a collective and is 3 on rank 0 and 16 on rank 1";
  check_has(warned("s = x.to_local().sum()\nif s > 1:\n    y = x.redistribute(tp=R)\n"),
            ("line 8: s" + numbers));
  check_has(warned("if x.to_local().sum() > 1:\n    y = x.redistribute(tp=R)\n"),
            ("line 7: x.to_local().sum()" + numbers));
  check_has(warned("if x.to_local()[1]:\n    y = x.redistribute(tp=R)\n"),
            "decides on a collective and is 2 on rank 0 and 9 on rank 1");
  check_has(warned("if x.to_local().sum().item() > 1:\n    y = x.redistribute(tp=R)\n"),
            ("line 7: x.to_local().sum()" + numbers));
  CHECK(warned("if x.to_local().sum() > 1:\n    y = x * 2\n").empty());
  CHECK(warned("if (x.to_local().sum() * 0 + rank) < 9:\n    y = x.redistribute(tp=R)\n").empty());
  CHECK(warned("if x.sum().item() > 1:\n    y = x.redistribute(tp=R)\n").empty());
  // The same text in another line reads other numbers.
  CHECK(
      warned("z = x\nif z.to_local().sum() > 1:\n    z = z * 1\n"
             "z = z.redistribute(tp=R)\nif z.to_local().sum() > 1:\n    y = z.redistribute(tp=S(0))"
             "\n")
          .empty());
}

}  // namespace shardlab
