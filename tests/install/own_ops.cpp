// An op, and rules for ops that are there, which a user adds from outside of the repository. What
// the page src/api/README.md shows stands here in the same words. Each function prints one line,
// which install_test.py compares with what must come out.
#include <shardlab/ops.h>
#include <shardlab/scenario.h>

#include <cstdio>

using namespace shardlab;

// One number per row: scale * (x[i, 0]^2 + x[i, 1]^2 + ...).
OutputMetas energy_shape(const MetaArgs& args) {
  const TensorMeta& x = *args.tensor(0);
  if (x.shape.size() != 2) {
    fail(ErrorKind::kValue, "{}: x has {} dims, must have 2", args.op().name(), x.shape.size());
  }
  return {{contiguous_meta(Dims{x.shape[0]}, x.dtype)}};
}

// On one mesh dim: cut by rows, as the result then is; or by columns, and a sum is pending.
std::vector<RuleRow> energy_rule(const RuleContext&) {
  return {{{any(0)}, {any(0)}}, {{sum()}, {any(1)}}};
}

// What each rank computes on its piece, in other ops.
Results energy(Calls& calls, const OpRow&, const Arguments& args) {
  const DTensor squares = calls.one("aten::mul.Tensor", {args[0], args[0]});
  const DTensor sums = calls.one("aten::sum.dim_IntList", {squares, Dims{1}});
  return calls("aten::mul.Scalar", {sums, args[1]});
}

// 2 * scale * x, times the gradient of x's row; on global values.
std::vector<DTensor> energy_gradient(const GradContext& context) {
  const double scale = context.inputs[1].to_double();
  const Expression of_rows = grad::flowing(context).with("aten::unsqueeze", 1);
  return {(grad::in(context, 0) * (2 * scale) * of_rows).value()};
}

std::unique_ptr<const OpRegistry> ops_with_energy() {
  return ops_with([](OpRegistry& registry) {
    OpRow row;
    row.op = parse_op_schema("my::energy(Tensor x, float scale=1.0) -> Tensor");
    row.meta = energy_shape;
    row.rule = energy_rule;
    row.compute = energy;
    row.gradient = {energy_gradient, "x"};
    row.flags = kAllowUneven;  // also where some ranks have no row, or no column
    row.why = "a row's terms add up";
    registry.add(std::move(row));
  });
}

// Products without a sum over ranks have the bits that one device has.
std::vector<RuleRow> by_rows_or_columns(const RuleContext&) {
  return {{{any(0)}, {any(0), whole()}}, {{any(1)}, {whole(), any(1)}}};
}

// In the types of the first generation: what comes out, or what to ask about instead.
older::OutputSharding of_whole_values(const older::OpSchema& schema) {
  const DTensorSpec* x = schema.args_spec()[0];
  if (!x->has_partial()) return {x, {}, std::nullopt};
  older::OpSchema reduced = schema;
  reduced.args_schema[0] = x->with(Placements(x->layout()->ndim()));
  return {{}, {reduced}, "a pending sum is added up first"};
}

std::unique_ptr<const OpRegistry> ops_with_rules() {
  return ops_with([](OpRegistry& registry) {
    registry.set_rule("aten::mm", DimRuleFn{by_rows_or_columns});
    registry.set_rule("aten::neg", MeshRuleFn{older::run<of_whole_values>});
    set_factor_rule(registry, "aten::linear", "bk,nk->bn");  // decided as a whole
  });
}

// Of a row that is cut, each rank adds up its part of the squares.
Results rms_norm_on_pieces(const OnPieces& call) {
  const DTensor &x = call.args[0].tensor(), &weight = call.args[2].tensor();
  const std::int64_t columns = call.args[1].ints()[0];
  DTensor squares = sum(x * x, Dims{-1}, KeepDim::kYes);
  for (ProcessGroup* group : groups_of(call, 'b')) {
    squares = all_reduce(squares, ReduceOp::kSum, *group);
  }
  const DTensor scale = rsqrt(squares / columns + call.args[3].to_double());
  return {Argument(x * scale * weight)};
}

std::unique_ptr<const OpRegistry> ops_with_a_local_program() {
  return ops_with([](OpRegistry& registry) {
    set_factor_rule(registry, "aten::rms_norm", "ab,b->ab", {rms_norm_on_pieces, "b"});
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

int main() {
  show_op();
  show_scenario();
  show_rules("shipped", all_ops());
  show_rules("own", *ops_with_rules());
  show_rules("not a rule", *ops_with_a_wrong_rule());
  show_rules("local", *ops_with_a_local_program(), kLocal);
}
