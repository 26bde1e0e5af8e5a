// Values that follow from an element's place in the global tensor: sequences and random numbers.
#include "backends/cuda/kernels.h"
#include "base/fix.h"
#include "kernels/position_laws.h"

namespace shardlab::cuda {

namespace {

using Kind = DrawCall::Kind;

// The walk of the output with its places; dims are not joined, because each has its own runs.
DrawCall drawn(const KernelCall& call, const Tensor& out, Kind kind) {
  DrawCall draw{};
  draw.kind = kind;
  draw.seed = call.random.seed;
  draw.offset = call.random.offset;
  compute_dtype_here(out.dtype());
  if (out.dim() > kMaxDims) {
    fail(ErrorKind::kUnsupported, "device cuda draws tensors of at most {} dims", kMaxDims);
  }
  const Dims global_shape = call.view == nullptr ? out.shape() : call.view->global_shape;
  const Dims global_stride = contiguous_strides(global_shape);
  draw.shape.dims = static_cast<int>(out.dim());
  draw.shape.count = out.numel();
  draw.out.dtype = out.dtype();
  draw.out.data = out.numel() == 0 ? nullptr : writable(out);
  for (std::size_t dim = 0; dim < out.shape().size(); ++dim) {
    draw.shape.size[dim] = out.size(dim);
    draw.out.stride[dim] = out.stride()[dim];
    draw.global_stride[dim] = global_stride[dim];
    Runs& here = draw.here[dim];
    if (call.view == nullptr) {
      here.count = 1;
      here.size[0] = out.size(dim);
      continue;
    }
    const auto& runs = call.view->dims[dim].runs;
    if (runs.size() > kMaxRuns) {
      fail(ErrorKind::kUnsupported, "device cuda draws at most {} runs of a dim", kMaxRuns);
    }
    for (const IndexRun& run : runs) {
      here.offset[here.count] = run.offset;
      here.size[here.count++] = run.size;
    }
  }
  return draw;
}

void finish(Ops& ops, const DrawCall& draw) {
  if (draw.shape.count > 0) ops.draw(draw);
}

// A second array of the output's shape.
void beside(DrawCall& draw, Place& place, const Tensor& tensor, void* data) {
  place.data = data;
  place.dtype = tensor.dtype();
  for (std::size_t dim = 0; dim < tensor.shape().size(); ++dim) {
    place.stride[dim] = tensor.stride()[dim];
  }
  check_invariant(draw.shape.dims == static_cast<int>(tensor.dim()), "two arrays of one shape");
}

// arange(end), arange(start, end) or arange(start, end, step): the numbers in front.
void arange(Ops& ops, const KernelCall& call) {
  std::size_t numbers = 0;
  while (optional_scalar_arg(call, numbers) != nullptr && numbers < 3) ++numbers;
  const Scalar start = numbers > 1 ? scalar_arg(call, 0) : Scalar(0);
  const Scalar step = numbers > 2 ? scalar_arg(call, 2) : Scalar(1);
  DrawCall draw = drawn(call, call.outputs[0], Kind::kArange);
  draw.a = start.to_double();
  draw.b = step.to_double();
  draw.low = integer_part(start);
  draw.range = static_cast<std::uint64_t>(integer_part(step));
  draw.integers = is_integral(call.outputs[0].dtype());  // they count in whole steps
  finish(ops, draw);
}

// The numbers of sequences and laws, which the device derives again from a call.
void put_numbers(DrawCall& draw, const EvenSteps& steps) {
  draw.a = steps.first;
  draw.b = steps.last;
  draw.range = static_cast<std::uint64_t>(steps.steps);
}
void put_numbers(DrawCall& draw, const PowerSteps& steps) {
  put_numbers(draw, steps.exponents);
  draw.base = steps.base;
}
void put_numbers(DrawCall& draw, const RaisedCosine& window) {
  draw.low = window.length;
  draw.range = static_cast<std::uint64_t>(window.period);
}
void put_numbers(DrawCall& draw, const ExponentialLaw& law) { draw.a = law.rate; }
void put_numbers(DrawCall& draw, const GeometricLaw& law) { draw.a = law.scale; }
void put_numbers(DrawCall& draw, const CauchyLaw& law) {
  draw.a = law.median;
  draw.b = law.sigma;
}
void put_numbers(DrawCall& draw, const LogNormalLaw& law) {
  draw.a = law.mean;
  draw.b = law.deviation;
}

// Values of the sequence or law of the call.
template <Kind kind, auto asked_for>
void values_of(Ops& ops, const KernelCall& call) {
  DrawCall draw = drawn(call, call.outputs[0], kind);
  put_numbers(draw, asked_for(call));
  finish(ops, draw);
}

void eye(Ops& ops, const KernelCall& call) {
  const Tensor& out = call.outputs[0];
  DrawCall draw = drawn(call, out, Kind::kEye);
  draw.range =
      static_cast<std::uint64_t>(call.view != nullptr ? call.view->global_shape[1] : out.size(1));
  finish(ops, draw);
}

}  // namespace

Tensor numbered(Ops& ops, const Dims& shape) {
  KernelCall call{};
  const Tensor line = empty(ops.device(), Dims{product(shape)}, DType::kI64);
  DrawCall draw = drawn(call, line, Kind::kArange);
  draw.range = 1;
  draw.integers = true;
  finish(ops, draw);
  return line.as_view(contiguous_meta(shape, DType::kI64), line.offset());
}

namespace {

enum class Triangle { kLower, kUpper };

// tril or triu(self, diagonal) of the last two dims.
template <Triangle kept>
void triangle(Ops& ops, const KernelCall& call) {
  const Tensor &out = call.outputs[0], &self = tensor_arg(call, 0);
  if (out.numel() == 0) return;
  const auto dims = static_cast<std::size_t>(out.dim());
  const std::int64_t row_count = out.size(dims - 2), column_count = out.size(dims - 1);
  const Tensor columns = numbered(ops, {1, column_count});
  const Tensor rows = numbered(ops, {row_count, 1});
  const Tensor edge =
      computed(ops, Element::kAdd, DType::kI64, rows.shape(), {rows, Scalar(int_arg(call, 1))});
  const Tensor inside = empty(ops.device(), Dims{row_count, column_count}, DType::kBool);
  const LocalArg compared[] = {columns, edge};
  pointwise(ops, kept == Triangle::kLower ? Element::kLe : Element::kGe, DType::kI64, inside,
            compared);
  const LocalArg chosen[] = {inside, self, Scalar(0)};
  pointwise(ops, Element::kWhere, self.dtype(), out, chosen);
}

void uniform_between(Ops& ops, const KernelCall& call, double low, double high) {
  DrawCall draw = drawn(call, call.outputs[0], Kind::kUniform);
  draw.a = low;
  draw.b = high;
  finish(ops, draw);
}

void normal_with(Ops& ops, const KernelCall& call, double mean, double deviation) {
  DrawCall draw = drawn(call, call.outputs[0], Kind::kNormal);
  draw.a = mean;
  draw.b = deviation;
  finish(ops, draw);
}

void rand(Ops& ops, const KernelCall& call) { uniform_between(ops, call, 0, 1); }
void randn(Ops& ops, const KernelCall& call) { normal_with(ops, call, 0, 1); }
void uniform(Ops& ops, const KernelCall& call) {
  uniform_between(ops, call, scalar_arg(call, 1).to_double(), scalar_arg(call, 2).to_double());
}
// Behind self where there is one.
void normal(Ops& ops, const KernelCall& call) {
  const std::size_t first = optional_scalar_arg(call, 0) != nullptr ? 0 : 1;
  normal_with(ops, call, scalar_arg(call, first).to_double(),
              scalar_arg(call, first + 1).to_double());
}

void integers_between(Ops& ops, const KernelCall& call, std::int64_t low, std::int64_t high) {
  if (high <= low) {
    fail(ErrorKind::kValue, Fix{"write the smaller number first: randint(0, 10, [3])"},
         "randint: low is {} and high is {}", low, high);
  }
  DrawCall draw = drawn(call, call.outputs[0], Kind::kInteger);
  draw.low = low;
  draw.range = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
  finish(ops, draw);
}

// The number arguments are in front, behind self for the _like variants.
std::size_t first_number(const KernelCall& call) {
  return std::holds_alternative<Tensor>(call.args[0]) ? 1 : 0;
}
void randint(Ops& ops, const KernelCall& call) {
  integers_between(ops, call, 0, int_arg(call, first_number(call)));
}
void randint_low(Ops& ops, const KernelCall& call) {
  const std::size_t first = first_number(call);
  integers_between(ops, call, int_arg(call, first), int_arg(call, first + 1));
}

void bernoulli(Ops& ops, const KernelCall& call) {
  const Tensor& probability = tensor_arg(call, 0);
  DrawCall draw = drawn(call, call.outputs[0], Kind::kBernoulli);
  if (draw.shape.count == 0) return;
  beside(draw, draw.input, probability, readable(probability));
  ops.draw(draw);
}
void bernoulli_p(Ops& ops, const KernelCall& call) {
  DrawCall draw = drawn(call, call.outputs[0], Kind::kBernoulli);
  draw.a = scalar_arg(call, 1).to_double();
  finish(ops, draw);
}

// native_dropout(input, p, train): values scaled by 1 / (1 - p), and the mask of kept elements.
void native_dropout(Ops& ops, const KernelCall& call) {
  const Tensor &values = call.outputs[0], &mask = call.outputs[1], &input = tensor_arg(call, 0);
  const Scalar* train = optional_scalar_arg(call, 2);
  if (train != nullptr && !train->to_bool()) {
    convert(ops, values, input);
    return fill(ops, mask, Scalar(true));
  }
  DrawCall draw = drawn(call, values, Kind::kDropout);
  if (draw.shape.count == 0) return;
  draw.a = 1 - scalar_arg(call, 1).to_double();
  beside(draw, draw.second, mask, writable(mask));
  beside(draw, draw.input, input, readable(input));
  ops.draw(draw);
}

}  // namespace

void add_position_kernels(CudaKernelTable& table) {
  table.set(KernelId::kArange, arange);
  table.set(KernelId::kLinspace, values_of<Kind::kEvenSteps, even_steps>);
  table.set(KernelId::kLogspace, values_of<Kind::kPowerSteps, power_steps>);
  table.set(KernelId::kHannWindow, values_of<Kind::kRaisedCosine, raised_cosine>);
  table.set(KernelId::kEye, eye);
  table.set(KernelId::kTril, triangle<Triangle::kLower>);
  table.set(KernelId::kTriu, triangle<Triangle::kUpper>);
  table.set(KernelId::kRand, rand);
  table.set(KernelId::kRandn, randn);
  table.set(KernelId::kRandint, randint);
  table.set(KernelId::kRandintLow, randint_low);
  table.set(KernelId::kUniform, uniform);
  table.set(KernelId::kNormal, normal);
  table.set(KernelId::kExponential, values_of<Kind::kExponential, exponential_law>);
  table.set(KernelId::kGeometric, values_of<Kind::kGeometric, geometric_law>);
  table.set(KernelId::kCauchy, values_of<Kind::kCauchy, cauchy_law>);
  table.set(KernelId::kLogNormal, values_of<Kind::kLogNormal, log_normal_law>);
  table.set(KernelId::kBernoulli, bernoulli);
  table.set(KernelId::kBernoulliP, bernoulli_p);
  table.set(KernelId::kNativeDropout, native_dropout);
}

}  // namespace shardlab::cuda
