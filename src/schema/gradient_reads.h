// gradient_reads.h - the tensors of a call that its gradient reads, each with the arguments whose
// gradients need it: they are kept from forward to backward, and refused when they were written to
// in between.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "schema/op_descriptor.h"

namespace shardlab {

/// Sets of arguments, by schema index.
using ArgumentSet = std::uint32_t;
inline constexpr ArgumentSet kAnyArgument = ~ArgumentSet{0};

/// Per argument, and per result: it is kept when the gradient of an argument of this set is wanted.
/// Empty lists: nothing is kept. Rank-invariant.
struct GradientReads {
  std::vector<ArgumentSet> arguments;
  std::vector<ArgumentSet> results;
  /// The program reads shapes or placements of results; those of arguments are always available.
  bool result_shapes = false;

  /// Arguments that can't require a gradient, and results that have none, a bit for each.
  ArgumentSet constant_arguments = 0;
  std::uint32_t constant_results = 0;

  /// Set for programs whose reads are not known: all arguments and results are kept.
  bool everything = false;

  bool argument(std::size_t index, ArgumentSet wanted) const {
    return everything || (index < arguments.size() && (arguments[index] & wanted) != 0);
  }
  bool result(std::size_t index, ArgumentSet wanted) const {
    return everything || (index < results.size() && (results[index] & wanted) != 0);
  }
  bool any_result() const { return everything || result_shapes || !results.empty(); }
};

/// Reads "mat2:self self:mat2": mat2 is kept when the gradient of self is wanted, and self when
/// that of mat2 is; "a:b|c" names several, a name alone is kept for every gradient. Results are
/// called result0, result1, ...; `result` is result0; "~result" requests shapes and placements of
/// results alone. A number that is named is kept as a tensor would be. "!weight" means that weight
/// can't require a gradient, "!result1" that this result has none. Fails with Internal for a name
/// that the schema does not have.
GradientReads parse_gradient_reads(const OpDescriptor& op, std::string_view text);
}  // namespace shardlab
