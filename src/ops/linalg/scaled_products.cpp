// Matrix products with more around them: scales of 8-bit floats, groups of rows or columns.
#include <algorithm>

#include "mesh/local_shape.h"
#include "mesh/type_string.h"
#include "ops/family.h"

namespace shardlab {
namespace {

// Scaled

/// _scaled_mm(self, mat2, scale_a, scale_b, bias, scale_result, out_dtype, use_fast_accum): scales
/// are one number, or one for each row of self, for each column of mat2.
OutputMetas meta_scaled_mm(const MetaArgs& args) {
  const TensorMeta &a = *args.tensor(0), &b = *args.tensor(1);
  const bool fits = a.shape.size() == 2 && b.shape.size() == 2 && a.shape[1] == b.shape[0];
  if (!fits || a.dtype != DType::kF8E4M3FN || b.dtype != a.dtype) {
    fail(Fix{"give matrices [m, k] and [k, n] of float8_e4m3fn"},
         "{}: {} and {} are no matrices of 8-bit floats that fit together", args.op().name(),
         type_string(a), type_string(b));
  }
  const auto scales = [&](std::size_t index, const Dims& rows) {
    const TensorMeta* scale = args.tensor(index);
    if (scale == nullptr ||
        (scale->dtype == DType::kF32 && (product(scale->shape) == 1 || scale->shape == rows))) {
      return;
    }
    fail(Fix{fmt::format("give one number of float32, or [{}]", text_of_list(rows, ", "))},
         "{}: {} is {}; it must be one number of f32, or [{}]", args.op().name(),
         args.op().arguments[index].name, type_string(*scale), text_of_list(rows, ", "));
  };
  scales(2, Dims{a.shape[0], 1});
  scales(3, Dims{1, b.shape[1]});
  scales(5, Dims{1});
  const TensorMeta* bias = args.tensor(4);
  if (bias != nullptr && bias->shape != Dims{b.shape[1]}) {
    fail(Fix{fmt::format("give it the shape [{}]", b.shape[1])},
         "{}: bias [{}] is not one number per column", args.op().name(),
         text_of_list(bias->shape, ", "));
  }
  return {{contiguous_meta(Dims{a.shape[0], b.shape[1]}, dtype_or(args[6], a.dtype))}};
}

/// The rule of mm; scales of rows and columns are cut with them.
std::vector<RuleRow> rule_scaled_mm(const RuleContext& context) {
  if (context.tensors.size() != 4) return {};
  const RuleContext factors{
      context.schema, context.outputs, {context.tensors[0], context.tensors[1]}};
  std::vector<RuleRow> rows = factor_rows(FactorRule{"mk,kn->mn"}, factors);
  for (RuleRow& row : rows) {
    for (const std::size_t i : {0, 1}) {
      const bool one = product(context.tensors[2 + i]->shape()) == 1;
      row.inputs.push_back(!one && row.inputs[i].any_shard ? row.inputs[i] : whole());
    }
  }
  return rows;
}

Results scaled_mm(Calls& calls, const OpRow&, const Arguments& args) {
  const auto wide = [&](const Argument& x) {
    return Expression(calls, x.tensor()).to(DType::kF32);
  };
  const Expression a = wide(args[0]).times(wide(args[2]));
  const Expression b = wide(args[1]).times(wide(args[3]));
  Expression result(calls, calls.one("aten::mm", {a, b}));
  if (args[4].is_tensor()) result = result + wide(args[4]);
  if (args[5].is_tensor()) result = result * wide(args[5]);
  return {result.to(dtype_or(args[6], args[0].tensor().dtype()))};
}

// Grouped: where an operand has no dim for the groups, offs gives the end of each.

std::int64_t group_count(const MetaArgs& args) {
  const TensorMeta &a = *args.tensor(0), &b = *args.tensor(1);
  const TensorMeta* ends = args.tensor(2);
  const auto ranks = [](const TensorMeta& x) { return x.shape.size(); };
  const bool needs_ends = ranks(a) == 2 || ranks(b) == 2;
  const std::int64_t groups = ranks(a) == 3                            ? a.shape[0]
                              : ranks(b) == 3                          ? b.shape[0]
                              : ends == nullptr || ends->shape.empty() ? 0
                                                                       : ends->shape[0];
  const bool ends_fit =
      needs_ends ? ends != nullptr && ends->shape == Dims{groups} && ends->dtype == DType::kI32
                 : ends == nullptr && b.shape[0] == groups;
  if (ends_fit && args.tensor(3) == nullptr) return groups;
  fail(Fix{"give offs of int32, the end of each group, where an operand has two dims, and no bias"},
       "{}: offs does not fit {} and {}", args.op().name(), type_string(a), type_string(b));
}

/// The kernel of the GPUs wants rows or columns that begin at multiples of 16 bytes.
std::int64_t aligned_step(DType dtype) { return 16 / item_bytes(dtype); }

bool aligned(const Dims& shape, const Dims& stride, DType dtype) {
  const std::size_t last = shape.size() - 1;
  for (const auto& [inner, outer] : {std::pair(last - 1, last), std::pair(last, last - 1)}) {
    if (stride[inner] == 1 && stride[outer] >= std::max<std::int64_t>(1, shape[inner])) {
      return stride[outer] % aligned_step(dtype) == 0;
    }
  }
  return false;
}

/// Rows of the result begin at such places, too.
TensorMeta padded_rows(const Dims& shape, DType dtype) {
  TensorMeta meta = contiguous_meta(shape, dtype);
  const std::int64_t step = aligned_step(dtype), row = (shape.back() + step - 1) / step * step;
  const std::size_t ndim = shape.size();
  meta.stride[ndim - 2] = row;
  if (ndim == 3) meta.stride[0] = row * shape[1];
  return meta;
}

/// _grouped_mm(self, mat2, offs, bias, out_dtype)
OutputMetas meta_grouped_mm(const MetaArgs& args) {
  const TensorMeta &a = *args.tensor(0), &b = *args.tensor(1);
  const auto matrices_of = [](const TensorMeta& x) {
    return x.shape.size() == 2 || x.shape.size() == 3;
  };
  const bool same =
      a.dtype == b.dtype && is_floating(a.dtype) && dtype_or(args[4], a.dtype) == a.dtype;
  if (!matrices_of(a) || !matrices_of(b) || !same ||
      a.shape.back() != b.shape[b.shape.size() - 2]) {
    fail(Fix{"give matrices [m, k] and [k, n] of one dtype of floats, with the groups in front in "
             "one of them or in both"},
         "{}: {} and {} do not fit together", args.op().name(), type_string(a), type_string(b));
  }
  for (const TensorMeta* x : {&a, &b}) {
    if (aligned(x->shape, x->stride, x->dtype)) continue;
    fail(Fix{fmt::format("give sizes that are multiples of {}", aligned_step(x->dtype))},
         "{}: rows or columns of {} do not begin at multiples of 16 bytes", args.op().name(),
         type_string(*x));
  }
  const std::int64_t groups = group_count(args);
  Dims shape{a.shape[a.shape.size() - 2], b.shape.back()};
  if (a.shape.size() == b.shape.size()) shape.insert(0, groups);
  return {{padded_rows(shape, a.dtype)}};
}

RuleRow grouped_row(const RuleContext& context, RulePlacement out, RulePlacement a,
                    RulePlacement b) {
  RuleRow row{{out}, {a, b}};
  row.inputs.resize(context.tensors.size(), whole());
  return row;
}

/// The rule of a product of all groups, but the dim that offs divides stays whole.
std::vector<RuleRow> rule_grouped_mm(const RuleContext& context) {
  const auto row = [&](RulePlacement out, RulePlacement a, RulePlacement b) {
    return grouped_row(context, out, a, b);
  };
  std::vector<RuleRow> rows{row(sum(), sum(), whole()), row(sum(), whole(), sum())};
  const std::size_t a = context.tensors[0]->ndim(), b = context.tensors[1]->ndim();
  if (a == 2 && b == 3) {
    rows.push_back(row(any(1), whole(), any(2)));
    rows.push_back(row(sum(), any(1), any(1)));
  } else if (a == 3 && b == 2) {
    rows.push_back(row(sum(), any(2), any(0)));
    rows.push_back(row(any(0), any(1), whole()));
  } else if (a == 2) {
    rows.push_back(row(any(2), whole(), any(1)));
    rows.push_back(row(any(1), any(0), whole()));
  } else {
    rows.push_back(row(any(2), whole(), any(2)));
    rows.push_back(row(any(1), any(1), whole()));
    rows.push_back(row(sum(), any(2), any(1)));
    rows.push_back(row(any(0), any(0), any(0)));
  }
  return rows;
}

const char* grouped_filter(const RuleContext& context, std::span<const Placements> inputs) {
  for (const std::size_t i : {0, 1}) {
    const DTensorSpec& spec = *context.tensors[i]->with(inputs[i]);
    const Coordinate first(spec.layout()->ndim(), 0);
    if (!aligned(local_shape(spec, first), local_stride(spec, first), spec.dtype())) {
      return "a piece would not begin at a multiple of 16 bytes";
    }
  }
  return nullptr;
}

/// A mask selects the groups that offs divides, so that sizes do not depend on data.
Results grouped_mm(Calls& calls, const OpRow&, const Arguments& args) {
  const DTensor &a = args[0].tensor(), &b = args[1].tensor();
  if (a.ndim() == 3 && b.ndim() == 3) return {calls.one("aten::bmm", {a, b})};
  const bool rows = a.ndim() == 2 && b.ndim() == 3, columns = a.ndim() == 3;
  const std::int64_t groups = args[2].tensor().numel();
  const std::int64_t length = rows ? a.shape()[0] : b.shape()[columns ? 1 : 0];
  const DTensor places = counted(calls, args[2].tensor(), length);
  const auto part = [&](const DTensor& x, std::int64_t g) {
    return x.ndim() == 3 ? calls.one("aten::select.int", {x, 0, g}) : x;
  };
  const auto end = [&](std::int64_t g) { return calls.one("aten::select.int", {args[2], 0, g}); };
  Dims shape{a.shape()[a.ndim() - 2], b.shape().back()};
  Expression result(calls, calls.one("aten::new_zeros", {a, shape}));
  ArgumentList each;
  for (std::int64_t g = 0; g < groups; ++g) {
    const Expression at(calls, places);
    Expression mask = at.lt(end(g));
    if (g > 0) mask = mask && at.ge(end(g - 1));
    const Expression down = mask.with("aten::unsqueeze", 1);
    if (!rows && !columns) {
      const Expression zero(calls, calls.one("aten::new_zeros", {a, Dims{}}));
      const DTensor left = mask.choose({calls, a}, zero);
      const DTensor right = down.choose({calls, b}, zero);
      each.push_back(calls.one("aten::mm", {left, right}));
      continue;
    }
    const Expression found(calls, calls.one("aten::mm", {part(a, g), part(b, g)}));
    result = (rows ? down : mask).choose(found, result);
  }
  if (rows || columns) return {result};
  if (!each.empty()) return {calls.one("aten::stack", {each, 0})};
  shape.insert(0, 0);
  return {calls.one("aten::new_zeros", {a, shape})};
}

/// offs divides the gradient where it divides the result.
grad::Gradients grad_grouped_mm(const GradContext& context) {
  Calls& calls = context.calls;
  const auto turned = [&](std::size_t i) {
    return calls.one("aten::transpose.int", {context.inputs[i], -2, -1});
  };
  const auto grouped = [&](const DTensor& a, const DTensor& b) {
    return calls.one("aten::_grouped_mm", {a, b, context.inputs[2]});
  };
  grad::Gradients gradients(4);
  if (context.needs(0)) gradients[0] = grouped(context.grads[0], turned(1));
  if (context.needs(1)) gradients[1] = grouped(turned(0), context.grads[0]);
  return gradients;
}

// Sorted by name.
// clang-format off
constexpr Row kScaledProductRows[] = {
    {"_grouped_mm"_op, meta_grouped_mm, rule_grouped_mm, grouped_mm,
     {grad_grouped_mm, "self:mat2 mat2:self offs"}, "each group by itself", 0, {}, grouped_filter},
    {"_scaled_mm"_op, meta_scaled_mm, rule_scaled_mm, scaled_mm, {}, "linear in each factor",
     kNotDifferentiable},
};
// clang-format on

}  // namespace

void register_scaled_products(OpRegistry& registry) { add_rows(registry, kScaledProductRows); }

}  // namespace shardlab
