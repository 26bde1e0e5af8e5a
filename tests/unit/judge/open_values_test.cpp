// Values that one device is not compared with: counted, and checked against [expect] and --strict.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>

#include "dispatch/all_ops.h"
#include "sim/judge/scenario_run.h"
#include "sim/report/junit.h"
#include "sim/report/paint.h"
#include "sim/report/run_json.h"
#include "sim/report/run_text.h"
#include "tests/unit/scenario/scenario_text.h"

namespace shardlab {
namespace {

// `piece` is one rank's own, `whole` is not.
constexpr const char* kMixed = "piece = x.to_local() * rank\nwhole = x * 2\n";
constexpr const char* kPiecesAlone = "piece = x.to_local() * rank\n";

ScenarioResult result_of(const std::string& code, const std::string& expect,
                         const ScenarioOptions& options = {}) {
  return run_scenario(
      test::scenario_of(fmt::format("[mesh]\ndp = 2\n[inputs]\nx = \"f32[4@dp]\"\n[program]\n"
                                    "code = \"\"\"\n{}\"\"\"\n[expect]\n{}\n",
                                    code, expect)),
      all_ops(), options);
}

std::string unmet(const ScenarioResult& result) {
  for (const ExpectationReport& report : result.judgement.expectations) {
    if (!report.met) return report.what + ": " + report.text;
  }
  return result.met() ? "met" : "failed";
}

TEST_CASE("B-22 a value that is not verified counts against [expect] and --strict") {
  CHECK(unmet(result_of(kMixed, "")) == "met");
  CHECK(unmet(result_of(kMixed, "not_verified = \"<= 1\"")) == "met");
  CHECK(unmet(result_of("y = x * 2\n", "not_verified = 0")) == "met");
  const std::string none = unmet(result_of(kMixed, "not_verified = 0"));
  CHECK(none.starts_with("not_verified: expected 0, got 1: piece ("));
  CHECK(none.find("differs: ranks 0 and 1 hold ") != std::string::npos);
  ScenarioOptions strict;
  strict.strict = true;
  const std::string not_proven = unmet(result_of(kMixed, "", strict));
  CHECK(not_proven.starts_with("--strict: expected 0, got 1: piece ("));
  CHECK(not_proven.ends_with("has not_verified = 1 in [expect], and is run without --strict"));
  CHECK(unmet(result_of("y = x * 2\n", "", strict)) == "met");
}

TEST_CASE("B-22 a run that verifies nothing is not proven") {
  ScenarioOptions strict;
  strict.strict = true;
  CHECK(unmet(result_of("y = x * 2\n", "verify = \"none\"", strict)) ==
        "--strict: nothing is verified: verify = \"none\"");
  CHECK(unmet(result_of("y = x * 2\n", "verify = \"none\"")) == "met");
  // A program that fails as expected has no values to compare.
  CHECK(unmet(result_of("assert False\n", "error = { kind = \"Assert\" }", strict)) == "met");
  const ScenarioResult shapes = result_of("y = x * 2\n", "not_verified = 0", {.backend = "fake"});
  CHECK(unmet(shapes) == "met");
  REQUIRE(shapes.judgement.warnings.size() == 1);
  CHECK(shapes.judgement.warnings[0] == "[expect]: not_verified is not looked at: shapes only");
}

TEST_CASE("B-22 the last line counts outcomes, in yellow where ranks differ") {
  const RunTextOptions color{.color = Color::kOn};
  const ScenarioResult mixed = result_of(kMixed, ""), pieces = result_of(kPiecesAlone, "");
  const std::string one = "1 verified, 1 differs: piece (line 7)";
  CHECK(run_line(mixed, {}).find(one) != std::string::npos);
  const std::string yellow = paint("0 verified, 1 differs: piece (line 7)", Ink::kWarn, Color::kOn);
  CHECK(run_line(pieces, color).find(yellow) != std::string::npos);
  CHECK(run_line(pieces, color).starts_with(paint("differs", Ink::kWarn, Color::kOn)));
  CHECK(run_json(mixed).find("\"differs\":1") != std::string::npos);
}

TEST_CASE("B-22 JUnit has the counts of a case that ran") {
  TestReport report{.file = "a.toml", .name = "a.toml"};
  report.values = ValueCounts{.of = {5, 0, 3, 0, 0, 2, 0, 1}, .not_verified = 2};
  const std::string xml = junit_xml({report});
  CHECK(xml.find("    <testcase classname=\"a.toml\" name=\"a.toml\" time=\"0.000\">\n"
                 "      <properties>\n"
                 "        <property name=\"verified\" value=\"5\"/>\n"
                 "        <property name=\"left_as_terms\" value=\"0\"/>\n"
                 "        <property name=\"on_the_way\" value=\"3\"/>\n"
                 "        <property name=\"no_counterpart\" value=\"0\"/>\n"
                 "        <property name=\"differs\" value=\"2\"/>\n"
                 "        <property name=\"not_compared\" value=\"0\"/>\n"
                 "        <property name=\"wrong\" value=\"1\"/>\n"
                 "        <property name=\"not_verified\" value=\"2\"/>\n"
                 "      </properties>\n"
                 "    </testcase>\n") != std::string::npos);
}

TEST_CASE("B-22 a right write through to_local() is not held to bits") {
  const ScenarioResult result = result_of(
      "g = (x * 0.3).sum().redistribute(dp=R)\nlocal = x.to_local()\nlocal -= g.to_local() * 0.1\n",
      "");
  CHECK(unmet(result) == "met");
  const auto& values = result.judgement.values;
  const auto end = std::ranges::find_if(
      values, [](const ValueReport& value) { return value.name == "x" && value.at_end; });
  REQUIRE(end != values.end());
  CHECK(end->outcome() == Outcome::kVerified);
  CHECK(end->comparison.agreement == Agreement::kEnvelope);
  CHECK(run_text(result, {}).find("amplified") == std::string::npos);
}

TEST_CASE("B-22 an input that [reference] only reads is not given by it") {
  const auto run = [](const std::string& reference) {
    return unmet(
        run_scenario(test::scenario_of(fmt::format(
                         "[mesh]\ndp = 2\n[inputs]\nx = \"f32[4@dp]\"\n[program]\ncode = \"\"\"\n"
                         "x -= 1\nnew = x + 0\n\"\"\"\n[reference]\ncode = \"\"\"\n{}\n\"\"\"\n",
                         reference)),
                     all_ops(), {}));
  };
  CHECK(run("new = x - 1") == "met");
  CHECK(run("x -= 1\nnew = x + 0") == "met");
  CHECK(run("x -= 2\nnew = x + 1") == "failed");  // its written value is given
}

// The letters of rows that fail, and of those without a counterpart.
std::string open_rows(const std::string& code) {
  std::string letters;
  for (const ValueReport& value : result_of(code, "").judgement.values) {
    const char letter = value.row->letter;
    if (value.row->fails || letter == 'X' || letter == 'D') letters += letter;
  }
  return letters;
}

TEST_CASE("B-22 a parameter after a step of each rank's own is wrong, however that is written") {
  const std::string leaf =
      "p = torch.full([1], 0.5).requires_grad_()\n"
      "q = torch.ones([1]).clone().requires_grad_()\n"
      "loss = (x.to_local() * p * q).pow(2).mean()\n";
  const std::string backward = leaf + "loss.backward()\n";
  const std::string average = "for t in [p, q]:\n    dist.all_reduce(t.grad, op='avg')\n";
  for (const std::string step :
       {"with torch.no_grad():\n    p -= 0.1 * p.grad\n",
        "for t in [p, q]:\n    t.data.add_(t.grad, alpha=-0.1)\n",
        "p = p.detach() - 0.1 * p.grad\n", "p.data = torch.sub(p.data, p.grad)\n"}) {
    CAPTURE(step);
    CHECK(open_rows(backward + step).find('U') == 0);
    CHECK(open_rows(backward + average + step) == "");
  }
  const std::string taken = leaf + "g = torch.autograd.grad(loss, p)[0]\n";
  CHECK(open_rows(taken + "new = p.detach() - 0.1 * g\n") == "U");
  CHECK(open_rows(taken + "new = p.detach() - 0.1 * all_reduce(g, 'avg')\n") == "");
  CHECK(open_rows(taken + "ratio = p.detach().norm() / g.norm()\n") == "");
  // Its rows are made of a value of its type, and of what follows from that: it is no step of it.
  const std::string rows = "s = torch.ones([1])\nv = x.to_local()[:, None] * s\ny = v + v.sin()\n";
  CHECK(open_rows(rows + "m = y.mean(0)\n") == "");
}

TEST_CASE("V-34 rows of all ranks, in place of one, have no counterpart unless they are equal") {
  const std::string own = "loss = x.to_local().pow(2).mean()\n";
  CHECK(open_rows(own + "all = all_gather(loss[None], 0)\nprint(all.tolist())\n") == "X");
  CHECK(open_rows(own + "all = all_gather(all_reduce(loss, 'avg')[None], 0)\n") == "F");
}

TEST_CASE("V-33 a ring with as many passes as there are ranks has a counterpart") {
  const auto ring = [](const char* passes, const char* sent) {
    return open_rows(
        fmt::format("n = mesh.size('dp')\nt = x.to_local()\nsum = t\n"
                    "for i in range({}):\n    got = torch.empty_like(t)\n"
                    "    ops = [dist.P2POp(dist.isend, t, (rank + 1) % n),\n"
                    "           dist.P2POp(dist.irecv, got, (rank - 1) % n)]\n"
                    "    for h in dist.batch_isend_irecv(ops): h.wait()\n"
                    "    t = {}\n    sum = sum + t\nout = sum.sum()\n",
                    passes, sent));
  };
  CHECK(ring("n - 1", "got") == "");
  CHECK(ring("n - 1", "2 * got") == "D");
  CHECK(ring("1", "2 * got") == "X");
}

}  // namespace
}  // namespace shardlab
