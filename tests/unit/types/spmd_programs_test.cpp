// Programs with spmd_types on two and three ranks. The numbers are worked out by hand from what the
// ranks hold; tests/program/spmd_moves_test.py has every move against its definition.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "dispatch/all_ops.h"
#include "sim/edit/type_inference.h"
#include "sim/language/syntax/parser.h"
#include "tests/unit/language/program_runner.h"

namespace shardlab::test {
namespace {

// ByRank that the ranks print of y and of the gradient of x, which is its rank + 1 or [1, 2].
std::vector<std::vector<std::string>> moved(const std::string& x, const std::string& move,
                                            const std::string& weight) {
  const ProgramOutcome outcome =
      run(fmt::format("import spmd_types as spmd\nx = (torch.{}).requires_grad_()\ny = spmd.{}\n"
                      "(y * (torch.{})).sum().backward()\nprint(y.tolist(), x.grad.tolist())\n",
                      x, move, weight),
          "tp = 2");
  REQUIRE(outcome.error == "");
  return outcome.lines;
}

using ByRank = std::vector<std::vector<std::string>>;

ScenarioResult judged_types(const std::string& code, const std::string& mesh = "tp = 2") {
  return run_scenario(
      scenario_of(fmt::format("[mesh]\n{}\n[inputs]\nx0 = \"f64[4, 6]\"\nw0 = \"f64[6, 6@tp]\"\n"
                              "[program]\ncode = \"\"\"\nx = x0.to_local()\n"
                              "w = w0.to_local().detach().requires_grad_()\n{}\"\"\"\n",
                              mesh, code)),
      all_ops(), {});
}

// "assert_type(x): cause.other-label", or "right".
std::string wrong_claim(const ScenarioResult& result) {
  for (const ValueReport& value : result.judgement.values) {
    if (is_wrong(value)) return fmt::format("{}: {}", value.name, value.comparison.what);
  }
  return result.met() ? "right" : "failed";
}

void check_says(const std::string& code, std::string_view part) {
  const std::string said = wrong_claim(judged_types(code));
  CHECK_MESSAGE(said.find(part) != said.npos, said);
}

}  // namespace

TEST_CASE("V-38 a move has the gradient that its types tell") {
  const std::string row = "tensor([rank + 1., 2.])", weight = "tensor([1., 10.]) * (rank + 1)";
  CHECK(moved(row, "all_reduce(x, 'tp', dst=spmd.R)", weight) ==
        ByRank{{"[3.0, 4.0] [3.0, 30.0]"}, {"[3.0, 4.0] [3.0, 30.0]"}});
  CHECK(moved(row, "all_reduce(x, 'tp', dst=spmd.I)", weight) ==
        ByRank{{"[3.0, 4.0] [1.0, 10.0]"}, {"[3.0, 4.0] [2.0, 20.0]"}});
  CHECK(moved(row, "convert(x, 'tp', src=spmd.I, dst=spmd.R)", weight) ==
        ByRank{{"[1.0, 2.0] [3.0, 30.0]"}, {"[2.0, 2.0] [3.0, 30.0]"}});
  CHECK(moved(row, "convert(x, 'tp', src=spmd.R, dst=spmd.P)", weight) ==
        ByRank{{"[1.0, 2.0] [1.0, 10.0]"}, {"[0.0, 0.0] [0.0, 0.0]"}});
  CHECK(moved(row, "convert(x, 'tp', src=spmd.R, dst=spmd.S(0))", "tensor([5.]) * (rank + 1)") ==
        ByRank{{"[1.0] [5.0, 0.0]"}, {"[2.0] [0.0, 10.0]"}});
  CHECK(moved(row, "convert(x, 'tp', src=spmd.I, dst=spmd.S(0))", "tensor([5.]) * (rank + 1)") ==
        ByRank{{"[1.0] [5.0, 10.0]"}, {"[2.0] [5.0, 10.0]"}});
  CHECK(moved(row, "reinterpret(x, 'tp', src=spmd.V, dst=spmd.P)", weight) ==
        ByRank{{"[1.0, 2.0] [1.0, 10.0]"}, {"[2.0, 2.0] [2.0, 20.0]"}});
}

TEST_CASE("V-38 pieces of a move are uneven and empty, and V is a new dim") {
  const std::string gather = "all_gather(x, 'tp', src=spmd.S(0), dst=spmd.{}, split_sizes=[0, 3])";
  const std::string pieces = "ones(3 * rank) * 7", weight = "arange(3.) * (rank + 1)";
  CHECK(moved(pieces, fmt::format(fmt::runtime(gather), "R"), weight) ==
        ByRank{{"[7.0, 7.0, 7.0] []"}, {"[7.0, 7.0, 7.0] [0.0, 3.0, 6.0]"}});
  CHECK(moved(pieces, fmt::format(fmt::runtime(gather), "I"), weight) ==
        ByRank{{"[7.0, 7.0, 7.0] []"}, {"[7.0, 7.0, 7.0] [0.0, 2.0, 4.0]"}});
  CHECK(moved("arange(3.) + rank", "reduce_scatter(x, 'tp', dst=spmd.S(0))",
              "ones(2 - rank) * (rank + 1)") ==
        ByRank{{"[1.0, 3.0] [1.0, 1.0, 2.0]"}, {"[5.0] [1.0, 1.0, 2.0]"}});
  CHECK(moved("tensor([rank + 1.])", "all_gather(x, 'tp', src=spmd.V, dst=spmd.R)",
              "tensor([[1.], [10.]])") ==
        ByRank{{"[[1.0], [2.0]] [2.0]"}, {"[[1.0], [2.0]] [20.0]"}});
  CHECK(moved("tensor([3., 4.])", "convert(x, 'tp', src=spmd.R, dst=spmd.V)",
              "tensor(5.) * (rank + 1)") == ByRank{{"3.0 [5.0, 0.0]"}, {"4.0 [0.0, 10.0]"}});
}

TEST_CASE("V-39 a claim is one device's value under its types, or it is wrong") {
  const std::string terms = "t = w @ w.sum(0)\n";
  CHECK(wrong_claim(judged_types("spmd.assert_type(x, {'tp': spmd.R})\n"
                                 "spmd.assert_type(w, {'tp': spmd.S(1)})\n")) == "right");
  check_says("spmd.assert_type(w, {'tp': spmd.R})\n",
             "w is R along tp, and the ranks hold different values there");
  check_says("spmd.assert_type(w, {'tp': spmd.S(0)})\n", "assert_type(w): is [12, 3]");
  check_says("spmd.assert_type(x, {'tp': spmd.P})\n", "assert_type(x): ");
  check_says(
      "t = x[:, rank * 3:rank * 3 + 3] @ w[rank * 3:rank * 3 + 3].T.T.abs()\n"
      "spmd.mutate_type(t, 'tp', src=spmd.V, dst=spmd.R)\n",
      "t is R along tp, and the ranks hold different values there");
  check_says("@spmd.local_map(out_types={'tp': spmd.R})\ndef f(w):\n    return w * 2\ny = f(w)\n",
             "f(w) is R along tp");
}

TEST_CASE("V-39 the gradient that comes tells R and I apart") {
  const std::string claimed =
      "h = (x * 2).detach().requires_grad_()\nspmd.assert_type(h, {{'tp': spmd.{}}})\n"
      "y = spmd.all_reduce(({} @ w).sum(), 'tp', dst=spmd.I)\ny.backward()\n";
  const std::string entered = "spmd.convert(h, 'tp', src=spmd.I, dst=spmd.R)";
  const auto said = [&](const char* type, const std::string& used) {
    return wrong_claim(judged_types(fmt::format(fmt::runtime(claimed), type, used)));
  };
  CHECK(said("I", entered) == "right");
  CHECK(said("I", "h").find("the gradients that come to it differ") != std::string::npos);
  CHECK(said("R", entered).find("every rank there has the same gradient") != std::string::npos);
  // R and nobody adds the terms: the gradient itself is wrong, not the claim.
  CHECK(said("R", "h").starts_with("h.grad: "));
  CHECK(said("R", "(h * 1)") == said("R", "h"));
}

TEST_CASE("V-39 V says nothing, and other mesh dims are judged all the same") {
  const auto said = [](const char* factor) {
    return wrong_claim(judged_types(
        fmt::format("v = w.detach() * ({} + 1)\nspmd.assert_type(v, {{'tp': spmd.V, 'dp': "
                    "spmd.R}})\n",
                    factor),
        "dp = 2\ntp = 2"));
  };
  CHECK(said("dist.get_rank(mesh.get_group('tp'))") == "right");
  CHECK(said("rank").find("v is R along dp, and the ranks hold different values there") !=
        std::string::npos);
}

TEST_CASE("V-39 types are said in parts, as values, and by other names") {
  const std::string types = "print(spmd.get_local_type(x), spmd.get_partition_spec(x))\n";
  const auto said = [&](const std::string& claims) {
    const ScenarioResult result = judged_types(claims + types, "dp = 2\ntp = 2");
    return result.run.error ? result.run.error->summary() : result.run.printed[0].at(0).text;
  };
  const std::string both = "{'dp': 'R', 'tp': 'I'} None";
  CHECK(said("spmd.assert_type(x, {'tp': spmd.I}, spmd.R)\n") == both);
  CHECK(said("spmd.assert_type(x, spmd.R, {'tp': spmd.Invariant})\n") == both);
  CHECK(said("spmd.assert_type(x, spmd.SpmdType({'dp': spmd.R, 'tp': spmd.I}))\n") == both);
  CHECK(said("spmd.assert_type(x, spmd.merge_types({'dp': spmd.R}, {'tp': spmd.I}))\n") == both);
  CHECK(said("spmd.assert_type(x, {spmd.MeshAxis.of(mesh.get_group('tp')): spmd.I}, spmd.R)\n") ==
        both);
  CHECK(said("spmd.assert_type(x, {'dp': spmd.R}, spmd.PartitionSpec('tp', None))\n") ==
        "{'dp': 'R', 'tp': 'V'} ('tp', None)");
  CHECK(said("spmd.assert_type(x, {'dp': spmd.R}, {spmd.normalize_axis('dp'): spmd.I})\n")
            .find("dp has the types ") != std::string::npos);
  CHECK(said("spmd.assert_type(x, spmd.R)\nspmd.mutate_type(x, 'tp', src=spmd.V, dst=spmd.I)\n")
            .find("along tp the tensor is R, not V") != std::string::npos);
}

TEST_CASE("V-39 an assert_type of some mesh dims leaves the others as they are") {
  const std::string types = "print(spmd.get_local_type(x), spmd.get_partition_spec(x))\n";
  // The types as the package gives them, with its checks and without.
  for (const std::string mode : {"", "local", "strict"}) {
    const auto said = [&](const std::string& claims) {
      ScenarioOptions options;
      if (!mode.empty()) options.types = mode == "local" ? TypeMode::kLocal : TypeMode::kStrict;
      const ScenarioResult result = run_scenario(
          scenario_of("[mesh]\ndp = 2\ntp = 2\n[inputs]\nx0 = \"f64[4@dp, 6]\"\n[program]\n"
                      "code = \"\"\"\nx = x0.to_local()\n" +
                      claims + types + "\"\"\"\n"),
          all_ops(), options);
      return result.run.error ? result.run.error->summary() : result.run.printed[0].at(0).text;
    };
    CAPTURE(mode);
    CHECK(said("spmd.assert_type(x, {'tp': spmd.I})\n") == "{'tp': 'I'} None");
    CHECK(said("spmd.assert_type(x, {'dp': spmd.V, 'tp': spmd.I})\n") ==
          "{'dp': 'V', 'tp': 'I'} None");
    CHECK(said("spmd.assert_type(x, {'dp': spmd.S(0), 'tp': spmd.I})\n"
               "spmd.assert_type(x, {'tp': spmd.I})\n") == "{'dp': 'V', 'tp': 'I'} ('dp', None)");
    CHECK(said("spmd.assert_type(x, {'tp': spmd.R})\nspmd.assert_type(x, {'dp': spmd.R})\n"
               "spmd.assert_type(x, {'tp': spmd.R})\n") == "{'dp': 'R', 'tp': 'R'} None");
  }
}

TEST_CASE("V-39 terms that convert makes of replicas are terms, though the program prints them") {
  for (const char* type : {"I", "R"}) {
    const std::string code =
        fmt::format("p = spmd.convert(x, 'tp', src=spmd.{}, dst=spmd.P, expert_mode=True)\n", type);
    const std::string sum = "y = spmd.all_reduce(p, 'tp', dst=spmd.R)\n";
    CHECK(wrong_claim(judged_types(code + "print(p)\n" + sum)) == "right");
    // One is added on each rank.
    check_says(code + "p = p + 1\nprint(p)\n" + sum, "p: ");
  }
}

TEST_CASE("V-38 an all_reduce in place writes its operand") {
  const ProgramOutcome outcome =
      run("import spmd_types as spmd\nx = torch.ones(2) * (rank + 1)\n"
          "spmd.all_reduce(x, 'tp', src=spmd.P, dst=spmd.R, inplace=True)\n"
          "y = spmd.unshard(x[:1] + rank, 'tp', src=spmd.Shard(0), dst=spmd.R)\n"
          "print(x.tolist(), y.tolist())\n",
          "tp = 2");
  CHECK(outcome.error == "");
  CHECK(outcome.lines == ByRank{{"[3.0, 3.0] [3.0, 4.0]"}, {"[3.0, 3.0] [3.0, 4.0]"}});
}

TEST_CASE("V-40 types are inferred by values and gradients, and hold when they are claimed") {
  const Scenario scenario = scenario_of(
      "[mesh]\ntp = 2\n[inputs]\nx0 = \"f64[4, 6]\"\nw0 = \"f64[6, 6@tp]\"\nv0 = \"f64[6@tp, 5]\"\n"
      "[program]\ncode = \"\"\"\nx = x0.to_local().detach().requires_grad_()\n"
      "w = w0.to_local().detach().requires_grad_()\nv = v0.to_local().detach().requires_grad_()\n"
      "r = spmd.convert(x, 'tp', src=spmd.I, dst=spmd.R)\nh = torch.relu(r @ w)\nt = h @ v\n"
      "y = spmd.all_reduce(t, 'tp', dst=spmd.I)\ny.pow(2).sum().backward()\n\"\"\"\n");
  const InferredTypes inferred = infer_types(scenario, {});
  std::string text;
  for (const InferredType& value : inferred.values) {
    text += fmt::format("{} {}, ", value.name, value.types.at(0));
  }
  CHECK(text == "x0 I, w0 S(1), v0 S(0), x I, w S(1), v S(0), r R, h S(1), t P, y I, ");
  Scenario again = scenario;
  again.program = std::make_shared<const ast::Program>(
      parse_program(std::make_shared<const SourceText>("again", inferred.annotated)));
  CHECK(inferred.annotated.find("spmd.assert_type(y, {\"tp\": spmd.I})") != std::string::npos);
  CHECK(inferred.annotated.find("assert_type(h") == std::string::npos);
  CHECK(wrong_claim(run_scenario(again, all_ops(), {})) == "right");
  CHECK(infer_types(again, {}).annotated == inferred.annotated);
}

TEST_CASE("V-40 a dim that several mesh dims cut is annotated by a PartitionSpec") {
  const Scenario scenario = scenario_of(
      "[mesh]\ndp = 2\ntp = 2\n[inputs]\nx0 = \"f64[8@(dp,tp), 6]\"\n"
      "[program]\ncode = \"\"\"\nx = x0.to_local()\n\"\"\"\n");
  const std::string annotated = infer_types(scenario, {}).annotated;
  CHECK(annotated.find("spmd.assert_type(x, {}, spmd.PartitionSpec((\"dp\", \"tp\"), None))") !=
        std::string::npos);
}

// Answers are those of spmd_types 0.3.1 over DTensor of PyTorch 2.15.
TEST_CASE("V-41 the strict check refuses views that make several dims of a cut one") {
  constexpr const char* kSplit = "it makes several dims of the one that is cut";
  const std::tuple<const char*, int, int, const char*> views[] = {
      {"view(2, 8)", 0, 0, kSplit},       {"view(8, 2)", 1, 0, "no piece of the op on the whole"},
      {"reshape(4, 2, 2)", 1, 1, kSplit}, {"reshape(2, 2, 4)", 0, 0, kSplit},
      {"expand_as(x)", 0, 0, ""},         {"view(4, 2, 2)", 0, 0, ""},
      {"view(4, 1, 4)", 1, 2, ""},        {"reshape(16)", 0, 0, ""},
      {"view(1, 16)", 0, 1, ""},          {"sum(0, keepdim=True).detach().expand(4, 4)", 1, 1, ""},
  };
  ScenarioOptions options;
  options.types = TypeMode::kStrict;
  for (const auto& [view, cut, cut_there, refusal] : views) {
    const std::string code = fmt::format(
        "import spmd_types as spmd\nx = x0.to_local()\nspmd.assert_type(x, {{'tp': spmd.S({})}})\n"
        "y = x.{}\nspmd.assert_type(y, {{'tp': spmd.S({})}})\n",
        cut, view, cut_there);
    const ScenarioResult result = run_scenario(
        scenario_of("[mesh]\ntp = 2\n[inputs]\nx0 = \"f32[4, 4]\"\n[program]\ncode = \"\"\"\n" +
                    code + "\"\"\"\n"),
        all_ops(), options);
    const std::string said = result.run.error ? result.run.error->text() : "";
    CHECK_MESSAGE(said.empty() == !*refusal, view << ": " << said);
    CHECK_MESSAGE(said.find(refusal) != said.npos, view << ": " << said);
  }
}

}  // namespace shardlab::test
