// Every reduction of every dtype over 1 to 19 ranks against a loop over elements and ranks, in the
// arithmetic that the header promises: half floats in f32 with one rounding at the end, integers
// modulo their width, complex numbers by their own sums and products.
#include <doctest/doctest.h>

#include <cmath>
#include <complex>
#include <limits>
#include <vector>

#include "backends/shared/reduce.h"
#include "base/error.h"

using namespace shardlab;
using namespace shardlab::backends;

namespace {

constexpr ReduceOp kArithmetic[] = {ReduceOp::kSum, ReduceOp::kProduct, ReduceOp::kMax,
                                    ReduceOp::kMin, ReduceOp::kAvg};
constexpr ReduceOp kOfIntegers[] = {ReduceOp::kSum,   ReduceOp::kProduct, ReduceOp::kMax,
                                    ReduceOp::kMin,   ReduceOp::kBitAnd,  ReduceOp::kBitOr,
                                    ReduceOp::kBitXor};

/// Rows of a Reduction: `rows` of `elements`, `stride` apart in the inputs.
struct Cut {
  std::int64_t rows, elements, stride;
};
constexpr Cut kCuts[] = {{1, 5, 5}, {3, 4, 7}, {2, 0, 3}, {0, 4, 4}, {1, 1, 1}, {2, 1030, 1031}};

template <typename Stored>
std::vector<Stored> reduced_over(DType dtype, ReduceOp op, const Cut& cut,
                                 const std::vector<std::vector<Stored>>& ranks) {
  std::vector<const void*> inputs;
  for (const auto& values : ranks) inputs.push_back(values.data());
  std::vector<Stored> output(static_cast<std::size_t>(cut.rows * cut.elements));
  reduce({.dtype = dtype,
          .op = op,
          .inputs = inputs,
          .output = output.data(),
          .rows = cut.rows,
          .row_elements = cut.elements,
          .row_stride = cut.stride});
  return output;
}

/// `held(rank, i)` for all ranks; compares with `expected(op, terms)`, element by element.
template <typename Stored, typename Held, typename Expected, typename Same>
void check_against_loop(DType dtype, std::span<const ReduceOp> ops, const Held& held,
                        const Expected& expected, const Same& same) {
  for (const ReduceOp op : ops) {
    for (const std::size_t count : {1, 2, 3, 7, 8, 9, 19}) {
      for (const Cut& cut : kCuts) {
        if (cut.elements > 1000 && count > 3) continue;
        std::vector<std::vector<Stored>> ranks(count);
        for (std::size_t rank = 0; rank < count; ++rank) {
          for (std::int64_t i = 0; i < cut.rows * cut.stride + 1; ++i) {
            ranks[rank].push_back(held(rank, i));
          }
        }
        const std::vector<Stored> result = reduced_over(dtype, op, cut, ranks);
        CAPTURE(to_string(dtype));
        CAPTURE(to_string(op));
        CAPTURE(count);
        CAPTURE(cut.elements);
        bool all = true;
        for (std::int64_t row = 0; row < cut.rows; ++row) {
          for (std::int64_t i = 0; i < cut.elements; ++i) {
            std::vector<Stored> terms;
            for (const auto& values : ranks) {
              terms.push_back(values[static_cast<std::size_t>(row * cut.stride + i)]);
            }
            all &=
                same(result[static_cast<std::size_t>(row * cut.elements + i)], expected(op, terms));
          }
        }
        CHECK(all);
      }
    }
  }
}

template <typename Number>
Number looped(ReduceOp op, const std::vector<Number>& terms) {
  Number value = terms[0];
  for (std::size_t i = 1; i < terms.size(); ++i) {
    const Number term = terms[i];
    if (op == ReduceOp::kSum || op == ReduceOp::kAvg) value = value + term;
    if (op == ReduceOp::kProduct) value = value * term;
    if (op == ReduceOp::kMax && term > value) value = term;
    if (op == ReduceOp::kMin && term < value) value = term;
  }
  if (op == ReduceOp::kAvg) value = value / static_cast<Number>(terms.size());
  return value;
}

/// In 64 bits, and then the rest in the width of the type.
template <typename T>
T looped_integer(ReduceOp op, const std::vector<T>& terms) {
  T value = terms[0];
  for (std::size_t i = 1; i < terms.size(); ++i) {
    const auto a = static_cast<std::uint64_t>(value), b = static_cast<std::uint64_t>(terms[i]);
    switch (op) {
      case ReduceOp::kSum:
        value = static_cast<T>(a + b);
        break;
      case ReduceOp::kProduct:
        value = static_cast<T>(a * b);
        break;
      case ReduceOp::kMax:
        value = value > terms[i] ? value : terms[i];
        break;
      case ReduceOp::kMin:
        value = value < terms[i] ? value : terms[i];
        break;
      case ReduceOp::kBitAnd:
        value = static_cast<T>(a & b);
        break;
      case ReduceOp::kBitOr:
        value = static_cast<T>(a | b);
        break;
      default:
        value = static_cast<T>(a ^ b);
    }
  }
  return value;
}

template <typename T>
void check_integers(DType dtype) {
  const auto held = [](std::size_t rank, std::int64_t i) {
    return static_cast<T>(static_cast<std::uint64_t>(i * 2654435761 + 40503) * (2 * rank + 7919));
  };
  check_against_loop<T>(dtype, kOfIntegers, held, looped_integer<T>,
                        [](T a, T b) { return a == b; });
}

template <typename Stored, typename Round>
void check_small_floats(DType dtype, const Round& round) {
  const auto held = [&](std::size_t rank, std::int64_t i) {
    return round(static_cast<float>((i * 37 + static_cast<std::int64_t>(rank) * 11) % 23 - 9) / 8);
  };
  const auto expected = [&](ReduceOp op, const std::vector<Stored>& terms) {
    std::vector<float> wide;
    for (const Stored term : terms) wide.push_back(to_float(term));
    return round(looped(op, wide));
  };
  check_against_loop<Stored>(dtype, kArithmetic, held, expected,
                             [](Stored a, Stored b) { return to_float(a) == to_float(b); });
}

template <typename Real>
void check_floats(DType dtype) {
  const auto held = [](std::size_t rank, std::int64_t i) {
    return static_cast<Real>(1) / static_cast<Real>(i + 3 * static_cast<std::int64_t>(rank) + 1) -
           static_cast<Real>(0.2);
  };
  check_against_loop<Real>(dtype, kArithmetic, held, looped<Real>,
                           [](Real a, Real b) { return a == b; });
}

template <typename Real>
void check_complex(DType dtype) {
  using C = std::complex<Real>;
  constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kProduct, ReduceOp::kAvg};
  const auto held = [](std::size_t rank, std::int64_t i) {
    return C(static_cast<Real>(i % 5 - 2), static_cast<Real>(rank % 3) - 1);
  };
  const auto expected = [](ReduceOp op, const std::vector<C>& terms) {
    C value = terms[0];
    for (std::size_t i = 1; i < terms.size(); ++i) {
      const C a = value, b = terms[i];
      value = op == ReduceOp::kProduct ? C(a.real() * b.real() - a.imag() * b.imag(),
                                           a.real() * b.imag() + a.imag() * b.real())
                                       : C(a.real() + b.real(), a.imag() + b.imag());
    }
    const auto count = static_cast<Real>(terms.size());
    return op == ReduceOp::kAvg ? C(value.real() / count, value.imag() / count) : value;
  };
  check_against_loop<C>(dtype, kOps, held, expected, [](C a, C b) { return a == b; });
}

}  // namespace

TEST_CASE("V-13 integers of every width reduce as a loop in wider ones does, modulo the width") {
  check_integers<std::uint8_t>(DType::kU8);
  check_integers<std::int8_t>(DType::kI8);
  check_integers<std::int16_t>(DType::kI16);
  check_integers<std::int32_t>(DType::kI32);
  check_integers<std::int64_t>(DType::kI64);
  check_integers<std::uint64_t>(DType::kU64);
}

TEST_CASE("K-21 floats reduce as a loop in rank order does, bit for bit") {
  check_floats<float>(DType::kF32);
  check_floats<double>(DType::kF64);
}

TEST_CASE("V-13 f16, bf16 and f8 reduce as a loop in f32 does, with one rounding at the end") {
  check_small_floats<Half>(DType::kF16, to_half);
  check_small_floats<BFloat16>(DType::kBF16, [](float value) { return to_bfloat16(value); });
  check_small_floats<Float8E4M3>(DType::kF8E4M3FN, to_float8);
}

TEST_CASE("V-13 complex numbers reduce as a loop over their parts does") {
  check_complex<float>(DType::kC64);
  check_complex<double>(DType::kC128);
}

TEST_CASE("V-13 bools: sum, max and band of truths are any, any and all") {
  struct Row {
    ReduceOp op;
    std::vector<std::uint8_t> expected;  // of 000, 100, 110, 111, 010
  };
  const Row rows[] = {
      {ReduceOp::kSum, {0, 1, 1, 1, 1}},    {ReduceOp::kMax, {0, 1, 1, 1, 1}},
      {ReduceOp::kBitOr, {0, 1, 1, 1, 1}},  {ReduceOp::kMin, {0, 0, 0, 1, 0}},
      {ReduceOp::kBitAnd, {0, 0, 0, 1, 0}}, {ReduceOp::kProduct, {0, 0, 0, 1, 0}},
      {ReduceOp::kBitXor, {0, 1, 0, 1, 1}},
  };
  const std::vector<std::vector<std::uint8_t>> ranks{
      {0, 1, 1, 1, 0}, {0, 0, 1, 1, 1}, {0, 0, 0, 1, 0}};
  for (const Row& row : rows) {
    CAPTURE(to_string(row.op));
    CHECK(reduced_over(DType::kBool, row.op, {1, 5, 5}, ranks) == row.expected);
  }
}

TEST_CASE("NaN of any rank, first, middle or last, is the largest and the smallest number") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const ReduceOp op : {ReduceOp::kMax, ReduceOp::kMin, ReduceOp::kSum, ReduceOp::kProduct}) {
    for (std::size_t where = 0; where < 9; ++where) {
      std::vector<std::vector<float>> ranks;
      std::vector<std::vector<std::uint16_t>> halves;
      for (std::size_t rank = 0; rank < 9; ++rank) {
        ranks.push_back({rank == where ? nan : static_cast<float>(rank), 1});
        halves.push_back({to_half(ranks.back()[0]).bits, to_half(1).bits});
      }
      CAPTURE(to_string(op));
      CAPTURE(where);
      const auto wide = reduced_over(DType::kF32, op, {1, 2, 2}, ranks);
      CHECK(std::isnan(wide[0]));
      CHECK_FALSE(std::isnan(wide[1]));
      CHECK(std::isnan(to_float(Half{reduced_over(DType::kF16, op, {1, 2, 2}, halves)[0]})));
    }
  }
}

TEST_CASE("complex halves are refused with the cast that helps, bit operations of floats too") {
  const std::vector<std::vector<std::uint32_t>> ranks{{1}, {2}};
  for (const DType dtype : {DType::kC32, DType::kBC32}) {
    try {
      reduced_over(dtype, ReduceOp::kSum, {1, 1, 1}, ranks);
      FAIL("not refused");
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::kUnsupported);
      CHECK(error.summary() ==
            fmt::format("tensors of dtype {} cannot be reduced over ranks", to_string(dtype)));
      CHECK(*error.find("fix") == "cast the tensor first, for example to c64");
    }
  }
  try {
    reduced_over(DType::kF32, ReduceOp::kBitAnd, {1, 1, 1}, ranks);
    FAIL("not refused");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kInternal);
  }
}
