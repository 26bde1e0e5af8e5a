// op_strategy.h - acceptable shardings of an op and the chosen one (O-3 to O-18, O-44 to O-46).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schema/op_schema.h"

namespace shardlab {

/// One acceptable sharding over the whole mesh: with inputs laid out like `inputs`, the op yields
/// outputs laid out like `outputs`. An absent output (masked off, or not a tensor) is null. Specs
/// belong to an Arena, which outlives every candidate.
struct OpSpec {
  // Null entries take the place of absent arguments and results, so that positions agree.
  std::vector<const DTensorSpec*> outputs;
  std::vector<const DTensorSpec*> inputs;  ///< per tensor argument, keyword ones last
  std::vector<double> input_costs;         ///< microseconds; infinity = can't be done
  /// Sum of input_costs, in microseconds.
  double cost() const;
  /// O-9: "(S(0), R) -> S(0)".
  std::string text() const;
};

/// O-11: the candidates of one call, in the order the rule gave them.
struct OpStrategy {
  std::vector<OpSpec> candidates;
  std::string text() const;  ///< O-12
};

/// O-15: independent decisions per list element (foreach family).
struct TupleStrategy {
  std::vector<OpStrategy> children;
  std::string text() const;  ///< O-17
};

/// A non-tensor argument that the local call needs changed. Cached decisions hold no coordinate, so
/// an adapted value is a token resolved per call (src/README.md, "One op, from call to result").
struct AdaptedArgument {
  enum class Token : std::uint8_t {
    kLocalShapeOfOutput,   ///< `index` = output
    kLocalStrideOfOutput,  ///< `index` = output
    kLocalOffsetOfInput,   ///< `index` = tensor argument, `dim` = tensor dim
    kValue,                ///< `value` itself, equal on all ranks
  };
  std::size_t argument = 0;  ///< position in Arguments (of the local row, if there is one)
  Token token = Token::kValue;
  std::size_t index = 0;
  std::size_t dim = 0;
  Argument value;
};

/// The answer of propagation for one call (O-44): chosen input and output specs, and how to call
/// the local kernel. Immutable once cached; shared by all ranks.
struct OutputSharding {
  /// Per tensor result, Tensor[] flattened; null where there is no tensor (masked off).
  std::vector<const DTensorSpec*> outputs;
  /// Wanted spec per positional tensor argument, lists flattened, None left out.
  std::vector<const DTensorSpec*> inputs;
  bool needs_redistribute = false;       ///< some input moves (K-27)
  std::vector<AdaptedArgument> adapted;  ///< non-empty: plain arguments change locally (D-33, K-30)
  /// Another row runs locally in place of the called one (squeeze -> squeeze.dims); else null.
  const OpRow* local_row = nullptr;
  std::vector<double> costs;          ///< one total, or one per list element (foreach)
  std::vector<int> candidate_counts;  ///< indexed like costs
  std::uint64_t number = 0;  ///< of a kept decision: no other one of the process has it; else 0
};

}  // namespace shardlab
