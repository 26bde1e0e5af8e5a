// Ops, and rules for existing ops, which a user adds from outside of the repository, as the page
// src/api/README.md shows them: install_test.py writes its examples to files. Each function prints
// one line, which the test compares with the expected one.
#include <shardlab/ops.h>
#include <shardlab/scenario.h>

#include <cstdio>

using namespace shardlab;

#include <energy.inc>
#include <local_program.inc>
#include <own_rules.inc>
#include <raw_kernel.inc>

std::vector<DTensor> cube_gradient(const GradContext& context) {
  const Expression x = grad::in(context, 0);
  return {(grad::flowing(context) * (x * x * 3.0)).value()};
}

std::unique_ptr<const OpRegistry> ops_with_cube() {
  return ops_with([](OpRegistry& registry) {
    OpRow row;
    row.op = parse_op_schema("my::cube(Tensor x) -> Tensor");
    row.meta = meta_contiguous;
    row.rule = PointwiseRule{};
    row.compute = cube;
    row.gradient = {cube_gradient, "x"};
    row.flags = kAllowUneven;
    registry.add(std::move(row));
  });
}

// The exponential of terms is not a term of the exponential.
std::unique_ptr<const OpRegistry> ops_with_a_wrong_rule() {
  return ops_with(
      [](OpRegistry& registry) { registry.set_rule("aten::exp", PointwiseRule{"ss"}); });
}

ScenarioResult run(const std::string& text, const OpRegistry& ops,
                   const char* backend = "threads") {
  const ScenarioFile file =
      ScenarioFile::read(std::make_shared<const SourceText>("own.toml", text), {});
  ScenarioOptions options;
  options.backend = backend;
  return run_scenario(file.at(file.points()[0]), ops, options);
}

void tell(const DTensor& value, bool speaks) {
  const std::vector<double> numbers = read_doubles(full_tensor(value).local());
  if (!speaks) return;
  std::printf(" %s", type_string(value).c_str());
  for (const double number : numbers) std::printf(" %g", number);
  std::printf(",");
}

// Five rows over four ranks, the last of which has none; then three columns over four.
void show_op() {
  std::printf("op:");
  spmd(4, *ops_with_energy(), [](RankContext& rank) {
    const MeshLayout* mesh = init_mesh({{"tp", 4}});
    for (const char* placement : {"tp=S(0)", "tp=S(1)"}) {
      const DTensor numbers = to(reshape(arange(15), {5, 3}), DType::kF32);
      const DTensor x = distribute_tensor(numbers, mesh, placement);
      require_grad(x);
      const DTensor y = recording_calls().one("my::energy", {x, 0.5});
      backward(sum(y * distribute_tensor(tensor({1, 2, 3, 4, 5}, {5}), mesh, "tp=R")));
      tell(y, rank.rank == 0);
      tell(grad_of(x), rank.rank == 0);
    }
  });
  std::printf("\n");
}

const char* const kOwnOp = R"(
[mesh]
tp = 4
[inputs]
x = "f32[5@tp, 3]"
z = "f32[7, 3@tp]"
[program]
code = """
y = torch.ops.my.energy(x, scale=0.5)
v = torch.ops.my.energy.default(z)
backward(y.sum() + v.sum())
"""
[expect]
y = "f32[5@tp]"
v = "f32[7]{sum:tp}"
grads = ["x", "z"]
)";

// The file's own rule for the program's own op: cut by rows only, so that z moves.
const char* const kItsRule = R"(
[[rule]]
op = "my::energy"
rule = "ab->a"
)";

void show_scenario() {
  const auto ops = ops_with_energy();
  std::printf("scenario:");
  for (const char* backend : {"threads", "fake"}) {
    std::printf(" %s %s", backend, run(kOwnOp, *ops, backend).met() ? "met" : "not met");
  }
  std::printf(", with a rule %s\n",
              run(std::string(kOwnOp) + kItsRule, *ops).met() ? "met" : "not met");
}

const char* const kRules = R"(
[mesh]
tp = 4
[inputs]
x = "f32[7, 6@tp]"
w = "f32[6@tp, 5]"
k = "f32[5, 6@tp]"
[program]
code = """
y = x @ w
z = exp(y)
u = F.linear(x, k)
v = -x.sum(dim=1)
"""
)";

const char* const kLocal = R"(
[mesh]
tp = 4
[inputs]
x = "f32[3, 7@tp]"
w = "f32[7@tp]"
[program]
code = """
y = F.rms_norm(x, [7], w, 1e-5)
backward(y.pow(2).sum())
"""
[expect]
grads = ["x", "w"]
)";

void show_rules(const char* what, const OpRegistry& ops, const char* text = kRules) {
  const ScenarioResult result = run(text, ops);
  std::printf("%s: %s", what, result.met() ? "right" : "wrong");
  if (const auto& wrong = result.judgement.steps.wrong) {
    std::printf(" in line %d, %s", wrong->place.position.line, wrong->place.op.c_str());
  }
  for (const ValueReport& value : result.judgement.values) {
    std::printf(", %s %s", value.name.c_str(), value.type.c_str());
  }
  const CollectiveCounts& counts = result.run.counts[0];
  std::printf(", %d all_reduce, %d all_gather\n",
              static_cast<int>(counts.total(CollectiveKind::kAllReduce)),
              static_cast<int>(counts.total(CollectiveKind::kAllGather)));
}

// Views of pieces: a transposed matrix, every other column.
const char* const kCube = R"(
[mesh]
tp = 4
[inputs]
x = "f32[7@tp, 6]"
[program]
code = """
y = torch.ops.my.cube(x.t())
z = torch.ops.my.cube(x[:, ::2])
backward(y.sum() + z.sum())
"""
[expect]
grads = ["x"]
[reference]
code = """
y = x.t() * x.t() * x.t()
z = x[:, ::2].pow(3)
backward(y.sum() + z.sum())
"""
)";

int main() {
  show_op();
  show_scenario();
  show_rules("shipped", all_ops());
  show_rules("own", *ops_with_rules());
  show_rules("not a rule", *ops_with_a_wrong_rule());
  show_rules("local", *ops_with_a_local_program(), kLocal);
  show_rules("loop", *ops_with_cube(), kCube);
}
