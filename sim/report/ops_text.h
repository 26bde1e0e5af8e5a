// ops_text.h - the ops and their sharding rules as a person would write them: `shardlab ops`.
#pragma once

#include <string>
#include <string_view>

#include "sim/report/rule_text.h"

namespace shardlab {

class OpRegistry;

/// True when a pattern names the op: "aten::add.Tensor" is asked for as that, as add.Tensor, as
/// add, or as part of a name: *add*.
bool op_matches(const std::string& name, const std::string& pattern);

/// All rows, or those that a pattern with * matches, one line each, or everything about one op (or
/// all overloads of a base name, forms of one named next to it, or the ops of torch's name for a
/// function: "F.cross_entropy"), and the file and line of its row.
///   fails  Unsupported: an unknown name; names the nearest ops. Value: a pattern without a match
std::string ops_text(const OpRegistry& registry, std::string_view name,
                     const ExampleCall& example = {});
/// The same facts as JSON text.
std::string ops_json(const OpRegistry& registry, std::string_view name);

}  // namespace shardlab
