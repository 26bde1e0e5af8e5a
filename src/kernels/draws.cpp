// Values that follow from an element's place in the global tensor: sequences, triangles, and random
// numbers. With a view the position in the global tensor counts.
//   rand     f64: 53 bits of words 0 and 1; f32, f16, bf16: 24, 11, 8 bits of word 0
//   randn    Box-Muller: f64 from all four words; f32, f16, bf16 in f32 from words 0 and 2
//   randint  low + words 0 and 1 as a 64-bit number modulo (high - low)
//   bernoulli and dropout   the f64 uniform number < probability of 1
#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "kernels/kernel_args.h"
#include "kernels/kernel_table.h"

namespace shardlab {

namespace {

using Kind = DrawLaw::Kind;

double number_arg(const KernelCall& call, std::size_t index) {
  return scalar_arg(call, index).to_double();
}

void draw(Loops& loops, const KernelCall& call, const DrawLaw& law) {
  loops.draw({law, call.outputs[0], call.view, call.random});
}

// The number arguments are in front, behind self where there is one.
std::size_t first_number(const KernelCall& call) {
  return optional_scalar_arg(call, 0) != nullptr ? 0 : 1;
}

// arange(end), arange(start, end) or arange(start, end, step): the numbers in front. Integers count
// in whole steps, whatever the numbers are; their count follows from the numbers as given.
void arange(Loops& loops, const KernelCall& call) {
  std::size_t numbers = 0;
  while (optional_scalar_arg(call, numbers) != nullptr && numbers < 3) ++numbers;
  const Scalar start = numbers > 1 ? scalar_arg(call, 0) : Scalar(0);
  const Scalar step = numbers > 2 ? scalar_arg(call, 2) : Scalar(1);
  DrawLaw law{Kind::kArange, start.to_double(), step.to_double()};
  if (is_integral(call.outputs[0].dtype())) {
    law.kind = Kind::kCount;
    law.low = integer_part(start);
    law.range = static_cast<std::uint64_t>(integer_part(step));
  }
  draw(loops, call, law);
}

// linspace(start, end, steps) and logspace(start, end, steps, base): integers step from an integer
// to an integer.
DrawLaw even_steps(const KernelCall& call) {
  DrawLaw law{Kind::kEvenSteps, number_arg(call, 0), number_arg(call, 1)};
  if (is_integral(call.outputs[0].dtype())) {
    law.a = static_cast<double>(integer_part(scalar_arg(call, 0)));
    law.b = static_cast<double>(integer_part(scalar_arg(call, 1)));
  }
  law.range = static_cast<std::uint64_t>(int_arg(call, 2));
  return law;
}
DrawLaw power_steps(const KernelCall& call) {
  DrawLaw law = even_steps(call);
  law.kind = Kind::kPowerSteps;
  law.base = number_arg(call, 3);
  return law;
}
// hann_window(length, periodic): it ends before it repeats, or where it began.
DrawLaw raised_cosine(const KernelCall& call) {
  DrawLaw law{Kind::kRaisedCosine};
  law.low = int_arg(call, 0);
  const Scalar* periodic = optional_scalar_arg(call, 1);
  law.range = static_cast<std::uint64_t>(periodic == nullptr || periodic->to_bool() ? law.low
                                                                                    : law.low - 1);
  return law;
}

DrawLaw exponential(const KernelCall& call) {
  const double rate = number_arg(call, 1);
  if (!(rate > 0)) refuse_law("exponential", "lambd", rate, "above 0");
  return {Kind::kExponential, rate};
}
DrawLaw geometric(const KernelCall& call) {
  const double chance = number_arg(call, 1);
  if (!(chance > 0 && chance < 1)) refuse_law("geometric", "p", chance, "between 0 and 1");
  return {Kind::kGeometric, std::log1p(-chance)};
}
DrawLaw cauchy(const KernelCall& call) {
  const double median = number_arg(call, 1), sigma = number_arg(call, 2);
  if (!(sigma > 0)) refuse_law("cauchy", "sigma", sigma, "above 0");
  return {Kind::kCauchy, median, sigma};
}
DrawLaw log_normal(const KernelCall& call) {
  const double mean = number_arg(call, 1), deviation = number_arg(call, 2);
  if (!(deviation > 0)) refuse_law("log_normal", "std", deviation, "above 0");
  return {Kind::kLogNormal, mean, deviation};
}
DrawLaw normal(const KernelCall& call) {
  const std::size_t first = first_number(call);
  const double deviation = number_arg(call, first + 1);
  if (!(deviation >= 0)) refuse_law("normal", "std", deviation, "at least 0");
  return {Kind::kNormal, number_arg(call, first), deviation};
}
DrawLaw uniform(const KernelCall& call) {
  const double low = number_arg(call, 1), high = number_arg(call, 2);
  if (!(low <= high)) {
    fail(Fix{"give the lower bound first"},
         "uniform: from is {} and to is {}; from must not be above to", low, high);
  }
  return {Kind::kUniform, low, high};
}
DrawLaw integers_between(std::int64_t low, std::int64_t high) {
  if (high <= low) {
    fail(Fix{"randint(0, 10, [4]) draws from 0 to 9"},
         "randint: low is {} and high is {}; low must be less than high", low, high);
  }
  DrawLaw law{Kind::kInteger};
  law.low = low;
  law.range = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
  return law;
}
DrawLaw randint(const KernelCall& call) {
  return integers_between(0, int_arg(call, first_number(call)));
}
DrawLaw randint_low(const KernelCall& call) {
  const std::size_t first = first_number(call);
  return integers_between(int_arg(call, first), int_arg(call, first + 1));
}
DrawLaw rand(const KernelCall&) { return {Kind::kUniform, 0, 1}; }
DrawLaw randn(const KernelCall&) { return {Kind::kNormal, 0, 1}; }

void require_chance(double p) {
  if (!(p >= 0 && p <= 1)) refuse_law("bernoulli", "p", p, "from 0 to 1");
}
DrawLaw bernoulli_p(const KernelCall& call) {
  require_chance(number_arg(call, 1));
  return {Kind::kBernoulli, number_arg(call, 1)};
}

DrawLaw eye(const KernelCall& call) {
  DrawLaw law{Kind::kEye};
  const Dims& shape = call.view != nullptr ? call.view->global_shape : call.outputs[0].shape();
  law.range = static_cast<std::uint64_t>(shape[1]);
  return law;
}

template <auto law_of>
void drawn_by(Loops& loops, const KernelCall& call) {
  draw(loops, call, law_of(call));
}

void bernoulli(Loops& loops, const KernelCall& call) {
  const Tensor chances = as_contiguous(loops, tensor_arg(call, 0), DType::kF64);
  std::vector<double> numbers(static_cast<std::size_t>(chances.numel()));
  loops.device().read(chances, numbers.data());
  std::ranges::for_each(numbers, require_chance);
  loops.draw({{Kind::kBernoulli}, call.outputs[0], call.view, call.random, chances});
}

// native_dropout(input, p, train): values scaled by 1 / (1 - p), and the mask of kept elements.
void native_dropout(Loops& loops, const KernelCall& call) {
  const Tensor &values = call.outputs[0], &mask = call.outputs[1], &input = tensor_arg(call, 0);
  const Scalar* train = optional_scalar_arg(call, 2);
  if (train != nullptr && !train->to_bool()) {
    loops.convert(values, input);
    return loops.fill(mask, Scalar(true));
  }
  const double keep = 1 - number_arg(call, 1);
  const Tensor scaled =
      computed(loops, Element::kDiv, DType::kF64, input.shape(), {input, Scalar(keep)});
  loops.draw({{Kind::kBernoulli, keep}, mask, call.view, call.random});
  loops.run(Element::kWhere, DType::kF64, values, {mask, scaled, Scalar(0.0)});
}

enum class Triangle { kLower, kUpper };

// tril or triu(self, diagonal) of the last two dims.
template <Triangle kept>
void triangle(Loops& loops, const KernelCall& call) {
  const Tensor &out = call.outputs[0], &self = tensor_arg(call, 0);
  if (out.numel() == 0) return;
  const auto dims = static_cast<std::size_t>(out.dim());
  const std::int64_t row_count = out.size(dims - 2), column_count = out.size(dims - 1);
  const Tensor columns = numbered(loops, {1, column_count});
  const Tensor rows = numbered(loops, {row_count, 1});
  const Tensor edge =
      computed(loops, Element::kAdd, DType::kI64, rows.shape(), {rows, Scalar(int_arg(call, 1))});
  const Tensor inside = tested(loops, kept == Triangle::kLower ? Element::kLe : Element::kGe,
                               DType::kI64, Dims{row_count, column_count}, {columns, edge});
  loops.run(Element::kWhere, self.dtype(), out, {inside, self, Scalar(0)});
}

}  // namespace

void add_drawing_kernels(KernelTable& table) {
  table.set(KernelId::kArange, arange);
  table.set(KernelId::kLinspace, drawn_by<even_steps>);
  table.set(KernelId::kLogspace, drawn_by<power_steps>);
  table.set(KernelId::kHannWindow, drawn_by<raised_cosine>);
  table.set(KernelId::kEye, drawn_by<eye>);
  table.set(KernelId::kTril, triangle<Triangle::kLower>);
  table.set(KernelId::kTriu, triangle<Triangle::kUpper>);
  table.set(KernelId::kRand, drawn_by<rand>);
  table.set(KernelId::kRandn, drawn_by<randn>);
  table.set(KernelId::kRandint, drawn_by<randint>);
  table.set(KernelId::kRandintLow, drawn_by<randint_low>);
  table.set(KernelId::kUniform, drawn_by<uniform>);
  table.set(KernelId::kNormal, drawn_by<normal>);
  table.set(KernelId::kExponential, drawn_by<exponential>);
  table.set(KernelId::kGeometric, drawn_by<geometric>);
  table.set(KernelId::kCauchy, drawn_by<cauchy>);
  table.set(KernelId::kLogNormal, drawn_by<log_normal>);
  table.set(KernelId::kBernoulli, bernoulli);
  table.set(KernelId::kBernoulliP, drawn_by<bernoulli_p>);
  table.set(KernelId::kNativeDropout, native_dropout);
}

}  // namespace shardlab
