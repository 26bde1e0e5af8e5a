// The loops of the element functions over i64, in which every integer and bool computes.
#include "kernels/element_loops.h"

namespace shardlab {

template std::span<const ElementLoop> element_loops<std::int64_t>();

}  // namespace shardlab
