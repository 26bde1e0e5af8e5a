// Programs on plain tensors as people write them: what is told of a wrong one lies on the way to
// its wrong value, and a right one is not doubted. Lines that nothing needs are among the others.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>

#include "dispatch/all_ops.h"
#include "sim/judge/scenario_run.h"
#include "tests/unit/scenario/scenario_text.h"

namespace shardlab {
namespace {

ScenarioResult walked(const std::string& mesh, const std::string& inputs, const std::string& code) {
  return run_scenario(
      test::scenario_of(fmt::format(
          "[mesh]\n{}\n[inputs]\n{}\n[program]\ncode = \"\"\"\n{}\"\"\"\n", mesh, inputs, code)),
      all_ops(), {});
}

// "differs", or "wrong: cause.missing-sum: mul in ..."; of the last value of that name.
std::string told_of(const ScenarioResult& result, std::string_view name) {
  std::string text = "no such value";
  for (const ValueReport& value : result.judgement.values) {
    if (value.name != name) continue;
    text = word_of(value.outcome());
    if (!value.cause.empty()) text += fmt::format(": {}: {}", value.cause.id, value.cause.text);
  }
  return text;
}

void check_tells(const std::string& text, std::string_view part) {
  CHECK_MESSAGE(text.find(part) != text.npos, text);
}

}  // namespace

TEST_CASE("V-33 a number that is only logged in the loop of a step is no cause") {
  const auto told = [](int n, const char* reduce) {
    return told_of(
        walked(fmt::format("dp = {}", n), "x = \"f64[12@dp, 4]\"\nw0 = \"f64[4, 3]\"",
               fmt::format("w = w0.to_local().clone().requires_grad_()\nseen = 0.0\n"
                           "rows = x.to_local().chunk(2)\n"
                           "for i in range(2):\n    loss = (rows[i] @ w).pow(2).sum() / 12\n"
                           "    loss.backward()\n    seen += loss.item()\n"
                           "g = w.grad\n{}\nout = from_local(w.detach() - 0.1 * g, mesh=mesh)\n",
                           reduce)),
        "out");
  };
  for (const int n : {2, 3}) {
    CHECK(told(n, "dist.all_reduce(g)") == "verified");
    check_tells(told(n, "peek = g.norm()"), "wrong: cause.missing-sum");
    check_tells(told(n, "dist.all_reduce(g, op=dist.ReduceOp.AVG)"), "wrong: cause.factor");
  }
}

TEST_CASE("V-34 a number of the text before an exponential or a comparison averages nothing") {
  const auto told = [](int n, const std::string& line) {
    const ScenarioResult result =
        walked(fmt::format("tp = {}", n), "z = \"f64[5, 12@tp]\"",
               fmt::format("h = z.to_local() / {0}\nspread = h.std()\n"
                           "m = all_reduce(h.max(1).values, \"max\")\n"
                           "e = all_reduce(torch.exp(h - m[:, None]).sum(1), \"sum\")\n"
                           "big = all_reduce((h > 0.1).sum(), \"sum\")\n{1}\n",
                           n, fmt::format(fmt::runtime(line), n)));
    return told_of(result, "big") + ", " + told_of(result, "out");
  };
  for (const int n : {2, 4}) {
    CHECK(told(n, "out = from_local(m + torch.log(e), mesh=mesh)") == "verified, verified");
    // A sum that is divided by the number of ranks may be an average.
    CHECK(told(n, "out = from_local(e / {}, mesh=mesh)") == "verified, differs");
    CHECK(told(n, "out = from_local(all_reduce(z.to_local().sum(1) / {}, \"sum\"), mesh=mesh)") ==
          "verified, differs");
  }
}

TEST_CASE("V-34 parts that ranks take of terms by their number are one device's whole") {
  const auto told = [](int n, const char* reduce, const char* take) {
    return told_of(walked(fmt::format("dp = {}", n), "x = \"f64[12@dp, 6]\"\nw0 = \"f64[6, 12]\"",
                          fmt::format("w = w0.to_local().clone().requires_grad_()\n"
                                      "loss = (x.to_local() @ w).pow(2).sum()\nloss.backward()\n"
                                      "g = w.grad\nlog = g.abs().max()\n{}\n"
                                      "k = mesh.coordinate(\"dp\")\ngs = {}\n"
                                      "new = w.detach().chunk({}, 1)[k] - 0.1 * gs\n"
                                      "full = all_gather(new, 1, group=\"dp\")\n"
                                      "out = from_local(full, mesh=mesh)\n",
                                      reduce, fmt::format(fmt::runtime(take), n, 12 / n), n)),
                   "out");
  };
  for (const int n : {2, 3}) {
    for (const char* take : {"g.chunk({0}, 1)[k]", "g[:, k * {1}:(k + 1) * {1}]"}) {
      CHECK(told(n, "dist.all_reduce(g)", take) == "verified");
      check_tells(told(n, "twice = g * 2", take), "wrong: cause.missing-sum");
      check_tells(told(n, "dist.all_reduce(g, op=dist.ReduceOp.AVG)", take), "wrong: cause.factor");
    }
  }
}

TEST_CASE("V-33 a bias before the sum is told where another mesh dim cuts the rows") {
  const auto told = [](const char* mesh, const char* bias) {
    return told_of(walked(mesh, "x = \"f64[6@dp, 6@tp]\"\nw = \"f64[6@tp, 4]\"\nb = \"f64[4]\"",
                          fmt::format("h = x.to_local() @ w.to_local(){}\nact = h.mean()\n"
                                      "dist.all_reduce(h, group=\"tp\")\n"
                                      "out = from_local(h + b.to_local(), mesh=mesh, dp=S(0))\n",
                                      bias)),
                   "out");
  };
  for (const char* mesh : {"dp = 2\ntp = 2", "dp = 3\ntp = 2", "dp = 2\ntp = 3"}) {
    CHECK(told(mesh, "") == "verified");
    check_tells(told(mesh, " + b.to_local() * 0.5"), "wrong: cause.term-added: add in line ");
  }
}

TEST_CASE("V-33 a sum over the wrong one of two mesh dims of two ranks is told as that") {
  const auto told = [](const char* group) {
    return told_of(walked("dp = 2\ntp = 2", "w = \"f64[4, 6@tp]\"",
                          fmt::format("g = w.to_local() * 3\ns = g.pow(2).sum()\n"
                                      "dist.all_reduce(s, group=\"{}\")\nnorm = torch.sqrt(s)\n"
                                      "top = g.abs().max()\n"
                                      "out = from_local(g / (norm + 1), mesh=mesh, tp=S(1))\n",
                                      group)),
                   "out");
  };
  CHECK(told("tp") == "verified");
  check_tells(told("dp"), "wrong: cause.wrong-group: all_reduce in line 10 reduces over dp");
}

TEST_CASE("V-33 sums of a mask that are equal by chance are terms") {
  const auto told = [](const char* count) {
    return told_of(
        walked("dp = 2",
               "x = \"f64[6@dp]\"\nm = { type = \"f64[6@dp]\", values = [1, 0, 1, 1, 1, 0] }",
               fmt::format("mask = m.to_local()\nown = mask.sum()\nrate = own / mask.numel()\n"
                           "s = all_reduce((x.to_local() * mask).sum(), \"sum\")\n"
                           "out = from_local(s / {}, mesh=mesh)\n",
                           count)),
        "out");
  };
  CHECK(told("all_reduce(own, \"sum\")") == "verified");
  check_tells(told("own"), "wrong: cause.missing-sum: div in line 12 takes a term of a sum");
}

TEST_CASE("V-33 a sum that each rank divides by its own number is no average of averages") {
  const auto told = [](const char* count) {
    return told_of(walked("dp = 2", "x = \"f64[9@dp, 4]\"",
                          fmt::format("own = x.to_local()\nlow = own.min()\n"
                                      "s = all_reduce(own.sum(0), \"sum\")\n"
                                      "out = from_local(s / {}, mesh=mesh)\n",
                                      count)),
                   "out");
  };
  CHECK(told("all_reduce(torch.tensor(own.shape[0]), \"sum\")") == "verified");
  check_tells(told("own.shape[0]"),
              "wrong: cause.unequal-number: div in line 10 divides by each "
              "rank's own number, 5 and 4");
}

TEST_CASE("V-34 a rate of each rank's own that is equal by chance is not wrong") {
  // Both ranks find two of three labels among their classes; one device finds none.
  const auto told = [](const char* more) {
    return told_of(walked("tp = 2",
                          "z = { type = \"f64[3, 4@tp]\", values = [[1, 2, 0, 9], [4, 3, 9, 0], "
                          "[2, 1, 9, 0]] }",
                          fmt::format("top = z.to_local().argmax(1)\n"
                                      "rate = (top == torch.tensor([1, 0, 1])).double().mean()\n{}"
                                      "out = from_local(z.to_local() * 2, mesh=mesh, tp=S(1))\n",
                                      more)),
                   "rate");
  };
  check_tells(told(""), "differs");
  check_tells(told("claim = from_local(rate, mesh=mesh)\n"), "part of the cause");
}

TEST_CASE("V-33 an average that a step takes in each pass is told where it is made") {
  const auto told = [](int n, const char* reduce) {
    return told_of(
        walked(fmt::format("dp = {}", n), "x = \"f64[12@dp, 3]\"\nw0 = \"f64[3]\"",
               fmt::format("w = w0.to_local().clone()\nfor step in range(3):\n"
                           "    p = w.clone().requires_grad_()\n"
                           "    ((x.to_local() @ p) ** 2).mean().backward()\n    g = p.grad\n"
                           "    {}\n    w = w - 0.1 * g\n    size = g.norm()\n"
                           "out = from_local(w, mesh=mesh)\n",
                           reduce)),
        "out");
  };
  for (const int n : {2, 3}) {
    CHECK(told(n, "dist.all_reduce(g, op=dist.ReduceOp.AVG)") == "verified");
    check_tells(told(n, "pass"),
                "wrong: cause.missing-sum: sub in line 14 gives each rank a term "
                "of an average over dp, and nothing reduces it");
  }
}

}  // namespace shardlab
