// Counts: places among sorted boundaries, histograms, numbers of non-zeros; and pairs of reductions
// that are one op in the reference.
#include "ops/family.h"

namespace shardlab {
namespace {

/// bucketize(self, boundaries, *, out_int32, right)
OutputMetas meta_bucketize(const MetaArgs& args) {
  const TensorMeta& boundaries = *args.tensor(1);
  if (boundaries.shape.size() != 1) {
    fail(Fix{"give the boundaries as a list, in ascending order"},
         "{}: the boundaries have {} dims, must have 1", args.op().name(), boundaries.shape.size());
  }
  const bool one = args.tensor(0) == nullptr;
  const DType own = one ? default_dtype(args[0].scalar().category()) : args.tensor(0)->dtype;
  if (one || product(args.tensor(0)->shape) > 0) {
    require_search(args.op().name(), promote(own, boundaries.dtype));
  }
  TensorMeta meta = contiguous_meta(one ? Dims() : args.tensor(0)->shape, DType::kI64);
  if (args[2].to_bool()) meta.dtype = DType::kI32;
  return {{meta}};
}

/// Cut boundaries are counted on each rank; a larger number has no smaller place.
std::vector<RuleRow> bucketize_rule(const RuleContext& context) {
  std::vector<RuleRow> rows;
  for (std::int64_t dim = 0; dim < ndim_of(context); ++dim) {
    rows.push_back({{any(dim)}, {any(dim), whole()}});
  }
  rows.push_back({{sum()}, {whole(), any(0)}});
  append_passing(rows, "xn", 1, 1, 1);
  return rows;
}

/// NaN has the last place, but is the least of all where a minimum is pending.
const char* bucketize_filter(const RuleContext& context, std::span<const Placements> inputs) {
  const auto pending_minimum = [](const Placements& placements) {
    bool found = false;
    for (const Placement& placement : placements) {
      found = found || placement.is_partial(ReduceOp::kMin);
    }
    return found;
  };
  const bool given = pending_minimum(context.tensors[0]->placements());
  return given && pending_minimum(inputs[0]) ? "the place of NaN is the last, not the least"
                                             : nullptr;
}

std::vector<RuleRow> boundaries_whole(const RuleContext&) { return {}; }

/// histc(self, bins, min, max)
OutputMetas meta_histc(const MetaArgs& args) {
  require_order(args.op().name(), args.tensor(0)->dtype);
  const std::int64_t bins = args[1].to_int();
  if (bins < 1 || args[2].to_double() > args[3].to_double()) {
    fail(
        Fix{"give at least one bin, and min below max"},
        "{}: bins is {}, min {} and max {}; bins must be at least 1, and min must not be above max",
        args.op().name(), bins, args[2].text(), args[3].text());
  }
  return {{contiguous_meta(Dims{bins}, require_float(args.op().name(), args.tensor(0)->dtype))}};
}

/// Counts add up where the bounds do not depend on the elements.
std::vector<RuleRow> histc_rule(const RuleContext& context) {
  const double low = context.schema.args[2].to_double(), high = context.schema.args[3].to_double();
  std::vector<RuleRow> rows;
  for (std::int64_t dim = 0; high != 0 && low != high && dim < ndim_of(context); ++dim) {
    rows.push_back({{sum()}, {any(dim)}});
  }
  return rows;
}

// Pairs and counts

/// count_nonzero(self, dim), count_nonzero.dim_IntList(self, dim)
Results count_nonzero(Calls& calls, const Arguments& args) {
  const DTensor counted = calls.one("aten::ne.Scalar", {args[0], 0});
  Dims dims = ints_of(args[1]);
  if (dims.empty()) return calls("aten::sum", {counted});
  return calls("aten::sum.dim_IntList", {counted, dims});
}

/// aminmax(self, *, dim, keepdim)
Results aminmax(Calls& calls, const Arguments& args) {
  const Dims dims = ints_of(args[1]);
  const DTensor x = grad::reduced(calls, args[0].tensor());
  return {calls.one("aten::amin", {x, dims, args[2]}), calls.one("aten::amax", {x, dims, args[2]})};
}

/// norm.ScalarOpt_dim(self, p, dim, keepdim), norm.ScalarOpt_dim_dtype(.., dtype)
Results norm_along(Calls& calls, const Arguments& args) {
  const Argument order = args[1].is_none() ? Argument(2) : args[1];
  return calls("aten::linalg_vector_norm",
               {args[0], order, args[2], args[3], args.size() > 4 ? args[4] : Argument()});
}

/// norm.ScalarOpt_dtype(self, p, *, dtype)
Results norm_as(Calls& calls, const Arguments& args) {
  const Argument order = args[1].is_none() ? Argument(2) : args[1];
  return calls("aten::linalg_vector_norm", {args[0], order, Argument(), Argument(false), args[2]});
}

/// The exclusive or of all along one dim, of which one element stays.
DTensor folded(Calls& calls, DTensor bits, std::int64_t dim) {
  std::int64_t count = bits.shape()[static_cast<std::size_t>(dim)];
  if (count == 0) {
    fail(Fix{"leave empty tensors out, or reduce another dim"},
         "hash_tensor: there is nothing to hash along dim {}", dim);
  }
  const auto part = [&](std::int64_t first, std::int64_t end) {
    return calls.one("aten::slice.Tensor", {bits, dim, first, end});
  };
  for (; count > 1; count -= count / 2) {
    const std::int64_t half = count / 2;
    const DTensor both =
        calls.one("aten::bitwise_xor.Tensor", {part(0, half), part(half, 2 * half)});
    bits = count % 2 == 0
               ? both
               : calls.one("aten::cat", {ArgumentList{both, part(2 * half, count)}, dim});
  }
  return bits;
}

/// hash_tensor(self, dim, *, keepdim, mode): the bits of all elements along the dims, as f64 or
/// i64, one over the other by exclusive or.
Results hash_tensor(Calls& calls, const Arguments& args) {
  const DTensor x = grad::reduced(calls, args[0].tensor());
  if (args[3].to_int() != 0) {
    fail(Fix{"leave mode out: its default is 0"},
         "hash_tensor: mode is {}; it must be 0, exclusive or", args[3].text());
  }
  if (is_complex(x.dtype())) {
    fail(Fix{"hash the parts: view_as_real"}, "hash_tensor: takes integers and floats, not {}",
         to_string(x.dtype()));
  }
  const Dims dims = reduced_dims(calls.find("aten::hash_tensor").op, args[1], x.ndim());
  const DTensor wide = cast_to(calls, x, is_floating(x.dtype()) ? DType::kF64 : DType::kI64);
  DTensor bits = calls.one("aten::view.dtype", {grad::gathered(calls, wide, dims), DType::kI64});
  for (const std::int64_t dim : dims) {
    if (x.ndim() > 0) bits = folded(calls, bits, dim);
  }
  bits = calls.one("aten::view.dtype", {bits, DType::kU64});
  if (args[2].to_bool() || x.ndim() == 0) return {bits};
  return {calls.one("aten::squeeze.dims", {bits, dims})};
}

// Sorted by name.
// clang-format off
constexpr Row kCountingRows[] = {
    composite("aminmax"_op, aminmax, "amin and amax"),
    {"bucketize.Scalar"_op, meta_bucketize, boundaries_whole, KernelId::kBucketize, {},
     "counts all boundaries", kNotDifferentiable},
    {"bucketize.Tensor"_op, meta_bucketize, bucketize_rule, KernelId::kBucketize, {},
     "counts of boundaries add up", kNotDifferentiable, {}, bucketize_filter},
    composite("count_nonzero"_op, count_nonzero, "a sum of truths", kNotDifferentiable),
    composite("count_nonzero.dim_IntList"_op, count_nonzero, "a sum of truths", kNotDifferentiable),
    composite("hash_tensor"_op, hash_tensor, "exclusive or of bits", kNotDifferentiable),
    {"histc"_op, meta_histc, histc_rule, KernelId::kHistc, {},
     "counts add up where the bounds are given", kAllowUneven | kNotDifferentiable},
    composite("norm.ScalarOpt_dim"_op, norm_along, "linalg_vector_norm"),
    composite("norm.ScalarOpt_dim_dtype"_op, norm_along, "linalg_vector_norm"),
    composite("norm.ScalarOpt_dtype"_op, norm_as, "linalg_vector_norm"),
};
// clang-format on

}  // namespace

void register_counting(OpRegistry& registry) { add_rows(registry, kCountingRows); }

}  // namespace shardlab
