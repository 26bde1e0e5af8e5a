// aten_schemas.h - the schema texts of ATen, by op: rows name an op, its schema is kept here.
#pragma once

#include <string_view>
#include <vector>

namespace shardlab {

/// The text of "aten::add.Tensor"; a missing namespace means aten, the default overload has no
/// suffix. Fails with Internal for an op that ATen does not have. Thread-safe.
std::string_view aten_schema(std::string_view name);
/// The texts of all ops whose full name begins so ("aten::_foreach_"), sorted by name.
std::vector<std::string_view> aten_schemas_of(std::string_view beginning);

}  // namespace shardlab
