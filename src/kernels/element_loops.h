// element_loops.h - makes the loops of all element functions over one compute type. Included by the
// one unit of each type, which instantiates element_loops<T>(): most of the time that kernels take
// to compile is spent here, and in this way it is spread over several units.
#pragma once

#include <tuple>
#include <type_traits>
#include <utility>

#include "kernels/elementwise.h"
#include "kernels/vector_math.h"

namespace shardlab {

/// The type of a function's operand `index` where it computes in T.
template <typename F, typename T, std::size_t index>
using OperandOf = std::conditional_t<std::is_same_v<F, element::Where> && index == 0, bool, T>;

template <typename T>
inline constexpr unsigned kKindOf = Integer<T> ? kIntegerKind
                                    : Real<T>  ? kRealKind
                                               : kComplexKind;

/// F over contiguous runs: its vector form where it has one for these types, else element by
/// element.
template <typename F, typename... In>
struct LoopOf {
  using Out = decltype(F::apply(std::declval<In>()...));

  static void run(const std::byte* const* in, std::byte* out, std::int64_t count) {
    run_indexed(in, out, count, std::index_sequence_for<In...>{});
  }
  static constexpr ElementLoop make() { return {run, {dtype_of<In>()...}, dtype_of<Out>()}; }

 private:
  template <std::size_t... I>
  static void run_indexed(const std::byte* const* in, std::byte* out, std::int64_t count,
                          std::index_sequence<I...>) {
    auto* to = reinterpret_cast<Out*>(out);
    const std::tuple<const In*...> from{reinterpret_cast<const In*>(in[I])...};
    if constexpr (requires { Vectorized<F>::map(std::get<I>(from)..., to, count); }) {
      Vectorized<F>::map(std::get<I>(from)..., to, count);
    } else if constexpr (requires { map_function<F>(to, count, std::get<I>(from)...); }) {
      map_function<F>(to, count, std::get<I>(from)...);
    } else {
#pragma GCC ivdep
      for (std::int64_t i = 0; i < count; ++i) to[i] = F::apply(std::get<I>(from)[i]...);
    }
  }
};

template <typename F, typename T, std::size_t... I>
constexpr ElementLoop make_loop(std::index_sequence<I...>) {
  return LoopOf<F, OperandOf<F, T, I>...>::make();
}

/// No loop where the function does not take T.
template <typename F, typename T, std::size_t operands, unsigned kinds>
constexpr ElementLoop loop_of() {
  if constexpr ((kinds & kKindOf<T>) == 0) {
    return {};
  } else {
    return make_loop<F, T>(std::make_index_sequence<operands>{});
  }
}

template <typename T>
std::span<const ElementLoop> element_loops() {
#define SHARDLAB_LOOP(function, operands, kinds, how) \
  loop_of<element::function, T, operands, kinds>(),
  static constexpr ElementLoop kLoops[] = {SHARDLAB_ELEMENT_FUNCTIONS(SHARDLAB_LOOP)};
#undef SHARDLAB_LOOP
  return kLoops;
}

}  // namespace shardlab
