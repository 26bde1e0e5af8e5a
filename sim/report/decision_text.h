// decision_text.h - one op call as text: what went in, what came out, and why.
#pragma once

#include <string>

#include "propagate/propagator.h"

namespace shardlab {

/// "mm  f32[8@dp, 16], f32[16, 64@tp] -> f32[8@dp, 64@tp]".
std::string op_text(const OpSchema& schema, const OutputSharding& decision);

/// The name of a tensor argument by its place among the call's tensors, lists flattened: "mat2",
/// "tensors[1]".
std::string argument_name(const OpSchema& schema, int argument);

/// The candidates of a decision, cheapest first, with prices per input, the rejected rows with
/// reasons, and which rule of the selection decided. Lines end with a newline and start with
/// `indent`.
std::string why_text(const OpSchema& schema, const DecisionRecord& record,
                     const std::string& indent);

}  // namespace shardlab
