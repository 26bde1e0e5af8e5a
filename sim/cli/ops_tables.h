// ops_tables.h - tables over all ops: the contents of each family, and overloads of the reference
// without a recorded case.
#pragma once

#include <string>

#include "schema/calls.h"
#include "sim/files/json_value.h"

namespace shardlab {

class OpRegistry;
struct OpRow;

/// The same table for people and for machines.
struct OpsTable {
  std::string text;
  nlohmann::json json;
};

/// The sample call that verify-ops has for the op, on whole tensors; empty where it has none.
Arguments sampled_call(const OpRow& row, const MeshLayout* layout);

/// A line a family: overloads, rows written, rows derived from them, overloads that are programs
/// over other ops, and the lines of its source, where the source is above the program or the
/// current folder.
OpsTable families_table(const OpRegistry& registry);

/// A line an overload of `folder`/ops.json (or .gz) that has no case in the folder's other files:
/// the source of its rule, and verify-ops' sample call for it.
///   fails  Value: there is no such file, or it is damaged
OpsTable unrecorded_table(const OpRegistry& registry, const std::string& folder);

}  // namespace shardlab
