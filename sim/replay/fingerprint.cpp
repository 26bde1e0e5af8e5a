// A fingerprint is a sum, so that the rounding of its elements averages out, and a mistake does
// not. The allowed error is in proportion to the value's own size; if terms cancel, to theirs; and
// if operands are off already, to their error.
#include "sim/replay/fingerprint.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "sim/verify/global_value.h"
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

}  // namespace

double rounding_of_kernels(DType dtype, double most) {
  const double roundoff = std::max(unit_roundoff(dtype), 1e-14);
  return std::max(kFewRoundings * roundoff, std::min(most, kRoundings * roundoff));
}

template <typename T>
void FingerprintSum::add(std::size_t first, std::span<const T> elements) {
  // The size of a span of kLanes is a constant, and its loop one of vectors.
  const auto add_some = [&](std::size_t lane, auto some) {
    for (std::size_t i = 0; i < some.size(); ++i) {
      const double element = some[i];
      sums_[lane + i] += element;
      sizes_[lane + i] += std::fabs(element);
    }
  };
  const std::size_t lane = first % kLanes;
  std::size_t at = std::min(elements.size(), (kLanes - lane) % kLanes);
  add_some(lane, elements.first(at));
  for (; at + kLanes <= elements.size(); at += kLanes) {
    add_some(0, elements.subspan(at).template first<kLanes>());
  }
  add_some(0, elements.subspan(at));
}
template void FingerprintSum::add(std::size_t, std::span<const float>);
template void FingerprintSum::add(std::size_t, std::span<const double>);

void FingerprintSum::add_piece(const Tensor& piece, const LocalView& view) {
  const std::size_t width = is_complex(piece.dtype()) ? 2 : 1;
  with_numbers(piece, [&](auto elements) {
    for_each_stretch(view, [&](std::size_t local, std::size_t global, std::size_t count) {
      add(global * width, elements.subspan(local * width, count * width));
    });
  });
}

void FingerprintSum::add(const FingerprintSum& other) {
  for (std::size_t i = 0; i < kLanes; ++i) {
    sums_[i] += other.sums_[i];
    sizes_[i] += other.sizes_[i];
  }
}

Fingerprint FingerprintSum::print() const {
  Fingerprint print;
  for (std::size_t i = 0; i < kLanes; ++i) {
    const auto weight = static_cast<double>(i % kWeights + 1);
    print.sums[0] += sums_[i];
    print.sums[1] += weight * sums_[i];
    print.sizes[0] += sizes_[i];
    print.sizes[1] += weight * sizes_[i];
  }
  return print;
}

Fingerprint::Fingerprint(const Tensor& tensor) {
  FingerprintSum sum;
  with_numbers(tensor, [&](auto elements) { sum.add(0, elements); });
  *this = sum.print();
}

Fingerprint::Fingerprint(const std::vector<double>& elements) {
  FingerprintSum sum;
  sum.add(0, std::span(elements));
  *this = sum.print();
}

std::string text_of(const std::vector<RecordedPrint>& prints) {
  std::vector<std::string> texts;
  for (const RecordedPrint& print : prints) {
    texts.push_back(fmt::format("[{},{}]", print[0], print[1]));
  }
  return texts.size() == 1 ? texts[0] : "by rank " + text_of_list(texts, " ");
}

std::string Fingerprint::text() const { return text_of({sums}); }

PrintComparison compare_prints(const RecordedPrint& recorded, const Fingerprint& ours,
                               const PrintOrigin& origin) {
  PrintComparison result;
  for (const std::size_t i : {0, 1}) {
    const double expected = recorded[i], got = ours.sums[i];
    if (!std::isfinite(expected) || !std::isfinite(got)) {
      const bool same = std::isnan(expected) ? std::isnan(got) : expected == got;
      if (!same) result.verdict = PrintVerdict::kDiffers;
      continue;
    }
    const double off = std::fabs(expected - got),
                 size = std::max(ours.sizes[i], std::fabs(expected));
    double allowed = kDigits * size;
    if (!origin.exact) {
      const double relative =
          std::max(rounding_of_kernels(origin.coarsest, kMany), kAmplified * origin.drift);
      allowed = std::max(
          allowed, relative * size + kOfTerms * unit_roundoff(origin.coarsest) * origin.terms);
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
