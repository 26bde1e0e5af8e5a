// Reports of one small program, whose calls and bytes are counted by hand: softmax of f32[2, 4]
// cut along dim 1 gathers pieces of 2 x 2 floats, 16 bytes, twice; all else is on replicas.
#include <doctest/doctest.h>

#include <algorithm>

#include "dispatch/all_ops.h"
#include "schema/op_registry.h"
#include "schema/op_row.h"
#include "sim/files/json_value.h"
#include "sim/report/decision_text.h"
#include "sim/report/implicit_moves.h"
#include "sim/report/log_text.h"
#include "sim/report/ops_text.h"
#include "sim/report/run_text.h"
#include "sim/report/why_names.h"
#include "tests/unit/report/report_text.h"
#include "tests/unit/scenario/scenario_text.h"

using namespace shardlab;

namespace {

using test::has;
using Texts = std::vector<std::string>;

const char* const kProgram = R"([mesh]
x = 2
[inputs]
a = { type = "f32[2, 4@x]", requires_grad = true }
[program]
code = """
print("hello")
for i in range(2):
    s = softmax(a, 1)
z = s.sum()
z.backward()
"""
)";

// Rank 0 is in the groups 0, 3 along ep and 0, 1 along efsdp; the latter are those along tp, too.
const char* const kViews = R"([mesh]
dp = 2
tp = 2
[inputs]
x = "f32[4@dp, 4]"
[program]
code = """
def build():
    names = ("efsdp", "ep")
    return DeviceMesh("cpu", [[0, 3], [1, 2]], mesh_dim_names=names, preserve_rank_order=True)
sparse = build()
t = x.redistribute(sparse, [S(1), S(0)])
u = t * 2
rows = u.redistribute(sparse, [S(1), R])
v = rows.redistribute(sparse, [R, R])
tp = mesh["tp"]
part = distribute(v.to_local(), mesh=tp, tp=S(0))
whole = part.redistribute(tp, [R])
e = distribute(v.to_local(), mesh=sparse["ep"], ep=S(0))
n = x * distribute(torch.ones([1]), mesh=sparse)
"""
)";

ScenarioResult result_of(const std::string& text) {
  return run_scenario(test::scenario_of(text), all_ops(), {});
}

Texts asked_ops(const ScenarioResult& result, const std::string& why) {
  const std::vector<bool> asked = asked_about(result, why);
  Texts names;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    const TraceEvent& event = result.run.events[i];
    if (asked[i] && event.kind == TraceEvent::Kind::kOp) {
      names.emplace_back(event.schema.row->name());
    }
  }
  return names;
}

}  // namespace

TEST_CASE("B-60 the log: ops with their lines, moves below them, collectives below these, sums") {
  const std::string text = log_text(result_of(kProgram).run);
  CHECK(text.starts_with(R"(rank 0 of 2
aten::_softmax(self f32[2, 4@x], dim=1, half_to_float=False) -> f32[2, 4]   line 9
  redistribute argument 0 (self): S(1)->R
    all_gather over x (2 ranks): f32[2, 2], sends 16 B
aten::_softmax(self f32[2, 4@x], dim=1, half_to_float=False) -> f32[2, 4]   line 9
  redistribute argument 0 (self): S(1)->R
    all_gather over x (2 ranks): f32[2, 2], sends 16 B
aten::sum(self f32[2, 4]) -> f32[]   line 10
backward
)"));
  CHECK(
      text.ends_with("\naten::expand(self f32[], size=[2, 4]) -> f32[2, 4]   line 10\n"
                     "aten::_softmax_backward_data(grad_output f32[2, 4], output f32[2, 4], dim=1, "
                     "input_dtype=f32) -> f32[2, 4]   line 9\n"
                     "collectives entered, all ranks: all_gather 4\n"));
}

TEST_CASE(
    "B-60 the log of a program that fails ends with its error, and one without ops says none") {
  const std::string head = "[mesh]\nx = 2\n[inputs]\na = \"f32[3@x]\"\n[program]\ncode = \"\"\"\n";
  const std::string failed = log_text(result_of(head + "b = a.view(5)\n\"\"\"\n").run);
  has(failed, "collectives entered, all ranks: none\nerror: ");
  CHECK(log_text(result_of(head + "b = 1\n\"\"\"\n").run) ==
        "rank 0 of 2\ncollectives entered, all ranks: none\n");
}

TEST_CASE("B-60 an explicit move is logged with its place and its collective") {
  const std::string text =
      log_text(result_of("[mesh]\nx = 2\n[inputs]\na = \"f32[3@x]\"\n[program]\ncode = \"\"\"\n"
                         "b = a.redistribute(x=R)\n\"\"\"\n")
                   .run);
  // The larger piece has 2 of the 3 elements; in a ring, each rank sends half of the 12 bytes.
  has(text,
      "redistribute f32[3@x]: S(0)->R   line 7\n"
      "  all_gather over x (2 ranks): f32[2], sends 6 B\n");
}

TEST_CASE("B-60 implicit moves of one argument on one line are one, with how often and how much") {
  const ScenarioResult result = result_of(kProgram);
  const std::vector<ImplicitMove> moves = implicit_moves(result.run);
  REQUIRE(moves.size() == 1);
  CHECK(moves[0].pass == Pass::kForward);
  CHECK(moves[0].line == 9);
  CHECK(moves[0].op == "aten::_softmax");
  CHECK(moves[0].argument == "self");
  CHECK(moves[0].source == "f32[2, 4@x]");
  CHECK(moves[0].target == "f32[2, 4]");
  CHECK(moves[0].times == 2);
  CHECK(moves[0].sent_bytes == 32);
}

TEST_CASE("B-60 implicit moves are told of where the scenario asks for warnings only") {
  CHECK(implicit_warnings(result_of(kProgram).run).empty());
  CHECK(
      implicit_warnings(result_of(std::string(kProgram) + "[expect]\nimplicit = \"warn\"\n").run) ==
      Texts{"line 9: aten::_softmax redistributes argument self from f32[2, 4@x] to f32[2, 4], "
            "2 times, 32 B sent by rank 0"});
}

TEST_CASE("B-60 types and collectives name their mesh where it is not the scenario's") {
  const ScenarioResult result = result_of(kViews);
  REQUIRE_FALSE(result.run.error);
  std::vector<std::pair<std::string, std::string>> types;
  for (const ValueReport& value : result.judgement.values) {
    types.emplace_back(value.name, value.type);
  }
  const auto type = [&](const std::string& name) {
    const auto found = std::ranges::find(types, name, [](const auto& one) { return one.first; });
    return found == types.end() ? "none" : found->second;
  };
  CHECK(type("u") == "f32[4@ep, 4@efsdp] on sparse");
  CHECK(type("part") == "f32[4@tp, 4] on mesh[\"tp\"]");
  CHECK(type("e") == "f32[4@ep, 4] on sparse[\"ep\"]");
  CHECK(type("n") == "f32[4@dp, 4]");
  const std::string text = run_text(result, {.length = ReportLength::kFull});
  has(text, "redistribute       f32[4@dp, 4] -> f32[4@ep, 4@efsdp] on sparse\n");
  has(text, "mul.Scalar         f32[4@ep, 4@efsdp] on sparse -> f32[4@ep, 4@efsdp] on sparse\n");
  has(text, "all_gather over ep of sparse (2 ranks)");
  has(text, "all_gather     over tp             2 ranks    2 forward");
  has(text, "1 implicit use of numbers on other meshes");
  CHECK(result.run.implicit_count == 1);
  const std::string log = log_text(result.run);
  has(log, "all_gather over ep of sparse (2 ranks)");
  has(log,
      "aten::mul.Scalar(self f32[4@ep, 4@efsdp] on sparse, other=2) -> f32[4@ep, 4@efsdp] on "
      "sparse");
  has(log, "redistribute f32[1] on sparse: to f32[1]");
  CHECK(run_text(result_of(kProgram), {.length = ReportLength::kFull}).find(" on mesh") ==
        std::string::npos);
}

TEST_CASE("B-60 a name to which stages give values of their own is a value for each") {
  const ScenarioResult result = result_of(R"([mesh]
pp = 2
tp = 2
[inputs]
x = "f32[5]"
[program]
code = """
tp = mesh["tp"]
whole = x.full_tensor()
if mesh.get_local_rank("pp") == 0:
    h = distribute(whole, mesh=tp, tp=S(0))
else:
    h = distribute(whole * 2, mesh=tp, tp=S(0))
both = distribute(whole, mesh=tp, tp=S(0))
"""
)");
  CHECK(result.met());
  Texts names;
  for (const ValueReport& value : result.judgement.values) {
    if (value.spec != nullptr && is_verified(value)) names.push_back(value.name);
  }
  CHECK(names == Texts{"h on pp=0", "both", "h on pp=1"});
}

TEST_CASE("B-60 --why asks about an op, a line, a value, or all") {
  const ScenarioResult result = result_of(kProgram);
  const Texts softmax = {"aten::_softmax", "aten::_softmax"};
  CHECK(asked_ops(result, "_softmax") == softmax);
  CHECK(asked_ops(result, "aten::sum") == Texts{"aten::sum"});
  CHECK(asked_ops(result, "10") == Texts{"aten::sum", "aten::expand"});
  CHECK(asked_ops(result, "z") == Texts{"aten::sum"});
  // The last of the two results of the softmax has a gradient.
  CHECK(asked_ops(result, "a.grad") == Texts{"aten::_softmax_backward_data"});
  CHECK(asked_ops(result, "all").size() == 5);
  CHECK(asked_ops(result, "").empty());
  CHECK_FALSE(nothing_asked(result, "_softmax").has_value());
  CHECK_FALSE(nothing_asked(result, "").has_value());
}

TEST_CASE("B-60 --why asks about a line of the recorded script by its place") {
  const ScenarioResult result = result_of(
      "[mesh]\nx = 2\n[inputs]\na = \"f32[2@x, 3]\"\n[program]\ncode = \"\"\"\n"
      "b = aten.exp.default(a)    # outer  train.py:24\n"
      "c = aten.sin.default(b)    # inner  models/block.py:24\nd = aten.abs.default(c)    # "
      "train.py:2\n"
      "\"\"\"\n");
  CHECK(asked_ops(result, "train.py:24") == Texts{"aten::exp"});
  CHECK(asked_ops(result, "block.py:24") == Texts{"aten::sin"});
  CHECK(asked_ops(result, "models/block.py:24") == Texts{"aten::sin"});
  CHECK(asked_ops(result, "train.py:2") == Texts{"aten::abs"});
  for (const char* none : {"rain.py:24", "py:24", ":24", "train.py:4"}) {
    CHECK(asked_ops(result, none).empty());
  }
}

TEST_CASE("B-60 --why of what was not run names what was") {
  const ScenarioResult result = result_of(kProgram);
  const auto told = [&](const std::string& why) {
    const auto error = nothing_asked(result, why);
    REQUIRE(error.has_value());
    return error->text();
  };
  CHECK(told("softmax") ==
        "--why softmax: the run has no op, line or value of that name\n"
        "  fix         did you mean '_softmax'? ops _softmax, _softmax_backward_data, expand, sum; "
        "lines 9, 10; values a.grad, s, z; or all");
  has(told("a"), "--why a: an input is given, and no op made it");
  has(told("77"), "the run has no op, line or value of that name");
}

TEST_CASE("B-60 arguments are named as the schema names them, elements of lists by their place") {
  const ScenarioResult result = result_of(
      "[mesh]\nx = 2\n[inputs]\na = \"f32[2@x, 3]\"\n[program]\ncode = \"\"\"\n"
      "b = cat([a, a, a], 0)\nc = a * a\n\"\"\"\n");
  Texts names;
  for (const TraceEvent& event : result.run.events) {
    if (event.kind != TraceEvent::Kind::kOp) continue;
    for (int i = 0; i < 4; ++i) names.push_back(argument_name(event.schema, i));
  }
  CHECK(names == Texts{"tensors[0]", "tensors[1]", "tensors[2]", "3", "self", "other", "2", "3"});
}

TEST_CASE("B-60 a decision says what was chosen and what moves") {
  const ScenarioResult result = result_of(kProgram);
  const std::string text = run_text(result, {.why = "_softmax"});
  has(text, "_softmax           f32[2, 4@x] -> f32[2, 4]");
  has(text, "chosen: ");
  has(text, "moves: input 0 f32[2, 4@x] => f32[2, 4]");
  // Cheapest first: one operand moves, then both.
  const std::string product = run_text(
      result_of("[mesh]\nx = 4\n[inputs]\na = \"f32[8@x, 16]\"\nb = \"f32[16, 4@x]\"\n[program]\n"
                "code = \"c = a @ b\"\n"),
      {.why = "mm"});
  has(product, "(R, R) -> R");
  CHECK(product.find("(S(0), R) -> S(0)") < product.find("(R, R) -> R"));
}

TEST_CASE("B-60 the report: header, inputs, prints, sums, a last line with the verdict") {
  const ScenarioResult result = result_of("title = \"Softmax\"\n" + std::string(kProgram));
  const std::string text = run_text(result, {});
  has(text, "Softmax\nmesh {x:2}  2 ranks");
  has(text, "  a  f32[2, 4@x]                        16 B on rank 0\n");
  has(text, "\nprinted\n  hello\n");
  has(text, "all_gather over x, implicit: self of _softmax                          2      32 B");
  has(text, "2 implicit redistributions communicate");
  CHECK(text.find('\x1b') == std::string::npos);
  has(run_text(result, {.color = Color::kOn}), "\x1b[");
  const std::string line = run_line(result, {});
  CHECK(line.starts_with("ok "));
  has(line, "2 ranks");
  has(line, "2 collectives");
  CHECK(result.met());
}

TEST_CASE("B-60 the report of an expectation that is not met says what was found") {
  const ScenarioResult result = result_of(std::string(kProgram) + "[expect]\nz = \"f32[2]\"\n");
  CHECK_FALSE(result.met());
  has(run_text(result, {}), "f32[2]");
  CHECK(run_line(result, {}).starts_with("FAILED"));
}

TEST_CASE("B-60 an op by name: its schema, rule and gradient; an unknown one names the nearest") {
  const std::string text = ops_text(all_ops(), "mm");
  has(text, "aten::mm(Tensor self, Tensor mat2) -> Tensor\n");
  has(text, "aten::mm.dtype(Tensor self, Tensor mat2, ScalarType out_dtype) -> Tensor\n");
  has(text, "mk,kn->mn");
  has(text, "  gradient    yes\n");
  has(text, "  variants    aten::mm.out, aten::_foreach_mm\n");
  CHECK(text.find("aten::mm.out(") == std::string::npos);
  has(ops_text(all_ops(), "relu"), "  variants    aten::relu_, aten::relu.out\n");
  has(ops_text(all_ops(), "mm.out"), "  variant of  aten::mm\n");
  has(ops_text(all_ops(), "softmax.int"), "  rule        in terms of other ops: _softmax\n");
  try {
    ops_text(all_ops(), "softmx.int");
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kUnsupported);
    has(error.text(), "softmax");
  }
  const auto json = nlohmann::json::parse(ops_json(all_ops(), "mm"));
  REQUIRE(json.size() == 4);
  const auto named = [&](const char* op) {
    return *std::ranges::find_if(json, [&](const auto& row) { return row["op"] == op; });
  };
  CHECK(named("aten::mm")["gradient"] == true);
  CHECK(named("aten::mm")["runs"] == true);
  CHECK(named("aten::mm")["variant_of"] == "");
  CHECK(named("aten::mm.out")["variant_of"] == "aten::mm");
}

TEST_CASE("B-60 all ops: one line each, and a sum of as many") {
  const std::string text = ops_text(all_ops(), "");
  const std::size_t last = text.rfind('\n', text.size() - 2);
  const std::string sum = text.substr(last + 1);
  int rows = 0, variants = 0;
  for (const OpRow* row : all_ops().rows()) ++(row->base == nullptr ? rows : variants);
  CHECK(std::count(text.begin(), text.end(), '\n') == rows + 1);
  has(sum, fmt::format("{} ops: {} rows of their own, {} variants of them", rows + variants, rows,
                       variants));
}
