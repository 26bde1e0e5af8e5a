// Figures of many numbers: quantiles, covariances and correlations. Each takes the reference's
// steps: quantiles gather from sorted lines, covariances are one product of matrices.
#include "ops/family.h"

namespace shardlab {
namespace {

/// Whether the one truth value of a tensor is true.
bool holds(Calls& calls, const Expression& truth) {
  return integer_in(calls, truth.to(DType::kI64)) != 0;
}

// quantile, nanquantile(self, q, dim, keepdim, *, interpolation)

enum class Between : std::uint8_t { kLinear, kLower, kHigher, kMidpoint, kNearest };

Between between_of(std::string_view op, const std::string& word) {
  static constexpr std::string_view kWords[] = {"linear", "lower", "higher", "midpoint", "nearest"};
  const auto* found = std::ranges::find(kWords, word);
  if (found != std::end(kWords)) return static_cast<Between>(found - std::begin(kWords));
  fail(Fix{fmt::format("use one of {}", text_of_list(kWords, ", "))},
       "{}: there is no interpolation '{}'", op, word);
}

[[noreturn]] void refuse_share(std::string_view op) {
  fail(Fix{"give shares from 0 to 1: 0.5 is the median"},
       "{}: q has an element outside of [0, 1]; all must be in it", op);
}

void check_quantile(std::string_view op, const DTensor& x, const DTensor& q) {
  if (x.dtype() != DType::kF32 && x.dtype() != DType::kF64) {
    fail(Fix{"cast it: x.to(f32)"}, "{} takes f32 or f64, not {}", op, to_string(x.dtype()));
  }
  if (q.ndim() > 1 || q.dtype() != x.dtype()) {
    fail(Fix{"give q as a number, or as a list in the tensor's dtype"},
         "{}: q is {} of {} dims; it must have at most 1, and the dtype of the tensor, {}", op,
         to_string(q.dtype()), q.ndim(), to_string(x.dtype()));
  }
  if (x.numel() > 0) return;
  fail(Fix{"give at least one element"},
       "{}: the tensor has no elements; it must have at least one", op);
}

/// The lines of which quantiles are wanted, as the last dim: behind the dims that stay.
DTensor lines_of(Calls& calls, const DTensor& x, const Argument& dim, bool keep) {
  if (dim.is_none() || x.ndim() == 0) {
    Dims shape(keep ? x.ndim() : 0, 1);
    shape.push_back(x.numel());
    return reshape(calls, regrouped(calls, x, Dims{x.numel()}), shape);
  }
  const std::int64_t along = wrap_dim(dim.to_int(), x.ndim());
  const DTensor lines = calls.one("transpose.int", {calls.one("unsqueeze", {x, -1}), along, -1});
  return keep ? lines : calls.one("squeeze.dim", {lines, along});
}

/// The place of each quantile along its line; at the end of a line with a NaN, which is sorted
/// there.
DTensor ranks_of(Calls& calls, const DTensor& lines, const DTensor& q, bool skip_nan) {
  const DTensor shares = cast_to(calls, q, DType::kF64);
  const Expression nan = Expression(calls, lines).of("aten::isnan");
  if (skip_nan) {
    const Expression count(calls, calls.one("sum.dim_IntList", {!nan, Dims{-1}, true}));
    const Expression last = count.to(DType::kF64) - 1.0, ranks = Expression(calls, shares) * last;
    return ranks.filled(ranks.lt(0), 0);
  }
  const std::int64_t last = lines.shape().back() - 1;
  const DTensor ranks = calls.one("mul.Scalar", {shares, last});
  const DTensor spoilt = calls.one("any.dim", {nan, -1, true});
  const Results both = calls("broadcast_tensors", {ArgumentList{ranks, spoilt}});
  return calls.one("masked_fill.Scalar", {both[0].list()[0], both[0].list()[1], last});
}

Results quantile_of(Calls& calls, const Arguments& args, const DTensor& q, std::string_view op,
                    bool skip_nan) {
  const DTensor& x = args[0].tensor();
  if (!args[2].is_none()) wrap_dim(args[2].to_int(), x.ndim());
  const Between between = between_of(op, args[4].string());
  const DTensor lines = lines_of(calls, x, args[2], args[3].to_bool());
  const Expression ranks(calls, ranks_of(calls, lines, q, skip_nan));
  const Expression place = between == Between::kLower     ? ranks.of("aten::floor")
                           : between == Between::kHigher  ? ranks.of("aten::ceil")
                           : between == Between::kNearest ? ranks.of("aten::round")
                                                          : ranks;
  const DTensor sorted = calls("sort", {lines})[0].tensor();
  const Expression below = place.to(DType::kI64);
  DTensor values = calls.one("gather", {sorted, -1, below});
  if (between == Between::kLinear || between == Between::kMidpoint) {
    const Expression above = ranks.of("aten::ceil").to(DType::kI64);
    const DTensor next = calls.one("gather", {sorted, -1, above});
    const Argument share = between == Between::kMidpoint ? calls.one("full_like", {values, 0.5})
                                                         : (ranks - below).to(x.dtype()).value();
    values = calls.one("lerp.Tensor", {values, next, share});
  }
  const auto behind = static_cast<std::int64_t>(values.ndim()) - 1;
  if (q.ndim() == 0) {
    return {calls.one("squeeze.dim", {grad::gathered(calls, values, Dims{behind}), -1})};
  }
  return {calls.one("movedim.int", {values, -1, 0})};
}

template <bool skip_nan>
constexpr std::string_view kQuantile = skip_nan ? "nanquantile" : "quantile";

template <bool skip_nan>
Results quantile(Calls& calls, const Arguments& args) {
  check_quantile(kQuantile<skip_nan>, args[0].tensor(), args[1].tensor());
  const Expression q(calls, grad::reduced(calls, args[1].tensor()));
  const Expression fits = q.ge(0) && q.le(1);
  if (!holds(calls, fits.of("aten::all"))) refuse_share(kQuantile<skip_nan>);
  return quantile_of(calls, args, q, kQuantile<skip_nan>, skip_nan);
}

template <bool skip_nan>
Results quantile_of_number(Calls& calls, const Arguments& args) {
  const double q = args[1].to_double();
  if (!(q >= 0 && q <= 1)) refuse_share(kQuantile<skip_nan>);
  const DTensor share = calls.one("new_full", {args[0], Dims{}, q});
  check_quantile(kQuantile<skip_nan>, args[0].tensor(), share);
  return quantile_of(calls, args, share, kQuantile<skip_nan>, skip_nan);
}

// cov(self, *, correction, fweights, aweights): variables as rows, observations as columns

void check_weights(Calls& calls, std::string_view name, const DTensor& weights,
                   std::int64_t observations, bool whole) {
  const bool fits = weights.ndim() <= 1 && weights.numel() == observations &&
                    (whole ? is_integral(weights.dtype()) : is_floating(weights.dtype()));
  if (!fits) {
    fail(Fix{"give one number for each observation"},
         "cov: {} are {} of shape [{}] for {} observations, must be {}", name,
         to_string(weights.dtype()), text_of_list(weights.shape(), ", "), observations,
         whole ? "integers" : "floats");
  }
  if (observations == 0) return;
  const Expression least = Expression(calls, weights).of("aten::min");
  if (holds(calls, least.ge(0))) return;
  fail(Fix{"give weights of at least 0"}, "cov: {} have a negative element", name);
}

/// The weight of each observation; undefined where each counts once.
DTensor weights_of(Calls& calls, const Arguments& args, std::int64_t observations) {
  DTensor weights;
  if (args[2].is_tensor()) {
    weights = args[2].tensor();
    check_weights(calls, "fweights", weights, observations, true);
  }
  if (args[3].is_tensor()) {
    const DTensor& shares = args[3].tensor();
    check_weights(calls, "aweights", shares, observations, false);
    weights = weights.defined() ? calls.one("mul.Tensor", {weights, shares}) : shares;
  }
  return weights;
}

Results covariance(Calls& calls, const Arguments& args) {
  const DTensor& given = args[0].tensor();
  if (given.ndim() > 2 || given.dtype() == DType::kBool) {
    fail(Fix{"give a matrix with a row for each variable"},
         "cov takes numbers in at most two dims, not {} in {}", to_string(given.dtype()),
         given.ndim());
  }
  const Expression x(calls, given.ndim() < 2 ? reshape(calls, given, Dims{1, -1}) : given);
  const std::int64_t count = x.value().shape()[1], correction = args[1].to_int();
  const DTensor weights = weights_of(calls, args, count);
  const auto weighted = [&](const Expression& values) {
    return weights.defined() ? values * Expression(calls, weights) : values;
  };
  const auto mean_over = [&](const Expression& sum) {
    return Expression(calls, calls.one("sum.dim_IntList", {weighted(x), Dims{1}})) / sum;
  };
  const auto product_over = [&](const Expression& mean, const Expression& divisor) {
    const Expression apart = x - Expression(calls, calls.one("unsqueeze", {mean, 1}));
    const DTensor other = conjugated(calls, calls.one("t", {weighted(apart)}));
    const Expression products(calls, calls.one("mm", {apart, other}));
    return Results{(products / divisor).of("aten::squeeze")};
  };
  const auto number = [&](std::int64_t value) {
    return Expression(calls, calls.one("new_full", {given, Dims{}, value, DType::kI64}));
  };
  if (!weights.defined()) {
    const Expression mean = mean_over(number(count));
    return product_over(mean, number(std::max<std::int64_t>(count - correction, 0)));
  }
  const Expression sum = Expression(calls, weights).of("aten::sum");
  const Expression total(calls, grad::reduced(calls, sum));
  if (!holds(calls, total.with("aten::ne.Scalar", 0))) {
    fail(Fix{"let some observation count"}, "cov: the weights sum to zero");
  }
  const Expression mean = mean_over(total);
  Expression divisor = total - static_cast<double>(correction);
  if (args[3].is_tensor() && correction != 0) {
    const Expression squares = Expression(calls, weights).with("aten::mul.Tensor", args[3]);
    const Expression lost = squares.of("aten::sum").with("aten::mul.Scalar", correction) / total;
    divisor = total - lost;
  }
  return product_over(mean, divisor.filled(divisor.le(0), 0));
}

/// corrcoef(self)
Results correlation(Calls& calls, const Arguments& args) {
  const Expression c(calls, calls.one("cov", {args[0]}));
  if (c.value().ndim() == 0) return {c / c};
  const bool in_complex = is_complex(c.value().dtype());
  const Expression own = c.of("aten::diagonal");
  const Expression spread = (in_complex ? grad::complex_part(own, 0) : own).of("aten::sqrt");
  const auto beside = [&](std::int64_t dim) {
    return Expression(calls, calls.one("unsqueeze", {spread, dim}));
  };
  const Expression by_rows = c / beside(1), scaled = by_rows / beside(0);
  const auto bounded = [&](const Expression& part) {
    return Expression(calls, calls.one("clamp", {part, -1, 1}));
  };
  if (!in_complex) return {bounded(scaled)};
  const Expression real = bounded(grad::complex_part(scaled, 0));
  return {real.with("aten::complex", bounded(grad::complex_part(scaled, 1)))};
}

constexpr const char* kSorted = "sort and gather";

// Sorted by name.
// clang-format off
constexpr Row kStatisticsRows[] = {
    composite("corrcoef"_op, correlation, "cov"),
    composite("cov"_op, covariance, "mm"),
    composite("nanquantile"_op, quantile<true>, kSorted),
    composite("nanquantile.scalar"_op, quantile_of_number<true>, kSorted),
    composite("quantile"_op, quantile<false>, kSorted),
    composite("quantile.scalar"_op, quantile_of_number<false>, kSorted),
};
// clang-format on

}  // namespace

void register_statistics(OpRegistry& registry) { add_rows(registry, kStatisticsRows); }

}  // namespace shardlab
