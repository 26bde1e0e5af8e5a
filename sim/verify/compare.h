// compare.h - the verdict on the numbers of one value, element by element.
// In the program's dtypes (compare): bitwise where movement and pointwise ops alone made a value,
// otherwise the envelope around a single-device program in f64. In f64 on both sides
// (compare_in_f64): rounding is then 1e-16, and a larger difference is a mistake. See
// scenarios/README.md, section 7.
#pragma once

#include <optional>
#include <string>

#include "sim/verify/global_value.h"
#include "sim/verify/rounding.h"

namespace shardlab {

/// Equal bit patterns: -0.0 differs from 0.0; any NaN equals any NaN.
bool same_bits_or_nan(double a, double b);

/// From best to worst.
enum class Agreement : std::uint8_t {
  kBitwise,    ///< right, bit for bit
  kEnvelope,   ///< right, within the envelope
  kTolerance,  ///< right by the user's tolerance only
  kRounding,   ///< right in f64: the error beyond the envelope is amplified rounding
  kUndecided,  ///< integers or bools that depend on floats; right in f64. A jump turned by rounding
  kWrong,
};
std::string_view to_string(Agreement agreement);

/// The verdict on one value. Errors are absolute, in units of the value.
inline constexpr std::size_t kMostMarked = 256;
struct Comparison {
  Agreement agreement = Agreement::kBitwise;
  double error = 0;               ///< max |sharded - ref| (bitwise: against the single device)
  double allowed = 0;             ///< 4 e1 + 16 u s, or the user's tolerance
  std::int64_t worst_index = -1;  ///< row-major global element with the largest error
  double got = 0, expected = 0;   ///< there
  std::int64_t differing = 0;     ///< elements that are wrong or undecided
  std::vector<std::int64_t> differing_at;  ///< the first kMostMarked of them, row-major
  double roundings = 0;  ///< `error` in roundings of the dtype at the largest element
  std::string what;      ///< one line when wrong
};

/// Options for judging a value.
struct Judgement {
  bool exact = false;                        ///< bitwise against `single`
  std::optional<double> relative_tolerance;  ///< the user's, for the dtype
};

/// `single`: the single-device run, same dtypes. `reference`: the single-device run in f64. All
/// row-major and global. Integers and bools that depend on floats (not exact) are undecided if they
/// differ. If the two single-device runs differ in shape, bits were read as another dtype: such
/// values agree bitwise or are wrong.
Comparison compare(const GlobalValue& sharded, const GlobalValue& single,
                   const GlobalValue& reference, const Judgement& judgement);

/// Numbers this close, relative to the largest, count as equal: in runs in f64, or in `dtype`.
double taken_as_equal(bool in_f64, DType dtype);

/// The allowed error of runs in f64, in units of the value.
struct F64Noise {
  double any = 0;      ///< of any element
  double of_zero = 0;  ///< of elements in rows that would be 0 without rounding
};

/// `any`: the distance of runs in the program's own dtype from the one in f64 (the single-device
/// run, and by `astray` the sharded one), 2^29 times less (for f32), times 1000, since a sample may
/// be close by luck. `of_zero`, of programs in f64: 1000 roundings of the largest number around.
F64Noise f64_noise(const GlobalValue& single, const GlobalValue& reference, double astray = 0,
                   double largest = 0);
/// The largest difference between finite elements; 0 of integers and of different shapes.
double farthest(const GlobalValue& a, const GlobalValue& b);
double largest_finite(const std::vector<double>& values);
/// Equally many numbers, each within `allowed` of the other; equal infinities and NaNs are.
bool all_close(const std::vector<double>& a, const std::vector<double>& b, double allowed);

/// Both sides in f64. An element is wrong beyond 1e-9 of the largest one in its row (of the last
/// dim) plus `noise`; integers and bools must be equal.
Comparison compare_in_f64(const GlobalValue& sharded, const GlobalValue& reference, F64Noise noise);

}  // namespace shardlab
