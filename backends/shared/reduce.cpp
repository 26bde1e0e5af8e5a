// Terms are added in ascending rank order whatever the width of the loop (K-21): sums take up to
// eight inputs in registers, from left to right, which is the same order of additions as one at a
// time. Half-width floats add up in f32 and round once. If types agree in the bits of a result
// they share a loop: signed integers with unsigned ones, complex sums with those of their parts.
#include "backends/shared/reduce.h"

#include <algorithm>
#include <type_traits>

#include "base/error.h"
#include "tensor/visit_elements.h"

namespace shardlab::backends {

namespace {

// The form of elements while they are combined.
template <typename Element>
struct Format {
  using Accumulator = Element;
  static Element load(Element value) { return value; }
  static Element store(Element value) { return value; }
};
template <>
struct Format<Half> {
  using Accumulator = float;
  static float load(Half value) { return to_float(value); }
  static Half store(float value) { return to_half(value); }
};
template <>
struct Format<BFloat16> {
  using Accumulator = float;
  static float load(BFloat16 value) { return to_float(value); }
  static BFloat16 store(float value) { return to_bfloat16(value); }
};
template <>
struct Format<Float8E4M3> {
  using Accumulator = float;
  static float load(Float8E4M3 value) { return to_float(value); }
  static Float8E4M3 store(float value) { return to_float8(value); }
};

// Integers are unsigned here: overflow wraps, as on devices.
struct Sum {
  static auto combine(auto a, auto b) { return static_cast<decltype(a)>(a + b); }
};
struct Product {
  template <typename T>
  static T combine(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(std::uint64_t{a} * b);  // two u16 would be multiplied as signed ints
    } else {
      return a * b;
    }
  }
};
struct Max {
  static auto combine(auto a, auto b) { return a > b || a != a ? a : b; }
};
struct Min {
  static auto combine(auto a, auto b) { return a < b || a != a ? a : b; }
};
struct BitAnd {
  static auto combine(auto a, auto b) { return static_cast<decltype(a)>(a & b); }
};
struct BitOr {
  static auto combine(auto a, auto b) { return static_cast<decltype(a)>(a | b); }
};
struct BitXor {
  static auto combine(auto a, auto b) { return static_cast<decltype(a)>(a ^ b); }
};

// Accumulators of one block stay in L1 while the inputs stream past.
constexpr std::int64_t kBlockElements = 1024;
// Inputs of a sum that are combined in registers at a time. Rarer reductions take one pass for each
// input, which needs an eighth of the loops.
constexpr std::size_t kWidth = 8;

template <typename Element, typename Op>
class Reducer {
  using Traits = Format<Element>;
  using Accumulator = typename Traits::Accumulator;

 public:
  Reducer(const Reduction& work, bool averages) : work_(work), averages_(averages) {}

  void run() const {
    for (std::int64_t row = 0; row < work_.rows; ++row) {
      const std::int64_t from = row * work_.row_stride;
      Element* to = static_cast<Element*>(work_.output) + row * work_.row_elements;
      for (std::int64_t done = 0; done < work_.row_elements; done += kBlockElements) {
        reduce_block(from + done, to + done, std::min(kBlockElements, work_.row_elements - done));
      }
    }
  }

 private:
  void reduce_block(std::int64_t from, Element* to, std::int64_t count) const {
    const std::size_t inputs = work_.inputs.size();
    if constexpr (std::is_same_v<Element, Accumulator>) {
      // Nothing to convert: the output itself, whose block is in L1 while it is written.
      fold(from, to, count, inputs);
      if (averages_) finish(to, to, count);
    } else {
      Accumulator sums[kBlockElements];
      fold(from, sums, count, inputs);
      finish(sums, to, count);
    }
  }

  void fold(std::int64_t from, Accumulator* sums, std::int64_t count, std::size_t inputs) const {
    if constexpr (std::is_same_v<Op, Sum>) {
      std::size_t done = std::min(inputs, kWidth);
      add(done, true, 0, from, sums, count);
      while (done < inputs) {
        const std::size_t width = std::min(inputs - done, kWidth);
        add(width, false, done, from, sums, count);
        done += width;
      }
    } else {
      add<1, true>(0, from, sums, count);
      for (std::size_t i = 1; i < inputs; ++i) add<1, false>(i, from, sums, count);
    }
  }

  const Element* input(std::size_t index, std::int64_t from) const {
    return static_cast<const Element*>(work_.inputs[index]) + from;
  }

  // sums = [sums op] input[first] op ... op input[first + width - 1].
  void add(std::size_t width, bool fresh, std::size_t first, std::int64_t from, Accumulator* sums,
           std::int64_t count) const {
    switch (width) {
      case 8:
        return fresh ? add<8, true>(first, from, sums, count)
                     : add<8, false>(first, from, sums, count);
      case 4:
        return fresh ? add<4, true>(first, from, sums, count)
                     : add<4, false>(first, from, sums, count);
      case 2:
        return fresh ? add<2, true>(first, from, sums, count)
                     : add<2, false>(first, from, sums, count);
      default:
        if (fresh) {
          add<1, true>(first, from, sums, count);
        } else {
          add<1, false>(first, from, sums, count);
        }
        for (std::size_t i = 1; i < width; ++i) add<1, false>(first + i, from, sums, count);
    }
  }

  template <std::size_t kInputs, bool kFresh>
  void add(std::size_t first, std::int64_t from, Accumulator* sums, std::int64_t count) const {
    const Element* rows[kInputs];
    for (std::size_t k = 0; k < kInputs; ++k) rows[k] = input(first + k, from);
#pragma GCC ivdep
    for (std::int64_t i = 0; i < count; ++i) {
      Accumulator sum =
          kFresh ? Traits::load(rows[0][i]) : Op::combine(sums[i], Traits::load(rows[0][i]));
#pragma GCC unroll 8
      for (std::size_t k = 1; k < kInputs; ++k) sum = Op::combine(sum, Traits::load(rows[k][i]));
      sums[i] = sum;
    }
  }

  void finish(const Accumulator* sums, Element* to, std::int64_t count) const {
    if constexpr (!std::is_integral_v<Element>) {
      if (averages_) {
        using Real = decltype(std::abs(Accumulator{}));
        const auto n = static_cast<Real>(work_.inputs.size());
        for (std::int64_t i = 0; i < count; ++i) to[i] = Traits::store(sums[i] / n);
        return;
      }
    }
    for (std::int64_t i = 0; i < count; ++i) to[i] = Traits::store(sums[i]);
  }

  const Reduction& work_;
  const bool averages_;
};

template <typename Element, typename Op>
void run(const Reduction& work) {
  Reducer<Element, Op>(work, work.op == ReduceOp::kAvg).run();
}

template <typename Element>
void reduce_real(const Reduction& work) {
  switch (work.op) {
    case ReduceOp::kSum:
    case ReduceOp::kAvg:
      return run<Element, Sum>(work);
    case ReduceOp::kProduct:
      return run<Element, Product>(work);
    case ReduceOp::kMax:
      return run<Element, Max>(work);
    case ReduceOp::kMin:
      return run<Element, Min>(work);
    default:
      return check_invariant(false, "bit ops take integers");
  }
}

// The order of two numbers depends on their signs, all other results only on the bits.
template <typename Element>
void reduce_integer(const Reduction& work) {
  using Bits = std::make_unsigned_t<Element>;
  switch (work.op) {
    case ReduceOp::kMax:
      return run<Element, Max>(work);
    case ReduceOp::kMin:
      return run<Element, Min>(work);
    case ReduceOp::kBitAnd:
      return run<Bits, BitAnd>(work);
    case ReduceOp::kBitOr:
      return run<Bits, BitOr>(work);
    case ReduceOp::kBitXor:
      return run<Bits, BitXor>(work);
    case ReduceOp::kProduct:
      return run<Bits, Product>(work);
    case ReduceOp::kSum:
    case ReduceOp::kAvg:
      return run<Bits, Sum>(work);
  }
}

template <typename Real>
void reduce_complex(const Reduction& work) {
  if (work.op == ReduceOp::kProduct) return run<std::complex<Real>, Product>(work);
  Reduction parts = work;
  parts.row_elements *= 2;
  parts.row_stride *= 2;
  run<Real, Sum>(parts);
}

// Elements are 0 or 1.
void reduce_bool(const Reduction& work) {
  switch (work.op) {
    case ReduceOp::kSum:
    case ReduceOp::kMax:
    case ReduceOp::kBitOr:
      return run<std::uint8_t, BitOr>(work);
    case ReduceOp::kBitXor:
      return run<std::uint8_t, BitXor>(work);
    default:
      return run<std::uint8_t, BitAnd>(work);
  }
}

}  // namespace

void reduce(const Reduction& work) {
  const bool known = visit_elements(work.dtype, [&](auto example) {
    using Element = decltype(example);
    if constexpr (std::is_same_v<Element, bool>) {
      reduce_bool(work);
    } else if constexpr (std::is_integral_v<Element>) {
      reduce_integer<Element>(work);
    } else if constexpr (kIsComplex<Element>) {
      reduce_complex<typename Element::value_type>(work);
    } else {
      reduce_real<Element>(work);
    }
  });
  if (known) return;
  fail(ErrorKind::kUnsupported, Fix{"cast the tensor first, for example to c64"},
       "tensors of dtype {} cannot be reduced over ranks", to_string(work.dtype));
}

}  // namespace shardlab::backends
