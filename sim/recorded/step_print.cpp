// A fingerprint is a sum, so that the rounding of its elements averages out, and a mistake does
// not. The allowed error is in proportion to the value's own size; if terms cancel, to theirs; and
// if operands are off already, to their error.
#include "sim/recorded/step_print.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "tensor/host.h"

namespace shardlab {

namespace {

// Other kernels, other orders of sums, a root's quotient: many roundings of dtypes with many bits,
// which would be half of the value in bf16.
constexpr double kRoundings = 800;
constexpr double kFewRoundings = 8;
constexpr double kMany = 5e-5;
constexpr double kOfTerms = 64;    // roundings of terms that cancel
constexpr double kAmplified = 16;  // times the error of the operands
constexpr double kVague = 0.25;    // beyond, a comparison has no meaning
constexpr double kDigits = 2e-8;   // nine digits of a recorded sum

double relative_of(DType dtype) {
  const double roundoff = std::max(unit_roundoff(dtype), 1e-14);
  return std::max(kFewRoundings * roundoff, std::min(kMany, kRoundings * roundoff));
}

template <typename T>
void add_up(std::span<const T> elements, StepPrint& print) {
  // Elements of one lane have one weight and add up by themselves.
  constexpr std::size_t kWeights = 7, kLanes = 4 * kWeights;
  double sums[kLanes] = {}, sizes[kLanes] = {};
  const auto add = [&](std::size_t begin, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      const double element = elements[begin + i];
      sums[i] += element;
      sizes[i] += std::fabs(element);
    }
  };
  const std::size_t full = elements.size() / kLanes * kLanes;
  for (std::size_t begin = 0; begin < full; begin += kLanes) add(begin, kLanes);
  add(full, elements.size() - full);
  for (std::size_t i = 0; i < kLanes; ++i) {
    const auto weight = static_cast<double>(i % kWeights + 1);
    print.sums[0] += sums[i];
    print.sums[1] += weight * sums[i];
    print.sizes[0] += sizes[i];
    print.sizes[1] += weight * sizes[i];
  }
}

}  // namespace

StepPrint::StepPrint(const Tensor& tensor) {
  const bool plain = tensor.dtype() == DType::kF32 && on_host(tensor) && tensor.contiguous();
  if (!plain || tensor.numel() == 0) {
    add_up<double>(read_doubles(tensor), *this);
  } else {
    const auto* elements = reinterpret_cast<const float*>(first_byte(tensor));
    add_up<float>({elements, static_cast<std::size_t>(tensor.numel())}, *this);
  }
}

StepPrint::StepPrint(const std::vector<double>& elements) { add_up<double>(elements, *this); }

Json StepPrint::json() const { return {json_number(sums[0]), json_number(sums[1])}; }

PrintComparison compare_prints(const Json& recorded, const StepPrint& ours,
                               const StepOrigin& origin) {
  PrintComparison result;
  for (const std::size_t i : {0, 1}) {
    const double expected = number_of(recorded.at(i)), got = ours.sums[i];
    if (!std::isfinite(expected) || !std::isfinite(got)) {
      const bool same = std::isnan(expected) ? std::isnan(got) : expected == got;
      if (!same) result.verdict = PrintVerdict::kDiffers;
      continue;
    }
    const double off = std::fabs(expected - got),
                 size = std::max(ours.sizes[i], std::fabs(expected));
    double allowed = kDigits * size;
    if (!origin.exact) {
      const double relative = std::max(relative_of(origin.coarsest), kAmplified * origin.drift);
      allowed = relative * size + kOfTerms * unit_roundoff(origin.coarsest) * origin.terms;
    }
    if (off > allowed + origin.open[i]) result.verdict = PrintVerdict::kDiffers;
    if (size > 0 && !origin.exact) {
      result.drift = std::max(result.drift, std::min(1.0, off / size));
      result.vague = result.vague || allowed > kVague * size;
      const bool vague = off > allowed || (allowed > kVague * size && off > kDigits * size);
      if (vague && result.verdict == PrintVerdict::kAgrees)
        result.verdict = PrintVerdict::kUndecided;
    }
  }
  return result;
}

DType coarser(DType a, DType b) { return unit_roundoff(b) > unit_roundoff(a) ? b : a; }

}  // namespace shardlab
