// Ops that answer with a plain value. Their handlers combine the ranks' answers.
#include "base/tensor_dim.h"
#include "ops/family.h"

namespace shardlab {
namespace {

/// Both operands are cut in the same way, so that ranks compare the same elements.
std::vector<RuleRow> alike_rule(const RuleContext& context) {
  std::vector<RuleRow> rows;
  const std::size_t ndim = std::min(context.tensors[0]->ndim(), context.tensors[1]->ndim());
  for (std::size_t dim = 0; dim < ndim; ++dim) {
    rows.push_back(uniform_row(RulePlacement::any(static_cast<std::int64_t>(dim)), 0, 2));
  }
  return rows;
}

MeshRuleResult as_given_rule(const RuleContext& context) {
  return {.outputs = {}, .inputs = {context.tensors[0]->placements()}};
}

// Answers from the type of a tensor; strides and offsets are those of the whole.

Results dim_of(Calls&, const Arguments& args) {
  return {Argument(static_cast<std::int64_t>(args[0].tensor().ndim()))};
}
Results numel_of(Calls&, const Arguments& args) { return {Argument(args[0].tensor().numel())}; }

std::size_t named_dim(const Arguments& args) {
  const DTensor& x = args[0].tensor();
  if (x.ndim() > 0) return static_cast<std::size_t>(wrap_dim(args[1].to_int(), x.ndim()));
  fail(Fix{"ask a tensor of at least one dim"}, "a tensor without dims has no dim {}",
       args[1].to_int());
}
Results size_of(Calls&, const Arguments& args) {
  return {Argument(args[0].tensor().shape()[named_dim(args)])};
}
Results stride_of(Calls&, const Arguments& args) {
  return {Argument(args[0].tensor().meta().stride[named_dim(args)])};
}
Results offset_of(Calls&, const Arguments& args) {
  const DTensor& x = args[0].tensor();
  return {Argument(x.distributed() ? std::int64_t{0} : x.local().offset())};
}
Results is_contiguous_in_rows(Calls&, const Arguments& args) {
  const TensorMeta& meta = args[0].tensor().meta();
  return {Argument(is_contiguous(meta.shape, meta.stride))};
}
Results is_contiguous_as(Calls& calls, const Arguments& args) {
  const std::string& format = args[1].string();
  if (!format.starts_with("channels_last")) return is_contiguous_in_rows(calls, args);
  const TensorMeta& meta = args[0].tensor().meta();
  const std::size_t ndim = format == "channels_last" ? 4 : 5;
  if (meta.shape.size() != ndim) return {Argument(false)};
  Dims shape = meta.shape, stride = meta.stride;  // with the channels last
  shape.erase(1);
  shape.push_back(meta.shape[1]);
  stride.erase(1);
  stride.push_back(meta.stride[1]);
  return {Argument(is_contiguous(shape, stride))};
}
Results has_complex(Calls&, const Arguments& args) {
  return {Argument(is_complex(args[0].tensor().dtype()))};
}
Results never(Calls&, const Arguments&) { return {Argument(false)}; }
/// isclose(self, other, rtol, atol, equal_nan): |self - other| <= atol + rtol |other|
Results is_close(Calls& calls, const Arguments& args) {
  const Expression a(calls, args[0].tensor()), b(calls, args[1].tensor());
  if (a.value().dtype() != b.value().dtype()) {
    fail(Fix{"cast one of them: other.to(x.dtype)"},
         "isclose compares tensors of one dtype, not {} and {}", to_string(a.value().dtype()),
         to_string(b.value().dtype()));
  }
  if (args[2].to_double() < 0 || args[3].to_double() < 0) {
    fail(Fix{"give tolerances of at least 0"},
         "isclose: rtol is {} and atol is {}; neither may be negative", args[2].text(),
         args[3].text());
  }
  Expression same = a.eq(b);
  if (args[4].to_bool()) same = same || (a.of("isnan") && b.of("isnan"));
  if (args[2].to_double() == 0 && args[3].to_double() == 0) return {same};
  const bool whole = is_integral(a.value().dtype());
  const Expression wide = whole ? b.to(DType::kF64) : b;
  const Expression room = wide.of("abs") * args[2].to_double() + args[3].to_double();
  const Expression off = ((whole ? a.to(DType::kF64) : a) - wide).of("abs");
  return {same || (off.of("isfinite") && off.le(room))};
}

/// allclose(self, other, rtol, atol, equal_nan)
Results all_close(Calls& calls, const Arguments& args) {
  return calls("item", {calls.one("all", {calls.one("isclose", args)})});
}

constexpr const char* kOfType = "of the global type";

// Sorted by name.
// clang-format off
constexpr Row kQueryRows[] = {
    {"_local_scalar_dense"_op, nullptr, MeshRuleFn{as_given_rule}, {}, {},
     "the handler fetches the element (X-37)", kDataDependent},
    composite("allclose"_op, all_close, "isclose and all", kDataDependent),
    composite("dim"_op, dim_of, kOfType),
    {"equal"_op, nullptr, DimRuleFn{alike_rule}, {}, {}, "every rank compares its piece (X-35)",
     kAllowUneven | kCollective | kDataDependent},
    composite("is_complex"_op, has_complex, kOfType),
    composite("is_contiguous"_op, is_contiguous_in_rows, kOfType),
    composite("is_contiguous.memory_format"_op, is_contiguous_as, kOfType),
    composite("is_pinned"_op, never, "no memory here is pinned"),
    {"is_same_size"_op, nullptr, DimRuleFn{alike_rule}, {}, {}, "compares global shapes",
     kAllowUneven},
    composite("isclose"_op, is_close, "sub, abs and le", kNotDifferentiable),
    composite("item"_op, by_op<"_local_scalar_dense", 0>, "_local_scalar_dense", kDataDependent),
    composite("numel"_op, numel_of, kOfType),
    composite("size.int"_op, size_of, kOfType),
    composite("storage_offset"_op, offset_of, kOfType),
    composite("stride.int"_op, stride_of, kOfType),
    composite("sym_numel"_op, numel_of, kOfType),
    composite("sym_size.int"_op, size_of, kOfType),
    composite("sym_storage_offset"_op, offset_of, kOfType),
    composite("sym_stride.int"_op, stride_of, kOfType),
};
// clang-format on

}  // namespace

// dispatch/all_ops.cpp gives them their handlers.
void register_query(OpRegistry& registry) { add_rows(registry, kQueryRows, kNotDifferentiable); }

}  // namespace shardlab
