// An op with a kernel and a gradient of its own, tested on ranks.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <shardlab/ops.h>
#include <shardlab/testing.h>

#include <cmath>

using namespace shardlab;

static OutputMetas same_shape(const MetaArgs& args) { return {{*args.tensor(0)}}; }

static std::vector<RuleRow> by_rows_or_columns(const RuleContext&) {
  return {{{any(0)}, {any(0)}}, {{any(1)}, {any(1)}}};
}

template <typename T>
static void elements(const DTensor& x, const DTensor& y) {
  T* to = as_mutable_span<T>(y).data();
  for (const T value : as_span<T>(x)) *to++ = value / (1 + std::abs(value));
}

static Results softsign(Calls&, const OpRow&, const Arguments& args) {
  const DTensor x = args[0].tensor().clone(), y = x.clone();
  if (on_host(x.local())) (x.dtype() == DType::kF64 ? elements<double> : elements<float>)(x, y);
  return {Argument(y)};
}

static std::vector<DTensor> gradient(const GradContext& context) {
  const Expression d = grad::in(context, 0).of("aten::abs") + 1.0;
  return {(grad::flowing(context) / (d * d)).value()};
}

static const auto ops = ops_with([](OpRegistry& registry) {
  OpRow row;
  row.op = parse_op_schema("my::softsign(Tensor x) -> Tensor");
  row.meta = same_shape;
  row.rule = by_rows_or_columns;
  row.compute = softsign;
  row.gradient = {gradient, "x"};
  row.flags = kAllowUneven;
  row.why = "element by element";
  registry.add(std::move(row));
});

SHARD_TEST("softsign and its gradient", "dp=2, tp=2", *ops) {
  const auto f = [](const DTensor& x) { return recording_calls().one("my::softsign", {x}); };
  const auto slope = [&](const DTensor& x) {
    x.requires_grad_();
    return f(x).sum().backward(), x.grad();
  };
  const auto known = [](const DTensor& x) {
    return 1 / (recording_calls().one("aten::abs", {x}) + 1).pow(2);
  };
  const DTensor x = randn({7, 6}), d = distribute_tensor(x, mesh, "dp=S(0), tp=S(1)");
  CHECK(type_string(f(d)) == "f32[7@dp, 6@tp]");
  CHECK_CLOSE(f(d), testing::one_device(f, x));
  CHECK_CLOSE(slope(d), testing::one_device(known, x));
}
