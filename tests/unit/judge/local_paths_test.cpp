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

TEST_CASE("V-33 a mean of each rank's own rows is told behind the gradients of several passes") {
  const auto told = [](const char* mean, const char* factor) {
    return told_of(walked("dp = 3", "x = \"f64[3, 4@dp, 4]\"\nw = \"f64[4, 3]\"",
                          fmt::format("wl = w.to_local().detach().requires_grad_()\n"
                                      "buf = torch.zeros([4, 3], dtype=torch.float64)\n"
                                      "for i in range(3):\n    wl.grad = None\n"
                                      "    (x.to_local()[i] @ wl).pow(2).{}().backward()\n"
                                      "    buf = buf + wl.grad {}\n"
                                      "dist.all_reduce(buf)\n"
                                      "new = from_local(w.to_local() - 0.1 * buf, mesh=mesh)\n",
                                      mean, factor)),
                   "new");
  };
  CHECK(told("sum", "/ 12") == "verified");
  // Pieces of 2, 2 and 0 rows.
  check_tells(told("mean", "/ world_size"),
              "wrong: cause.uneven-mean: what line 12 averages is a mean over dim 0");
}

TEST_CASE("V-33 a replica that each pass adds to a term is told, in all passes of the loop") {
  const auto told = [](int n, const char* add) {
    return told_of(walked(fmt::format("tp = {}", n), "a = \"f64[12@tp, 4]\"\nb = \"f64[4]\"",
                          fmt::format("al, p = a.to_local(), b.to_local()\nseen = al.norm()\n"
                                      "for i in range(2):\n    t = al.t() @ (al @ p)\n    {}\n"
                                      "    p = (t / 9).tanh()\nout = from_local(p, mesh=mesh)\n",
                                      add)),
                   "out");
  };
  for (const int n : {2, 3}) {
    CHECK(told(n, "dist.all_reduce(t); t = t + 0.5 * p") == "verified");
    check_tells(told(n, "t = t + 0.5 * p; dist.all_reduce(t)"),
                "wrong: cause.term-added: add in line 12 adds what all ranks hold alike");
    check_tells(told(n, "t = t + 0.5 * p"),
                "wrong: cause.missing-sum: add in line 12 takes a term");
  }
}

TEST_CASE("V-33 a gradient that is reduced after each micro batch is told where it is") {
  const auto told = [](const char* each, const char* last) {
    return told_of(walked("dp = 2", "x = \"f64[12@dp, 4]\"\nw0 = \"f64[4, 2]\"",
                          fmt::format("w = w0.to_local().clone().requires_grad_()\n"
                                      "for rows in x.to_local().chunk(2):\n"
                                      "    loss = (rows @ w).pow(2).sum() / 12\n"
                                      "    loss.backward()\n    {}\n{}\n"
                                      "out = from_local(w.detach() - 0.1 * w.grad, mesh=mesh)\n",
                                      each, last)),
                   "out");
  };
  CHECK(told("seen = loss.item()", "dist.all_reduce(w.grad)") == "verified");
  check_tells(told("dist.all_reduce(w.grad)", "seen = loss.item()"),
              "wrong: cause.term-added: backward adds each rank's term to a gradient that "
              "all_reduce in line 12 has reduced");
}

TEST_CASE("V-33 a part of a whole tensor is told behind a view and behind a collective") {
  const auto told = [](const char* part) {
    return told_of(
        walked("dp = 2", "x = \"f64[12@dp, 4]\"\nw0 = \"f64[24]\"",
               fmt::format("w = w0.to_local().clone().requires_grad_()\n"
                           "loss = (x.to_local() @ w.view(4, 6)).pow(2).sum()\nloss.backward()\n"
                           "g = w.grad\ndist.all_reduce(g)\nk = 24 // world_size\n"
                           "own = w.detach(){0} - 0.1 * g{0}\n"
                           "out = from_local(own, mesh=mesh, dp=S(0))\n",
                           part)),
        "out");
  };
  CHECK(told("[rank * k:(rank + 1) * k]") == "verified");
  check_tells(told("[:k]"),
              "wrong: cause.other-chunk: slice in line 14 takes 12 of 24 along dim 0");
}

TEST_CASE("V-33 an extreme over the wrong group is told where it is reduced, in place or not") {
  const auto told = [](const char* reduce) {
    return told_of(walked("dp = 2\ntp = 2", "x = \"f64[4@dp, 8@tp, 4]\"",
                          fmt::format("xl = x.to_local()\nseen = xl.norm()\n{}\n"
                                      "q = torch.round(xl / top * 127)\n"
                                      "out = from_local(q * top / 127, mesh=mesh, dp=S(0), "
                                      "tp=S(1))\n",
                                      reduce)),
                   "out");
  };
  CHECK(told("top = all_reduce(all_reduce(xl.abs().amax(), \"max\", group=\"dp\"), \"max\", "
             "group=\"tp\")") == "verified");
  const char* expected =
      "wrong: cause.missing-sum: all_reduce in line 10 gives each rank a term of "
      "a maximum over tp";
  check_tells(told("top = all_reduce(xl.abs().amax(), \"max\", group=\"dp\")"), expected);
  check_tells(told("top = xl.abs().amax(); dist.all_reduce(top, op=dist.ReduceOp.MAX, "
                   "group=mesh.get_group(\"dp\"))"),
              expected);
}

TEST_CASE("V-33 gathered terms are told where they are added up") {
  const auto told = [](const char* mean) {
    return told_of(walked("dp = 2", "x = \"f64[12@dp, 3]\"",
                          fmt::format("xl = x.to_local()\n"
                                      "m = all_gather(xl.mean(0).unsqueeze(0), 0, group=\"dp\")\n"
                                      "c = (xl - m.{}).exp()\n"
                                      "out = from_local(c, mesh=mesh, dp=S(0))\n",
                                      mean)),
                   "out");
  };
  CHECK(told("mean(0)") == "verified");
  check_tells(told("sum(0)"), "wrong: cause.factor: sum in line 9 gives 2 times");
}

TEST_CASE("V-33 averages of what each rank computes of its terms are told where it does") {
  const auto told = [](const char* line) {
    return told_of(walked("dp = 2", "x = \"f64[12@dp, 3]\"",
                          fmt::format("xl = x.to_local()\nm = xl.mean(0)\n"
                                      "dist.all_reduce(m, op=dist.ReduceOp.AVG)\n{}\n"
                                      "dist.all_reduce(c, op=dist.ReduceOp.AVG)\n"
                                      "out = from_local(c, mesh=mesh)\n",
                                      line)),
                   "out");
  };
  CHECK(told("c = (xl - m).t() @ (xl - m) / xl.shape[0]") == "verified");
  check_tells(told("c = torch.cov(xl.t(), correction=0)"),
              "wrong: cause.missing-sum: sub in line 10 takes a term of an average over dp");
}

TEST_CASE("V-33 a number of the own rows is told beside one device's") {
  const auto told = [](const char* rows) {
    return told_of(walked("dp = 2", "x = \"f64[12@dp, 3]\"",
                          fmt::format("xl = x.to_local()\nc = xl.t() @ xl\ndist.all_reduce(c)\n"
                                      "out = from_local(c / ({} - 1), mesh=mesh)\n",
                                      rows)),
                   "out");
  };
  CHECK(told("x.shape[0]") == "verified");
  check_tells(told("xl.shape[0]"), "wrong: cause.factor: div in line 10 takes 5, a number of the");
}

TEST_CASE("V-33 a sum of other numbers than counts is no count") {
  const auto told = [](const char* weights) {
    return told_of(walked("tp = 2", "x = \"f64[5@tp]\"\nw = \"f64[5@tp]\"",
                          fmt::format("e = w.to_local().exp()\nz = {}\n"
                                      "y = (e * x.to_local()).sum() / z\n"
                                      "out = all_reduce(y, \"sum\", group=\"tp\")\n",
                                      weights)),
                   "out");
  };
  CHECK(told("all_reduce(e.sum(), \"sum\", group=\"tp\")") == "verified");
  check_tells(told("e.sum()"), "wrong: cause.missing-sum: div in line 10 takes a term of a sum");
}

TEST_CASE("V-34 an element that is printed does not print the list that it is taken out of") {
  const ScenarioResult result =
      walked("tp = 2", "x = \"f64[12@tp]\"",
             "v, i = x.to_local().max(0)\ni = i + mesh.coordinate(\"tp\") * 6\n"
             "vs = all_gather(v.unsqueeze(0), 0, group=\"tp\")\n"
             "js = all_gather(i.unsqueeze(0), 0, group=\"tp\")\n"
             "best = js[vs.argmax()]\nprint(best.item())\n");
  CHECK(result.met());
  CHECK(count_values(result.judgement.values)[Outcome::kDiffers] == 0);
  CHECK(told_of(result, "js") == "on the way");
}

TEST_CASE("V-34 a mean that one rank gets and prints is judged there") {
  const auto told = [](const char* of, int shows = 1) {
    return told_of(walked("dp = 3", "x = \"f64[6@dp, 4]\"",
                          fmt::format("h = x.to_local().exp()\nseen = h.norm()\nm = {}\n"
                                      "dist.reduce(m, dst=1, op=dist.ReduceOp.AVG)\n"
                                      "if rank == {}:\n    print(m.item())\n",
                                      of, shows)),
                   "m");
  };
  CHECK(told("h.mean()") == "verified");
  check_tells(told("h.mean()", 2), "wrong: cause.missing-sum: reduce in line 10 gives the avg");
  check_tells(told("h.mean() * world_size"), "differs");
  check_tells(told("h.std()"), "wrong");
}

TEST_CASE("V-34 a number that is computed of a name of [reference] is right with it") {
  const auto judged = [](const char* reduce, const char* print) {
    return run_scenario(
        test::scenario_of(fmt::format(
            "[mesh]\ndp = 2\n[inputs]\nx = \"f64[8@dp, 3]\"\n[program]\ncode = \"\"\"\n"
            "out = x.to_local().sum(0).pow(2)\n{}\nprint({}.item())\n\"\"\"\n[reference]\n"
            "code = \"\"\"\nout = x[:4].sum(0).pow(2) + x[4:].sum(0).pow(2)\n\"\"\"\n",
            reduce, print)),
        all_ops(), {});
  };
  const ScenarioResult right = judged("dist.all_reduce(out)", "out.norm()");
  CHECK(right.met());
  CHECK(count_values(right.judgement.values)[Outcome::kDiffers] == 0);
  CHECK_FALSE(judged("seen = 0", "out.norm()").met());
  CHECK_FALSE(judged("dist.all_reduce(out)", "all_reduce(out.norm(), \"sum\")").met());
}

}  // namespace shardlab
