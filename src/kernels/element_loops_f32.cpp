// The loops of the element functions over f32, in which f16 and bf16 compute, too.
#include "kernels/element_loops.h"

namespace shardlab {

template std::span<const ElementLoop> element_loops<float>();

}  // namespace shardlab
