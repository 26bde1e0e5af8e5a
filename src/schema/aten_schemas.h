// aten_schemas.h - the schema texts of ATen, by op: rows name an op, its schema stands here.
#pragma once

#include <string_view>

namespace shardlab {

/// The text of "aten::add.Tensor"; a missing namespace means aten, the default overload has no
/// suffix. Fails with Internal for an op that ATen does not have. Thread-safe.
std::string_view aten_schema(std::string_view name);

}  // namespace shardlab
