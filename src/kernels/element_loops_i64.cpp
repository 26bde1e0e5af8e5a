// The loops of the element functions over i64, in which every integer and bool computes, and those
// over i32 whose low bits follow from the low bits of their operands: the same when stored.
#include "kernels/element_loops.h"

namespace shardlab {

template std::span<const ElementLoop> element_loops<std::int64_t>();

template <>
std::span<const ElementLoop> element_loops<std::int32_t>() {
  static constexpr auto kLoops = [] {
    std::array<ElementLoop, static_cast<std::size_t>(Element::kCount)> loops{};
#define SHARDLAB_LOOP(function, operands)                 \
  loops[static_cast<std::size_t>(Element::k##function)] = \
      loop_of<element::function, std::int32_t, operands, kIntegerKind>();
    SHARDLAB_LOOP(Add, 2)
    SHARDLAB_LOOP(Sub, 2)
    SHARDLAB_LOOP(Mul, 2)
    SHARDLAB_LOOP(AddScaled, 3)
    SHARDLAB_LOOP(SubScaled, 3)
#undef SHARDLAB_LOOP
    return loops;
  }();
  return kLoops;
}

}  // namespace shardlab
