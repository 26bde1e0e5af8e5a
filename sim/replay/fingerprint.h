// fingerprint.h - fingerprints of recorded values, and the allowed distance of two.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "sim/recording/recorded_program.h"
#include "tensor/local_view.h"
#include "tensor/tensor.h"

namespace shardlab {

/// [sum x_i, sum x_i * (i mod 7 + 1)] of row-major elements, with the same of their magnitudes.
struct Fingerprint {
  RecordedPrint sums = {0, 0};
  RecordedPrint sizes = {0, 0};

  Fingerprint() = default;
  explicit Fingerprint(const Tensor& tensor);
  explicit Fingerprint(const std::vector<double>& elements);
  /// "[1.5,7.5]"
  std::string text() const;
};

/// The fingerprint of a value that comes in pieces, in any order. Nothing is put together.
class FingerprintSum {
 public:
  /// A rank's piece: its elements are where `view` says.
  void add_piece(const Tensor& piece, const LocalView& view);
  /// Elements, float or double, that follow each other from the row-major index `first`.
  template <typename T>
  void add(std::size_t first, std::span<const T> elements);
  /// The pieces that another sum has.
  void add(const FingerprintSum& other);
  Fingerprint print() const;

 private:
  // Elements of one lane have one weight and add up by themselves: as many as fill vectors.
  static constexpr std::size_t kWeights = 7, kLanes = 8 * kWeights;
  double sums_[kLanes] = {}, sizes_[kLanes] = {};
};

/// The origin of an op's result.
struct PrintOrigin {
  DType coarsest = DType::kF64;  ///< of all values that it was computed from, over all steps
  double drift = 0;   ///< the largest relative error of the values that it was computed from
  double terms = 0;   ///< size of the smallest operand: cancellation leaves its rounding
  bool exact = true;  ///< nothing was rounded on the way
  /// The size, as in a print, of a part that rounding decides, so that any value of it is right.
  RecordedPrint open = {0, 0};
};

enum class PrintVerdict : std::uint8_t { kAgrees, kUndecided, kDiffers };
struct PrintComparison {
  PrintVerdict verdict = PrintVerdict::kAgrees;
  double drift = 0;    ///< the value's relative error; 0 of exact ones
  bool vague = false;  ///< rounding may change a large part of the value
};

/// Ours against the recorded fingerprint. Undecided: all of the value may be rounding.
PrintComparison compare_prints(const RecordedPrint& recorded, const Fingerprint& ours,
                               const PrintOrigin& origin);

/// The share of a value by which other kernels and other orders of sums round it: at most so much
/// of dtypes with many bits.
double rounding_of_kernels(DType dtype, double most);

/// The coarser of two dtypes by the roundoff of their floats; integers and bools are finest.
DType coarser(DType a, DType b);

/// "[1.5,7.5]", or "by rank" those of each.
std::string text_of(const std::vector<RecordedPrint>& prints);

}  // namespace shardlab
