// The loops of the element functions over f32, in which f16 and bf16 compute, too.
#include "kernels/element_loops.h"

namespace shardlab {

template std::span<const ElementLoop> element_loops<float>();

std::span<const ElementLoop> bfloat16_loops() {
#define SHARDLAB_LOOP(function, operands, kinds, how) \
  bfloat16_loop_of<element::function, operands>(),
  static constexpr ElementLoop kLoops[] = {SHARDLAB_ELEMENT_FUNCTIONS(SHARDLAB_LOOP)};
#undef SHARDLAB_LOOP
  return kLoops;
}

}  // namespace shardlab
