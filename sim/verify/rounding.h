// rounding.h - all constants of "rounding explains it", each with its derivation. u is the roundoff
// of a dtype, half the distance of 1 to the next number.
#pragma once

namespace shardlab::rounding {

// Values in the program's dtypes, against one device (compare.h).

/// Times one device's own error against f64. It is one sample of rounding; the ranks' is
/// another, of the same size. For errors of independent sign (a normal distribution) one sample is
/// over 4 times another with probability 2 atan(1/4) / pi = 0.16 of an element: what is beyond is
/// decided in f64 and costs a run, no verdict.
inline constexpr double kOwnErrors = 4;
/// Roundings of the largest element that are always allowed: a value that one device rounds once
/// (e1 = 0 by luck) is added up on N ranks by at most log2 N additions more; 16 has room for 65,536
/// ranks. Beyond it f64 decides.
inline constexpr double kRoundings = 16;
/// Roundings within which numbers of a dtype count as equal when a label or a cause is searched
/// without f64: sqrt(n) u for sums of n = 65,536 terms of independent sign.
inline constexpr double kEqualRoundings = 256;

// Values in f64 on both sides.

/// The share of the largest element in its row. u of f64 is 1.1e-16: sums of 1e9 terms (sqrt(n) u =
/// 3.5e-12) and an amplification of 1e2 are below it; a mistake that moves an element by a
/// millionth of its row is 1,000 times above it.
inline constexpr double kRelativeInF64 = 1e-9;
/// Times the error in the program's own dtype, scaled by u of f64 / u of the dtype. The error is
/// one sample of a chaotic growth: it is smaller than a thousandth of its usual size with
/// probability 2 / pi / 1000 = 6e-4 of a value, and by induction only where both the ranks' and one
/// device's sample are, 4e-7.
inline constexpr double kLuck = 1000;

// Calls on their own operands (step_bounds.h).

/// Roundings of the exact result: the last operation of a kernel, conversions to and from its
/// accumulator, and an exponential or logarithm of up to 4 units in the last place.
inline constexpr double kResultRoundings = 8;
/// In min(n, 8 sqrt(n)) u_acc A. n additions in any order err by at most (n - 1) u_acc times the
/// sum of the absolute terms (Higham, Accuracy and Stability of Numerical Algorithms, 4.2). Errors
/// of independent sign stay below 8 sqrt(n) u_acc of it but with probability 2 exp(-32) = 3e-14 per
/// element (Hoeffding).
inline constexpr double kHoeffding = 8;
/// Times the difference of the op in its own dtype and in f64, and times the change that rounding
/// of the operands causes. Both are a root mean square of four samples: four coins a term miss
/// three quarters of a response with probability below 0.01 for an element.
inline constexpr double kResponses = 4;
inline constexpr int kSamples = 4;

// Causes, on numbers that are known to be wrong (causes.h).

/// A factor counts as a count of ranks, its root or its square within this share: counts up to
/// 4,096 differ by 2.4e-4, and a number that keeps a division from zero (1e-6 beside values of 0.1)
/// moves a factor by 1e-5.
inline constexpr double kFactor = 1e-4;
/// Times the closeness of numbers, for what is left when a known value is taken off: of two numbers
/// that agree in two digits two digits are lost.
inline constexpr double kDifference = 100;

}  // namespace shardlab::rounding
