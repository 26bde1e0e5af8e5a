// torch_rows.h - programs of one line that PyTorch ran, too: their values, gradients, moves and
// refusals, on one device and with every input placed in every way.
#pragma once

#include <limits>
#include <span>
#include <vector>

namespace shardlab::test {

inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kInf = std::numeric_limits<double>::infinity();

/// torch's results for a program. Its inputs are written "x f64[5, 3]; i i64[4]<6; m bool[5]": the
/// numbers follow from the place of the input in the list and of the element in it (input_values in
/// torch_rows.cpp), and integers are below the number after "<". Complex numbers count as two, re
/// and im.
struct TorchRow {
  const char* code;            ///< Python that gives `y` a tensor, or a tuple of tensors
  const char* inputs;          ///< those of floats and complex numbers require a gradient
  const char* type;            ///< of y: "f64[3, 2]"; of each of a tuple: "f64[3], i64[3]"
  std::vector<double> values;  ///< of y, row-major, those of a tuple one after the other
  /// Gradients of the inputs, one after the other, zeros if torch has none: the loss is the sum of
  /// all elements of floats in y times 1, -2, 3, -4, ... Empty: y requires no gradient.
  std::vector<double> gradients = {};
  /// On a mesh of 4 ranks, the collectives of forward for such placements, one placement an input:
  /// "S(0) R: nothing; R S(1): all_gather, all_reduce".
  const char* sends = "";
  /// The number of placings for which DTensor's rules refuse the program: a view that flattens a
  /// dim that is cut unevenly, or removes it, and writing in place, or giving by keyword, a tensor
  /// that would have to move first.
  int refused = 0;
};

/// Runs each row plain, and on 4 ranks and on 2 x 2 with each input cut along each dim (of 5
/// elements: 2, 2, 1 and 0), with all cut alike, and with each one a pending sum. Every time the
/// values and gradients are torch's, whatever was sent; a gradient may be refused as `refused`
/// says.
void check_rows(std::span<const TorchRow> rows);

/// A program that torch refuses, too, and its message.
struct RefusedRow {
  const char* code;
  const char* inputs;  ///< as in TorchRow
  const char* says;    ///< the message, " | " and the fix
};

/// On a mesh of 2 ranks, inputs whole on both: the message is the same on plain tensors.
void check_refusals(std::span<const RefusedRow> rows);

}  // namespace shardlab::test
