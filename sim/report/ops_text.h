// ops_text.h - the ops and their sharding rules as a person would write them: `shardlab ops`.
#pragma once

#include <string>
#include <string_view>

#include "sim/report/rule_text.h"

namespace shardlab {

/// All rows, one line each, or everything about one op (or all overloads of a base name, forms of
/// one named beside it, or what torch's name for a function runs: "F.cross_entropy"). Fails with
/// Unsupported naming the nearest ops for an unknown name.
std::string ops_text(const OpRegistry& registry, std::string_view name,
                     const ExampleCall& example = {});
/// The same facts as JSON text.
std::string ops_json(const OpRegistry& registry, std::string_view name);

}  // namespace shardlab
