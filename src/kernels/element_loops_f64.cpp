// The loops of the element functions over f64.
#include "kernels/element_loops.h"

namespace shardlab {

template std::span<const ElementLoop> element_loops<double>();

}  // namespace shardlab
