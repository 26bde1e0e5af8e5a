// decision_text.h - one op call as text: its operands, its results, and the reasons.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "propagate/propagator.h"
#include "sim/log/trace.h"

namespace shardlab {

/// Whether a rule decides the op; a handler may have none.
bool is_decided(const OpRow& row);

/// A type as text, with its mesh where the reader may take it for another one.
using TypeWriter = std::function<std::string(const DTensorSpec& spec)>;
/// For calls on one mesh.
std::string bare_type(const DTensorSpec& spec);

/// "mm  f32[8@dp, 16], f32[16, 64@tp] -> f32[8@dp, 64@tp]".
std::string op_text(const OpSchema& schema, const OutputSharding& decision,
                    const TypeWriter& type = bare_type);

/// "matmul  f32[2, 4], f32[4, 4] -> f32[2, 4]": an op on plain tensors.
std::string local_op_text(const LocalOp& op);
/// The op's name without "aten::".
std::string_view short_name(const OpRow& row);

/// The name of a tensor argument by its place among the call's tensors, lists flattened: "mat2",
/// "tensors[1]".
std::string argument_name(const OpSchema& schema, int argument);

/// The candidates of a decision, cheapest first, with prices per input, the rejected rows with
/// reasons, and the rule of the selection that decided. Lines end with a newline and start with
/// `indent`.
std::string why_text(const OpSchema& schema, const DecisionRecord& record,
                     const std::string& indent, const TypeWriter& type = bare_type);

}  // namespace shardlab
