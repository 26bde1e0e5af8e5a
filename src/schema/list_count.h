// list_count.h - the number of elements that a list argument may have.
#pragma once

#include <cstddef>

#include "schema/op_descriptor.h"

namespace shardlab {

/// "bool[3]" is a mask, an element for each result; "int[2]" may be given shorter and longer.
inline bool takes_count(const SchemaType& type, std::size_t count) {
  const bool mask = type.kind == TypeKind::kBool && type.list_size > 0;
  return !mask || count == static_cast<std::size_t>(type.list_size);
}

}  // namespace shardlab
