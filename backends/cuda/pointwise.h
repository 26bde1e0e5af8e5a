// pointwise.h - launches of pointwise functors. Platform::for_each(count, body) runs body(i) for
// all i in [0, count), in any order; it is a GPU or, in tests, a loop.
#pragma once

#include <utility>

#include "backends/cuda/elements.h"

namespace shardlab::cuda {

template <typename F, typename T, int N>
struct PointwiseBody {
  PointwiseCall call;

  SHARDLAB_HD T operand(int k, std::int64_t at) const {
    const Place& place = call.in[k];
    const T value =
        place.data == nullptr ? number_of<T>(place) : load<T>(place.data, place.dtype, at);
    const bool exact =
        place.data != nullptr && (place.dtype == call.rounded || place.dtype == DType::kBool);
    return exact ? value : rounded_to(call.rounded, value);
  }

  SHARDLAB_HD void operator()(std::int64_t i) const { run(i, std::make_index_sequence<N>{}); }

 private:
  template <std::size_t... K>
  SHARDLAB_HD void run(std::int64_t i, std::index_sequence<K...>) const {
    const Place* const places[] = {&call.out, &call.in[K]...};
    const auto offsets = offsets_of(call.shape, places, i);
    const T operands[] = {operand(K, offsets.at[K + 1])...};
    if constexpr (std::is_same_v<F, element::Where>)
      put(offsets.at[0], F::apply(operands[0] != T(0), operands[1], operands[2]));
    else
      put(offsets.at[0], F::apply(operands[K]...));
  }
  template <typename Value>
  SHARDLAB_HD void put(std::int64_t at, Value value) const {
    if constexpr (std::is_same_v<Value, bool>)
      store<std::int64_t>(call.out.data, call.out.dtype, at, value ? 1 : 0);
    else
      store<Value>(call.out.data, call.out.dtype, at, value);
  }
};

template <typename F, int N, unsigned kinds, typename Platform>
Failure launch(Platform& platform, const PointwiseCall& call) {
  constexpr Failure kRefused = "this pointwise function does not take the dtype";
  const auto run = [&](auto type) -> Failure {
    using T = decltype(type);
    if constexpr ((kinds & (std::is_integral_v<T> ? kIntegerKind : kRealKind)) != 0)
      return platform.for_each(call.shape.count, PointwiseBody<F, T, N>{call});
    else
      return kRefused;
  };
  return in_compute_type(call.compute, run, kRefused);
}

/// Functions of `least` to `most` operands; a unit compiles some, which takes a GPU's compiler
/// long.
template <int least, int most, typename Platform>
Failure run_functions(Platform& platform, const PointwiseCall& call) {
  switch (call.op) {
#define SHARDLAB_CASE(function, operands, kinds, how)                    \
  case Element::k##function:                                             \
    if constexpr (operands >= least && operands <= most)                 \
      return launch<element::function, operands, kinds>(platform, call); \
    break;
    SHARDLAB_ELEMENT_FUNCTIONS(SHARDLAB_CASE)
#undef SHARDLAB_CASE
    default:
      break;
  }
  return "no pointwise function of this number of operands";
}

}  // namespace shardlab::cuda
