// Making tensors: from nothing, in the likeness of another one, and random ones. Values do not
// depend on the layout: kernels that need a position get global indices.
#include <cmath>
#include <limits>

#include "kernels/kernel_id.h"
#include "ops/arguments.h"
#include "ops/derive.h"
#include "ops/gradients.h"
#include "ops/meta.h"
#include "ops/register.h"
#include "ops/rules.h"

namespace shardlab {
namespace {

using Metas = std::vector<OutputMeta>;
using Rows = std::vector<RuleRow>;

DType dtype_argument(const MetaArgs& args, DType fallback) {
  return dtype_or(argument_or_none(args, "dtype"), fallback);
}

// From nothing. Argument 0 is the size unless the name says otherwise.

Dims sizes_of(const Argument& argument) {
  const Dims sizes = ints_of(argument);
  for (const std::int64_t size : sizes) {
    if (size < 0) fail(ErrorKind::kValue, "a tensor dim of size {}", size);
  }
  return sizes;
}

Metas meta_sized(const MetaArgs& args) {
  return {{contiguous_meta(sizes_of(args[0]), dtype_argument(args, DType::kF32))}};
}

/// full(size, fill_value): the dtype of the number, unless it is given.
Metas meta_full(const MetaArgs& args) {
  const DType dtype = default_dtype(args[1].scalar().category());
  return {{contiguous_meta(sizes_of(args[0]), dtype_argument(args, dtype))}};
}

/// randint(high, size) and randint.low(low, high, size)
template <std::size_t size_argument>
Metas meta_randint(const MetaArgs& args) {
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
Metas meta_arange(const MetaArgs& args) {
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
    fail(ErrorKind::kValue, "arange never reaches {} from {} in steps of {}", end.to_double(),
         start.to_double(), step.to_double());
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

Metas meta_linspace(const MetaArgs& args) {
  return {{contiguous_meta(Dims{args[2].to_int()}, dtype_argument(args, DType::kF32))}};
}

Metas meta_eye(const MetaArgs& args) {
  const std::int64_t rows = args[0].to_int();
  const bool has_columns = args.op().overload.starts_with('m');
  const std::int64_t columns = has_columns ? args[1].to_int() : rows;
  return {{contiguous_meta(sizes_of(Dims{rows, columns}), dtype_argument(args, DType::kF32))}};
}

// In the likeness of another tensor.

Metas meta_likeness(const MetaArgs& args) {
  const TensorMeta& self = *args.tensor(0);
  const Argument& format = argument_or_none(args, "memory_format");
  const bool rows_first = format.is_string() && format.string() == "contiguous_format";
  return {{{self.shape, rows_first ? contiguous_strides(self.shape) : preserved_strides(self),
            dtype_argument(args, self.dtype)}}};
}

Metas meta_new(const MetaArgs& args) {
  const DType dtype = dtype_argument(args, args.tensor(0)->dtype);
  return {{contiguous_meta(ints_of(args[1]), dtype)}};
}

Metas meta_new_strided(const MetaArgs& args) {
  const DType dtype = dtype_argument(args, args.tensor(0)->dtype);
  return {{{ints_of(args[1]), ints_of(args[2]), dtype}}};
}

/// Values have nothing to do with the input's, so a partial input gives whole values.
Rows rule_like(const RuleContext& context) {
  Rows rows = shard_all_dims_but(context, -1, 1);
  for (const ReduceOp op :
       {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct}) {
    rows.push_back({{placement_of_letter('r')}, {RulePlacement::of(Placement::partial(op))}});
  }
  return rows;
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
Metas meta_drawn(const MetaArgs& args) {
  const std::optional<std::size_t> out = args.op().find_argument("out");
  if (!out) return {{*args.tensor(0)}};
  const TensorMeta& self = *args.tensor(0);
  const TensorMeta& target = *args.tensor(*out);
  if (target.shape == self.shape) return {{target}};
  return {{{self.shape, preserved_strides(self), target.dtype}}};
}

Metas meta_dropout(const MetaArgs& args) {
  const TensorMeta& self = *args.tensor(0);
  const Dims strides = preserved_strides(self);
  return {{{self.shape, strides, self.dtype}}, {{self.shape, strides, DType::kBool}}};
}

Metas meta_multinomial(const MetaArgs& args) {
  Dims shape = args.tensor(0)->shape;
  if (shape.empty()) fail(ErrorKind::kValue, "multinomial takes one or two dims");
  shape.back() = args[1].to_int();
  return {{contiguous_meta(shape, DType::kI64)}};
}

Rows rule_draw(const RuleContext& context) { return shard_all_dims_but(context, -1, 1); }

Rows rule_multinomial(const RuleContext& context) {
  const auto last = static_cast<std::int64_t>(context.tensors[0]->ndim()) - 1;
  return shard_all_dims_but(context, last, 1);
}

/// The diagonal of a piece is not a piece of the diagonal.
Rows rule_whole(const RuleContext&) { return {}; }

Metas meta_triangle(const MetaArgs& args) {
  if (args.tensor(0)->shape.size() < 2) {
    fail(ErrorKind::kValue, "{} takes a tensor of at least two dims", args.op().name());
  }
  return {{contiguous_meta(args.tensor(0)->shape, args.tensor(0)->dtype)}};
}

struct CreateRow {
  const char* schema;
  MetaFn meta;
  ShardingRule rule;
  KernelId kernel;
  RuntimeSchemaInfo info;
  Variants variants;
  const char* why;
  std::uint32_t flags = 0;
  int shape_argument = -1;
  int stride_argument = -1;
};

constexpr KernelId kNoKernel = KernelId::kNone;
constexpr std::uint32_t kDraws = kRandom | kNeedsPosition;
constexpr std::uint32_t kDrawsUneven = kDraws | kAllowUneven;
const RuntimeSchemaInfo kAll{};
const RuntimeSchemaInfo kLike{1, {"dtype"}, false};
const RuntimeSchemaInfo kLikeRange{3, {"dtype"}, false};
const RuntimeSchemaInfo kFirst{1, {}, false};

// Sorted by name.
// clang-format off
const CreateRow kRows[] = {
    {"arange(Scalar end, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
     "bool? pin_memory=None) -> Tensor",
     meta_arange<1>, NoRule{}, KernelId::kArange, kAll, {}, "from global positions",
     kNeedsPosition},
    {"arange.start(Scalar start, Scalar end, *, ScalarType? dtype=None, Layout? layout=None, "
     "Device? device=None, bool? pin_memory=None) -> Tensor",
     meta_arange<2>, NoRule{}, KernelId::kArange, kAll, {}, "from global positions",
     kNeedsPosition},
    {"arange.start_step(Scalar start, Scalar end, Scalar step=1, *, ScalarType? dtype=None, "
     "Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
     meta_arange<3>, NoRule{}, KernelId::kArange, kAll, {}, "from global positions",
     kNeedsPosition},
    {"bernoulli(Tensor self, *, Generator? generator=None) -> Tensor",
     meta_like, rule_draw, KernelId::kBernoulli, kAll, {false, "out"}, "drawn by global index",
     kDrawsUneven},
    {"bernoulli.float_out(Tensor self, float p=0.5, *, Generator? generator=None, Tensor(a!) out) "
     "-> Tensor(a!)",
     meta_drawn, rule_draw, KernelId::kBernoulliP, kAll, {}, "drawn by global index", kDrawsUneven},
    {"bernoulli_.float(Tensor(a!) self, float p=0.5, *, Generator? generator=None) -> Tensor(a!)",
     meta_drawn, rule_draw, KernelId::kBernoulliP, kAll, {}, "drawn by global index", kDrawsUneven},
    {"empty.memory_format(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? "
     "device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
     meta_sized, NoRule{}, KernelId::kZeros, kAll, {}, "zeros, so that runs repeat"},
    {"exponential.out(Tensor self, float lambd=1., *, Generator? generator=None, Tensor(a!) out) "
     "-> Tensor(a!)",
     meta_drawn, rule_draw, kNoKernel, {0, {"out"}, false}, {}, "drawn by global index",
     kDrawsUneven},
    {"exponential_(Tensor(a!) self, float lambd=1., *, Generator? generator=None) -> Tensor(a!)",
     meta_drawn, rule_draw, kNoKernel, {0, {"out"}, false}, {}, "drawn by global index",
     kDrawsUneven},
    {"eye(SymInt n, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? "
     "pin_memory=None) -> Tensor",
     meta_eye, NoRule{}, KernelId::kEye, kAll, {}, "from global positions", kNeedsPosition},
    {"eye.m(SymInt n, SymInt m, *, ScalarType? dtype=None, Layout? layout=None, Device? "
     "device=None, bool? pin_memory=None) -> Tensor",
     meta_eye, NoRule{}, KernelId::kEye, kAll, {}, "from global positions", kNeedsPosition},
    {"full(SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None, Layout? layout=None, "
     "Device? device=None, bool? pin_memory=None) -> Tensor",
     meta_full, NoRule{}, KernelId::kFill, kAll, {}, "the same everywhere"},
    {"geometric.out(Tensor self, float p, *, Generator? generator=None, Tensor(a!) out) -> "
     "Tensor(a!)",
     meta_drawn, rule_draw, kNoKernel, kAll, {}, "drawn by global index",
     kDrawsUneven},
    {"geometric_(Tensor(a!) self, float p, *, Generator? generator=None) -> Tensor(a!)",
     meta_drawn, rule_draw, kNoKernel, kAll, {}, "drawn by global index",
     kDrawsUneven},
    {"linspace(Scalar start, Scalar end, int steps, *, ScalarType? dtype=None, Layout? "
     "layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
     meta_linspace, NoRule{}, KernelId::kLinspace, kAll, {}, "from global positions",
     kNeedsPosition},
    {"log_normal.out(Tensor self, float mean=1., float std=2., *, Generator? generator=None, "
     "Tensor(a!) out) -> Tensor(a!)",
     meta_drawn, rule_draw, kNoKernel, kAll, {}, "drawn by global index",
     kDrawsUneven},
    {"log_normal_(Tensor(a!) self, float mean=1., float std=2., *, Generator? generator=None) -> "
     "Tensor(a!)",
     meta_drawn, rule_draw, kNoKernel, kAll, {}, "drawn by global index",
     kDrawsUneven},
    {"multinomial(Tensor self, SymInt num_samples, bool replacement=False, *, Generator? "
     "generator=None) -> Tensor",
     meta_multinomial, rule_multinomial, kNoKernel, kAll, {false, "out"},
     "a draw looks at all categories", kDraws},
    {"native_dropout(Tensor input, float p, bool? train) -> (Tensor, Tensor)",
     meta_dropout, rule_draw, KernelId::kNativeDropout, kAll, {false, "out"},
     "drawn by global index", kDrawsUneven},
    {"new_empty(Tensor self, SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, "
     "Device? device=None, bool? pin_memory=None) -> Tensor",
     meta_new, rule_new<Contents::kOpen>, KernelId::kZeros, kLike, {}, "memory yet to be written",
     kAllowUneven, 1},
    {"new_empty_strided(Tensor self, SymInt[] size, SymInt[] stride, *, ScalarType? dtype=None, "
     "Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
     meta_new_strided, rule_new<Contents::kOpen>, KernelId::kZeros, kLike, {},
     "memory yet to be written", kAllowUneven, 1, 2},
    {"new_full(Tensor self, SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None, Layout? "
     "layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
     meta_new, rule_new<Contents::kSet>, KernelId::kFillThird, kLike, {}, "the same everywhere",
     kAllowUneven, 1},
    {"new_ones(Tensor self, SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, "
     "Device? device=None, bool? pin_memory=None) -> Tensor",
     meta_new, rule_new<Contents::kSet>, KernelId::kOnes, kLike, {}, "the same everywhere",
     kAllowUneven, 1},
    {"new_zeros(Tensor self, SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, "
     "Device? device=None, bool? pin_memory=None) -> Tensor",
     meta_new, rule_new<Contents::kSet>, KernelId::kZeros, kLike, {}, "the same everywhere",
     kAllowUneven, 1},
    {"normal.out(Tensor self, float mean=0., float std=1., *, Generator? generator=None, "
     "Tensor(a!) out) -> Tensor(a!)",
     meta_drawn, rule_draw, KernelId::kNormal, kAll, {}, "drawn by global index", kDrawsUneven},
    {"normal_(Tensor(a!) self, float mean=0., float std=1., *, Generator? generator=None) -> "
     "Tensor(a!)",
     meta_drawn, rule_draw, KernelId::kNormal, kAll, {}, "drawn by global index", kDrawsUneven},
    {"normal_functional(Tensor self, float mean=0., float std=1., *, Generator? generator=None) "
     "-> Tensor",
     meta_like, rule_draw, KernelId::kNormal, kAll, {}, "drawn by global index", kDrawsUneven},
    {"ones(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
     "bool? pin_memory=None) -> Tensor",
     meta_sized, NoRule{}, KernelId::kOnes, kAll, {}, "the same everywhere"},
    {"rand(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
     "bool? pin_memory=None) -> Tensor",
     meta_sized, NoRule{}, KernelId::kRand, kAll, {}, "drawn by global index", kDraws},
    {"rand_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
     "bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
     meta_likeness, rule_like, KernelId::kRand, kLike, {}, "drawn by global index", kDrawsUneven},
    {"randint(SymInt high, SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? "
     "device=None, bool? pin_memory=None) -> Tensor",
     meta_randint<1>, NoRule{}, KernelId::kRandint, kAll, {}, "drawn by global index", kDraws},
    {"randint.low(SymInt low, SymInt high, SymInt[] size, *, ScalarType? dtype=None, Layout? "
     "layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
     meta_randint<2>, NoRule{}, KernelId::kRandintLow, kAll, {}, "drawn by global index", kDraws},
    {"randint_like(Tensor self, SymInt high, *, ScalarType? dtype=None, Layout? layout=None, "
     "Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
     meta_likeness, rule_like, KernelId::kRandint, kLikeRange, {}, "drawn by global index",
     kDrawsUneven},
    {"randint_like.low_dtype(Tensor self, SymInt low, SymInt high, *, ScalarType? dtype=None, "
     "Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? "
     "memory_format=None) -> Tensor",
     meta_likeness, rule_like, KernelId::kRandintLow, kLikeRange, {}, "drawn by global index",
     kDrawsUneven},
    {"randint_like.low_dtype_out(Tensor self, SymInt low, SymInt high, *, MemoryFormat? "
     "memory_format=None, Tensor(a!) out) -> Tensor(a!)",
     meta_drawn, rule_like, KernelId::kRandintLow, kLikeRange, {}, "drawn by global index",
     kDrawsUneven},
    {"randn(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
     "bool? pin_memory=None) -> Tensor",
     meta_sized, NoRule{}, KernelId::kRandn, kAll, {}, "drawn by global index", kDraws},
    {"randn_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? "
     "device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
     meta_likeness, rule_like, KernelId::kRandn, kLike, {}, "drawn by global index", kDrawsUneven},
    {"tril(Tensor self, SymInt diagonal=0) -> Tensor",
     meta_triangle, rule_whole, KernelId::kTril, kFirst, {true, "out"}, "the diagonal is global"},
    {"triu(Tensor self, SymInt diagonal=0) -> Tensor",
     meta_triangle, rule_whole, KernelId::kTriu, kFirst, {true, "out"}, "the diagonal is global"},
    {"uniform.out(Tensor self, float from=0., float to=1., *, Generator? generator=None, "
     "Tensor(a!) out) -> Tensor(a!)",
     meta_drawn, rule_draw, KernelId::kUniform, kAll, {}, "drawn by global index", kDrawsUneven},
    {"uniform_(Tensor(a!) self, float from=0., float to=1., *, Generator? generator=None) -> "
     "Tensor(a!)",
     meta_drawn, rule_draw, KernelId::kUniform, kAll, {}, "drawn by global index", kDrawsUneven},
    {"zeros(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
     "bool? pin_memory=None) -> Tensor",
     meta_sized, NoRule{}, KernelId::kZeros, kAll, {}, "the same everywhere"},
};
// clang-format on

}  // namespace

void register_create(OpRegistry& registry) {
  for (const CreateRow& entry : kRows) {
    OpRow row;
    row.op = parse_op_schema(entry.schema);
    row.meta = entry.meta;
    row.rule = entry.rule;
    row.info = entry.info;
    row.kernel = entry.kernel;
    row.flags = entry.flags | kExact;
    // Values that depend on no input's values; what writes over old ones has a gradient of zeros.
    if (!grad::has_gradient(row.op.name())) row.flags |= kNotDifferentiable;
    row.shape_argument = entry.shape_argument;
    row.stride_argument = entry.stride_argument;
    row.why = entry.why;
    add_with_variants(registry, std::move(row), entry.variants);
  }
}

}  // namespace shardlab
