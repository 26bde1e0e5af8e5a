// Making tensors: from nothing, in the likeness of another one, and random ones. Values do not
// depend on the layout: kernels that need a position get global indices.
#include <cmath>
#include <limits>

#include "kernels/promotion.h"
#include "ops/family.h"

namespace shardlab {
namespace {

using namespace grad;

using Rows = std::vector<RuleRow>;

DType dtype_argument(const MetaArgs& args, DType fallback) {
  return dtype_or(argument_or_none(args, "dtype"), fallback);
}

// From nothing. Argument 0 is the size unless the function's name has another one.

Dims sizes_of(const Argument& argument) {
  const Dims sizes = ints_of(argument);
  for (const std::int64_t size : sizes) {
    if (size < 0) {
      fail(Fix{"write the size itself; only reshape and view infer a size from -1"},
           "the size of a tensor dim is {}; it must be 0 or more", size);
    }
  }
  return sizes;
}

OutputMetas meta_sized(const MetaArgs& args) {
  return {{contiguous_meta(sizes_of(args[0]), dtype_argument(args, DType::kF32))}};
}

/// empty_strided(size, stride)
OutputMetas meta_strided(const MetaArgs& args) {
  const Dims size = sizes_of(args[0]), stride = sizes_of(args[1]);
  if (size.size() != stride.size()) {
    fail(Fix{"write one stride per size"},
         "empty_strided: there are {} sizes and {} strides; there must be as many", size.size(),
         stride.size());
  }
  return {{{size, stride, dtype_argument(args, DType::kF32)}}};
}

/// empty_permuted(size, physical_layout): the dims in memory order, the outermost first
OutputMetas meta_permuted(const MetaArgs& args) {
  TensorMeta meta = contiguous_meta(sizes_of(args[0]), dtype_argument(args, DType::kF32));
  const Dims order = sizes_of(args[1]);
  Dims sorted = order;
  std::sort(sorted.begin(), sorted.end());
  for (std::size_t d = 0; d < std::max(sorted.size(), meta.shape.size()); ++d) {
    if (sorted.size() == meta.shape.size() && sorted[d] == static_cast<std::int64_t>(d)) continue;
    fail(Fix{"name each dim once"}, "empty_permuted: the layout does not name each of {} dims once",
         meta.shape.size());
  }
  std::int64_t step = 1;
  for (std::size_t i = order.size(); i-- > 0;) {
    const auto dim = static_cast<std::size_t>(order[i]);
    meta.stride[dim] = step;
    step *= std::max<std::int64_t>(meta.shape[dim], 1);
  }
  return {{std::move(meta)}};
}

/// full(size, fill_value): the dtype of the number, unless it is given.
OutputMetas meta_full(const MetaArgs& args) {
  const DType dtype = default_dtype(args[1].scalar().category());
  return {{contiguous_meta(sizes_of(args[0]), dtype_argument(args, dtype))}};
}

/// randint(high, size) and randint.low(low, high, size)
template <std::size_t size_argument>
OutputMetas meta_randint(const MetaArgs& args) {
  return {{contiguous_meta(sizes_of(args[size_argument]), dtype_argument(args, DType::kI64))}};
}

/// Steps from `start` to before `end`; at most the largest number. Integers of any size.
std::int64_t count_of_steps(std::int64_t start, std::int64_t end, std::int64_t step) {
  const auto low = static_cast<std::uint64_t>(step > 0 ? start : end);
  const auto high = static_cast<std::uint64_t>(step > 0 ? end : start);
  const auto stride = step > 0 ? static_cast<std::uint64_t>(step)
                               : std::uint64_t{0} - static_cast<std::uint64_t>(step);
  const std::uint64_t span = high - low;
  const std::uint64_t count = span / stride + (span % stride != 0 ? 1 : 0);
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  return count > static_cast<std::uint64_t>(kMost) ? kMost : static_cast<std::int64_t>(count);
}

/// arange(end), arange(start, end) and arange(start, end, step)
template <std::size_t numbers>
OutputMetas meta_arange(const MetaArgs& args) {
  bool floating = false;
  for (std::size_t i = 0; i < numbers; ++i) {
    floating = floating || args[i].scalar().category() == Category::kFloat;
  }
  const Scalar zero(std::int64_t{0}), one(std::int64_t{1});
  const Scalar start = numbers == 1 ? zero : args[0].scalar();
  const Scalar end = args[numbers == 1 ? 0 : 1].scalar();
  const Scalar step = numbers == 3 ? args[2].scalar() : one;
  const bool away = !floating && (step.to_int() > 0 ? end.to_int() < start.to_int()
                                                    : end.to_int() > start.to_int());
  if (step.to_double() == 0 || away ||
      (end.to_double() - start.to_double()) / step.to_double() < 0) {
    fail(Fix{"give a step that leads from start to end: arange(5, 0, -1)"},
         "arange never reaches {} from {} in steps of {}", end.to_double(), start.to_double(),
         step.to_double());
  }
  std::int64_t count = 0;
  if (floating) {
    count = std::llround(std::ceil((end.to_double() - start.to_double()) / step.to_double()));
  } else {
    count = count_of_steps(start.to_int(), end.to_int(), step.to_int());
  }
  const DType dtype = floating ? DType::kF32 : DType::kI64;
  return {{contiguous_meta(Dims{count}, dtype_argument(args, dtype))}};
}

OutputMetas meta_linspace(const MetaArgs& args) {
  const Dims sizes = sizes_of(Dims{args[2].to_int()});
  return {{contiguous_meta(sizes, dtype_argument(args, DType::kF32))}};
}

/// hann_window(window_length): as many numbers.
OutputMetas meta_line(const MetaArgs& args) {
  const Dims sizes = sizes_of(Dims{args[0].to_int()});
  return {
      {contiguous_meta(sizes, require_float(args.op().name(), dtype_argument(args, DType::kF32)))}};
}

/// normal.float_float(mean, std, size)
OutputMetas meta_normal_sized(const MetaArgs& args) {
  return {{contiguous_meta(sizes_of(args[2]), dtype_argument(args, DType::kF32))}};
}

/// tril_indices, triu_indices(row, col, offset): two rows of positions
template <bool lower>
OutputMetas meta_triangle_indices(const MetaArgs& args) {
  const Dims sides = sizes_of(Dims{args[0].to_int(), args[1].to_int()});
  constexpr std::int64_t kMost = 1 << 24;
  if (sides[0] > kMost || sides[1] > kMost) {
    fail(Fix{"use smaller sides"}, "{}: a matrix of {} by {} has too many positions",
         args.op().base, sides[0], sides[1]);
  }
  const std::int64_t offset = std::clamp(args[2].to_int(), -2 * kMost, 2 * kMost);
  std::int64_t count = 0;
  for (std::int64_t row = 0; row < sides[0]; ++row) {
    const std::int64_t before =
        std::clamp<std::int64_t>(row + offset + (lower ? 1 : 0), 0, sides[1]);
    count += lower ? before : sides[1] - before;
  }
  const DType dtype = dtype_argument(args, DType::kI64);
  return {{contiguous_meta(Dims{2, count}, dtype)}};
}

OutputMetas meta_eye(const MetaArgs& args) {
  const std::int64_t rows = args[0].to_int();
  const bool has_columns = args.op().overload.starts_with('m');
  const std::int64_t columns = has_columns ? args[1].to_int() : rows;
  return {{contiguous_meta(sizes_of(Dims{rows, columns}), dtype_argument(args, DType::kF32))}};
}

// In the likeness of another tensor.

OutputMetas meta_likeness(const MetaArgs& args) {
  const TensorMeta& self = *args.tensor(0);
  const Argument& format = argument_or_none(args, "memory_format");
  const bool rows_first = format.is_string() && format.string() == "contiguous_format";
  return {{{self.shape, rows_first ? contiguous_strides(self.shape) : preserved_strides(self),
            dtype_argument(args, self.dtype)}}};
}

OutputMetas meta_new(const MetaArgs& args) {
  const DType dtype = dtype_argument(args, args.tensor(0)->dtype);
  return {{contiguous_meta(ints_of(args[1]), dtype)}};
}

OutputMetas meta_new_strided(const MetaArgs& args) {
  const DType dtype = dtype_argument(args, args.tensor(0)->dtype);
  return {{{ints_of(args[1]), ints_of(args[2]), dtype}}};
}

/// Another shape cannot follow the input's layout.
enum class Contents { kSet, kOpen };

template <Contents contents>
Rows rule_new(const RuleContext& context) {
  const Dims& shape = context.tensors[0]->shape();
  const bool same_shape = shape == ints_of(context.schema.args[1]);
  Rows rows;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const RulePlacement shard = RulePlacement::any(static_cast<std::int64_t>(d));
    rows.push_back({{same_shape ? shard : placement_of_letter('r')}, {shard}});
  }
  for (const char letter : {'s', 'a', 'n', 'x'}) {
    const bool passes = same_shape && contents == Contents::kOpen;
    rows.push_back({{placement_of_letter(passes ? letter : 'r')}, {placement_of_letter(letter)}});
  }
  return rows;
}

// Random values: any dim may be sharded, since the draw of an element depends on its global index.

/// In-place ops write self, out= variants write out.
OutputMetas meta_drawn(const MetaArgs& args) {
  const std::optional<std::size_t> out = args.op().find_argument("out");
  if (!out) return {{*args.tensor(0)}};
  const TensorMeta& self = *args.tensor(0);
  const TensorMeta& target = *args.tensor(*out);
  if (target.shape == self.shape) return {{target}};
  return {{{self.shape, preserved_strides(self), target.dtype}}};
}

bool is_continuous(DType dtype) { return !is_integral(dtype); }
bool is_real(DType dtype) { return !is_complex(dtype); }
bool counts(DType dtype) { return is_real(dtype) && dtype != DType::kBool; }

/// torch's behaviour where a law has no numbers of the dtype, and there is none to draw.
enum class NoElements : std::uint8_t { kPass, kRefused };

/// A law gives numbers of some dtypes, and not of others.
template <MetaFn shape, bool (*gives)(DType), NoElements empty = NoElements::kPass>
OutputMetas meta_of_law(const MetaArgs& args) {
  OutputMetas metas = shape(args);
  const TensorMeta& drawn = metas[0].meta;
  const bool any_drawn = empty == NoElements::kRefused || product(drawn.shape) > 0;
  if (gives(drawn.dtype) || !any_drawn) return metas;
  fail(Fix{"draw into a tensor of torch.float32, and cast it"}, "{} draws no numbers of dtype {}",
       args.op().name(), to_string(drawn.dtype));
}

constexpr NoElements kRefused = NoElements::kRefused;

void require_bound(const MetaArgs& args, std::string_view name, double bound, DType dtype) {
  const bool floats = is_floating(dtype);
  const double most = floats ? largest_finite(dtype) : highest_number(dtype).to_double();
  const double least = floats ? -most : lowest_number(dtype).to_double();
  if (bound >= least && bound <= most) return;
  fail(Fix{fmt::format("draw from {:.17g} to {:.17g}", least, most)},
       "{}: {} is {:.17g}, out of the range of {}", args.op().name(), name, bound,
       to_string(dtype));
}

/// uniform_(self, from, to): both bounds, and how far they are apart, are numbers of the dtype.
OutputMetas meta_uniform(const MetaArgs& args) {
  OutputMetas metas = meta_of_law<meta_drawn, is_continuous, kRefused>(args);
  const DType dtype = real_dtype(metas[0].meta.dtype);
  const double from = args[1].to_double(), to = args[2].to_double();
  require_bound(args, "from", from, dtype);
  require_bound(args, "to", to, dtype);
  if (from <= to) require_bound(args, "to - from", to - from, dtype);
  return metas;
}

/// Integers from `low`, 0 where it is not given, to below `high`.
template <MetaFn shape>
OutputMetas meta_integers(const MetaArgs& args) {
  OutputMetas metas = meta_of_law<shape, is_real, kRefused>(args);
  const DType dtype = metas[0].meta.dtype;
  const std::int64_t low = int_or(argument_or_none(args, "low"), 0);
  const std::int64_t high = argument_or_none(args, "high").to_int();
  if (low >= high) return metas;  // refused where they are drawn
  require_bound(args, "low", static_cast<double>(low), dtype);
  require_bound(args, "high - 1", static_cast<double>(high - 1), dtype);
  return metas;
}

OutputMetas meta_dropout(const MetaArgs& args) {
  const TensorMeta& self = *args.tensor(0);
  const Dims strides = preserved_strides(self);
  return {{{self.shape, strides, self.dtype}}, {{self.shape, strides, DType::kBool}}};
}

OutputMetas meta_multinomial(const MetaArgs& args) {
  Dims shape = args.tensor(0)->shape;
  if (shape.empty()) {
    fail(Fix{"give weights of shape [categories] or [rows, categories]"},
         "multinomial takes weights of one or two dims, not 0");
  }
  const std::int64_t draws = args[1].to_int();
  if (!is_floating(args.tensor(0)->dtype)) {
    fail(Fix{"cast it first: x.float()"}, "{} takes floats, not {}", args.op().name(),
         to_string(args.tensor(0)->dtype));
  }
  if (shape.size() > 2 || draws < 1 || shape.back() == 0) {
    fail(Fix{"give weights of shape [rows, categories], and draw at least once"},
         "multinomial: there are {} draws from {} categories in {} dims; draws and categories must "
         "be at least 1, dims 1 or 2",
         draws, shape.back(), shape.size());
  }
  shape.back() = draws;
  return {{contiguous_meta(shape, DType::kI64)}};
}

Rows rule_draw(const RuleContext& context) { return shard_all_dims_but(context, -1, 1); }

Rows rule_multinomial(const RuleContext& context) {
  const auto last = static_cast<std::int64_t>(context.tensors[0]->ndim()) - 1;
  return shard_all_dims_but(context, last, 1);
}

/// The diagonal of a piece is not a piece of the diagonal.
Rows rule_whole(const RuleContext&) { return {}; }

OutputMetas meta_triangle(const MetaArgs& args) {
  if (args.tensor(0)->shape.size() < 2) {
    fail(Fix{"x.unsqueeze(0) makes a matrix of a vector"},
         "{} takes a tensor of at least two dims, not {}", args.op().name(),
         args.tensor(0)->shape.size());
  }
  return meta_contiguous(args);
}

/// scalar_tensor(s, *, dtype, ..): f32 unless a dtype is named, whatever the number is.
OutputMetas meta_scalar(const MetaArgs& args) {
  return {{contiguous_meta(Dims{}, dtype_or(argument_or_none(args, "dtype"), DType::kF32))}};
}

Results scalar_locally(Calls& calls, const OpRow&, const Arguments& args) {
  return calls("full", {Dims{}, args[0], dtype_or(args[1], DType::kF32)});
}

/// The mask that was drawn decides again; without training nothing was dropped.
Gradients grad_native_dropout(const GradContext& context) {
  const bool train = context.inputs[2].is_none() || context.inputs[2].to_bool();
  if (!context.grads[0].defined()) return Gradients(1);
  if (!train) return {context.grads[0]};
  const double kept = 1 - context.inputs[1].to_double();
  const Expression mask(context.calls, context.outputs[1].tensor());
  return {flowing(context) * mask * (kept == 0 ? 0.0 : 1 / kept)};
}

Gradients grad_standard_gamma(const GradContext& context) {
  const Expression slope(context.calls, context.calls.one("aten::_standard_gamma_grad",
                                                          {context.inputs[0], context.outputs[0]}));
  return {flowing(context) * slope};
}

// Results of laws, by the source of their shape.
constexpr MetaFn meta_chances = meta_of_law<meta_like, is_floating>;
constexpr MetaFn meta_drawn_reals = meta_of_law<meta_drawn, is_real>;
constexpr MetaFn meta_drawn_floats = meta_of_law<meta_drawn, is_floating, kRefused>;
constexpr MetaFn meta_drawn_logs = meta_of_law<meta_drawn, is_floating>;
constexpr MetaFn meta_drawn_counts = meta_of_law<meta_drawn, counts>;
constexpr MetaFn meta_drawn_normal = meta_of_law<meta_drawn, is_continuous>;
constexpr MetaFn meta_like_normal = meta_of_law<meta_like, is_continuous>;
constexpr MetaFn meta_likeness_normal = meta_of_law<meta_likeness, is_continuous>;
constexpr MetaFn meta_sized_normal = meta_of_law<meta_sized, is_continuous>;
constexpr MetaFn meta_likeness_uniform = meta_of_law<meta_likeness, is_continuous, kRefused>;
constexpr MetaFn meta_sized_uniform = meta_of_law<meta_sized, is_continuous, kRefused>;
constexpr MetaFn meta_listed_normal = meta_of_law<meta_normal_sized, is_continuous>;

constexpr std::uint32_t kDraws = kRandom | kNeedsPosition;
constexpr std::uint32_t kDrawsUneven = kDraws | kAllowUneven;
constexpr Decisive kLike{1, "dtype"}, kLikeRange{3, "dtype"}, kFirst{1};

constexpr const char* kDrawn = "drawn by global index";
/// Rows of draws: over the elements of a tensor, into another one, into a new one, and into one
/// like a tensor; and of what follows from the places of elements.
constexpr Row drawn_over(RowText name, MetaFn meta, KernelId kernel) {
  return {name, meta, rule_draw, kernel, {grad_zeros, ""}, kDrawn, kDrawsUneven};
}
constexpr Row drawn_apart(RowText name, MetaFn meta, KernelId kernel) {
  return {name, meta, rule_draw, kernel, {}, kDrawn, kDrawsUneven | kNotDifferentiable};
}
constexpr Row drawn_new(RowText name, MetaFn meta, KernelId kernel) {
  return {name, meta, {}, kernel, {}, kDrawn, kDraws | kNotDifferentiable};
}
constexpr Row drawn_like(RowText name, MetaFn meta, KernelId kernel, Decisive decisive) {
  return {name, meta, rule_like, kernel, {}, kDrawn, kDrawsUneven | kNotDifferentiable, decisive};
}
constexpr Row placed(RowText name, MetaFn meta, KernelId kernel) {
  return {name, meta, {}, kernel, {}, "from global positions", kNeedsPosition | kNotDifferentiable};
}

// Sorted by name.
// clang-format off
constexpr Row kCreateRows[] = {
    {"_standard_gamma"_op, meta_alike_floats, rule_draw, KernelId::kStandardGamma,
     {grad_standard_gamma, "self result"}, kDrawn, kDrawsUneven},
    placed("arange"_op, meta_arange<1>, KernelId::kArange),
    placed("arange.start"_op, meta_arange<2>, KernelId::kArange),
    placed("arange.start_step"_op, meta_arange<3>, KernelId::kArange),
    drawn_over("bernoulli"_op, meta_chances, KernelId::kBernoulli),
    drawn_apart("bernoulli.float_out"_op, meta_drawn_reals, KernelId::kBernoulliP),
    drawn_over("bernoulli_.float"_op, meta_drawn_reals, KernelId::kBernoulliP),
    {"binomial"_op, meta_alike_floats, kNone, KernelId::kBinomial, {}, kDrawn, kDrawsUneven},
    drawn_over("cauchy_"_op, meta_drawn_floats, KernelId::kCauchy),
    {"empty.memory_format"_op, meta_sized, {}, KernelId::kZeros, {}, "zeros, so that runs repeat",
     kNotDifferentiable},
    {"empty_permuted"_op, meta_permuted, {}, KernelId::kZeros, {}, "zeros, so that runs repeat",
     kNotDifferentiable},
    {"empty_strided"_op, meta_strided, {}, KernelId::kZeros, {}, "zeros, so that runs repeat",
     kNotDifferentiable},
    {"exponential.out"_op, meta_drawn_floats, rule_draw, KernelId::kExponential, {},
     kDrawn, kDrawsUneven | kNotDifferentiable, {0, "out"}},
    {"exponential_"_op, meta_drawn_floats, rule_draw, KernelId::kExponential, {grad_zeros, ""},
     kDrawn, kDrawsUneven, {0, "out"}},
    placed("eye"_op, meta_eye, KernelId::kEye),
    placed("eye.m"_op, meta_eye, KernelId::kEye),
    {"full"_op, meta_full, {}, KernelId::kFill, {}, "the same everywhere", kNotDifferentiable},
    drawn_apart("geometric.out"_op, meta_drawn_counts, KernelId::kGeometric),
    drawn_over("geometric_"_op, meta_drawn_counts, KernelId::kGeometric),
    placed("hann_window"_op, meta_line, KernelId::kHannWindow),
    placed("hann_window.periodic"_op, meta_line, KernelId::kHannWindow),
    placed("linspace"_op, meta_linspace, KernelId::kLinspace),
    drawn_apart("log_normal.out"_op, meta_drawn_logs, KernelId::kLogNormal),
    drawn_over("log_normal_"_op, meta_drawn_logs, KernelId::kLogNormal),
    placed("logspace"_op, meta_linspace, KernelId::kLogspace),
    {"multinomial"_op, meta_multinomial, rule_multinomial, KernelId::kMultinomial, {},
     "a draw looks at all categories", kDraws | kNotDifferentiable},
    {"native_dropout"_op, meta_dropout, rule_draw, KernelId::kNativeDropout,
     {grad_native_dropout, "result1"}, kDrawn, kDrawsUneven},
    {"new_empty"_op, meta_new, rule_new<Contents::kOpen>, KernelId::kZeros, {},
     "memory yet to be written", kAllowUneven | kNotDifferentiable, kLike, nullptr, 1},
    {"new_empty_strided"_op, meta_new_strided, rule_new<Contents::kOpen>, KernelId::kZeros, {},
     "memory yet to be written", kAllowUneven | kNotDifferentiable, kLike, nullptr, 1, 2},
    {"new_full"_op, meta_new, rule_new<Contents::kSet>, KernelId::kFillThird, {},
     "the same everywhere", kAllowUneven | kNotDifferentiable, kLike, nullptr, 1},
    {"new_ones"_op, meta_new, rule_new<Contents::kSet>, KernelId::kOnes, {}, "the same everywhere",
     kAllowUneven | kNotDifferentiable, kLike, nullptr, 1},
    {"new_zeros"_op, meta_new, rule_new<Contents::kSet>, KernelId::kZeros, {},
     "the same everywhere", kAllowUneven | kNotDifferentiable, kLike, nullptr, 1},
    drawn_new("normal.float_float"_op, meta_listed_normal, KernelId::kNormal),
    drawn_apart("normal.out"_op, meta_drawn_normal, KernelId::kNormal),
    drawn_over("normal_"_op, meta_drawn_normal, KernelId::kNormal),
    drawn_apart("normal_functional"_op, meta_like_normal, KernelId::kNormal),
    {"ones"_op, meta_sized, {}, KernelId::kOnes, {}, "the same everywhere", kNotDifferentiable},
    drawn_over("poisson"_op, meta_alike_floats, KernelId::kPoisson),
    drawn_new("rand"_op, meta_sized_uniform, KernelId::kRand),
    drawn_new("rand.generator"_op, meta_sized_uniform, KernelId::kRand),
    drawn_like("rand_like"_op, meta_likeness_uniform, KernelId::kRand, kLike),
    drawn_new("randint"_op, meta_integers<meta_randint<1>>, KernelId::kRandint),
    drawn_new("randint.low"_op, meta_integers<meta_randint<2>>, KernelId::kRandintLow),
    drawn_like("randint_like"_op, meta_integers<meta_likeness>, KernelId::kRandint, kLikeRange),
    drawn_like("randint_like.low_dtype"_op, meta_integers<meta_likeness>, KernelId::kRandintLow,
               kLikeRange),
    drawn_like("randint_like.low_dtype_out"_op, meta_integers<meta_drawn>, KernelId::kRandintLow,
               kLikeRange),
    drawn_new("randn"_op, meta_sized_normal, KernelId::kRandn),
    drawn_new("randn.generator"_op, meta_sized_normal, KernelId::kRandn),
    drawn_like("randn_like"_op, meta_likeness_normal, KernelId::kRandn, kLike),
    {"scalar_tensor"_op, meta_scalar, {}, scalar_locally, {}, "the same everywhere",
     kNotDifferentiable},
    {"tril"_op, meta_triangle, rule_whole, KernelId::kTril, {grad_by<"tril", 1>, ""},
     "the diagonal is global", 0, kFirst},
    placed("tril_indices"_op, meta_triangle_indices<true>, KernelId::kTrilIndices),
    {"triu"_op, meta_triangle, rule_whole, KernelId::kTriu, {grad_by<"triu", 1>, ""},
     "the diagonal is global", 0, kFirst},
    placed("triu_indices"_op, meta_triangle_indices<false>, KernelId::kTriuIndices),
    drawn_apart("uniform.out"_op, meta_uniform, KernelId::kUniform),
    drawn_over("uniform_"_op, meta_uniform, KernelId::kUniform),
    {"zeros"_op, meta_sized, {}, KernelId::kZeros, {}, "the same everywhere", kNotDifferentiable},
};
// clang-format on

}  // namespace

// Values that depend on no input's values have no gradient; ops that overwrite old ones have one of
// zeros.
void register_create(OpRegistry& registry) { add_rows(registry, kCreateRows, kExact); }

}  // namespace shardlab
