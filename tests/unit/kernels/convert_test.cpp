// One value through every pair of dtypes: rounding, wrapping, truncation, and runs with strides.
#include "kernels/convert.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <complex>
#include <limits>

#include "base/error.h"
#include "tests/unit/kernels/fixtures.h"

using namespace shardlab;
using namespace shardlab::test;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

template <typename To, typename From>
std::vector<To> converted(const std::vector<From>& from, DType from_dtype, DType to_dtype) {
  std::vector<To> to(from.size());
  convert_run({to.data(), 1, to_dtype}, {from.data(), 1, from_dtype},
              static_cast<std::int64_t>(from.size()));
  return to;
}

std::vector<std::uint16_t> to_bf16(const std::vector<double>& values) {
  return converted<std::uint16_t>(values, DType::kF64, DType::kBF16);
}
std::vector<std::uint16_t> to_f16(const std::vector<double>& values) {
  return converted<std::uint16_t>(values, DType::kF64, DType::kF16);
}

using Bits = std::vector<std::uint16_t>;

}  // namespace

TEST_CASE("f32 to bf16 rounds to nearest, ties to even") {
  // 1 + 2^-8 is between 1 and 1 + 2^-7: a tie, 1 is even; 1 + 3 * 2^-8: 1 + 2^-6 is even.
  CHECK(to_bf16({1, 1 + 0x1p-8, 1 + 3 * 0x1p-8, 1 + 0x1.8p-8}) ==
        Bits{0x3F80, 0x3F80, 0x3F82, 0x3F81});
  CHECK(to_bf16({-0.0, 3.5e38, -3.5e38}) == Bits{0x8000, 0x7F80, 0xFF80});
  CHECK(to_bf16({0x1p-133}) == Bits{0x0001});  // the least subnormal
}

TEST_CASE("f32 to f16 rounds, overflows to infinity and keeps subnormals") {
  CHECK(to_f16({1, 1 + 0x1p-11, 1 + 3 * 0x1p-11}) == Bits{0x3C00, 0x3C00, 0x3C02});
  CHECK(to_f16({65504, 65519, 65520, -1e9}) == Bits{0x7BFF, 0x7BFF, 0x7C00, 0xFC00});
  CHECK(to_f16({0x1p-24, 0x1p-25, 0x1.8p-25}) == Bits{0x0001, 0x0000, 0x0001});
}

TEST_CASE("every f16 is a float, and between two neighbours the even one takes the middle") {
  std::vector<std::uint16_t> halves;
  for (unsigned bits = 0; bits < 0x10000; ++bits) halves.push_back(std::uint16_t(bits));
  halves.resize(halves.size() + 3);  // a rest of less than a vector
  const auto wide = converted<float>(halves, DType::kF16, DType::kF32);
  for (std::size_t i = 0; i < halves.size(); ++i) {
    const int exponent = halves[i] >> 10 & 31, digits = halves[i] & 1023;
    const double sign = halves[i] >> 15 != 0 ? -1 : 1;
    if (exponent == 31) {
      REQUIRE((digits != 0 ? std::isnan(wide[i]) : double(wide[i]) == sign * double(kInfinity)));
      continue;
    }
    const double size =
        exponent == 0 ? std::ldexp(digits, -24) : std::ldexp(1024 + digits, exponent - 25);
    REQUIRE(std::bit_cast<std::uint64_t>(double(wide[i])) ==
            std::bit_cast<std::uint64_t>(sign * size));
  }
  // The midpoints, just below them and just above them; all NaN of a sign are one.
  std::vector<float> between;
  Bits expected;
  for (std::uint16_t low = 0; low < 0x7BFF; ++low) {
    const float middle = (wide[low] + wide[low + 1]) / 2;
    for (const float x : {middle, std::nextafter(middle, 0.0f), std::nextafter(middle, 1e9f)}) {
      between.insert(between.end(), {x, -x});
      const auto near = x < middle   ? low
                        : x > middle ? std::uint16_t(low + 1)
                                     : std::uint16_t(low + (low & 1));
      expected.insert(expected.end(), {near, std::uint16_t(near | 0x8000)});
    }
  }
  for (const std::uint32_t bits : {0x7F800001u, 0xFF800001u, 0x7FC00000u, 0xFFFFFFFFu}) {
    between.push_back(std::bit_cast<float>(bits));
    expected.push_back(bits >> 31 != 0 ? 0xFE00 : 0x7E00);
  }
  const bool agree = converted<std::uint16_t>(between, DType::kF32, DType::kF16) == expected;
  CHECK(agree);
}

TEST_CASE("every bf16 is a float, and between two neighbours the even one takes the middle") {
  std::vector<std::uint16_t> all;
  for (unsigned bits = 0; bits < 0x10000; ++bits) all.push_back(std::uint16_t(bits));
  all.resize(all.size() + 19);  // a rest of less than two vectors
  const auto wide = converted<float>(all, DType::kBF16, DType::kF32);
  std::vector<std::uint32_t> near;
  Bits expected;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::uint32_t bits = std::uint32_t{all[i]} << 16;
    CHECK(std::bit_cast<std::uint32_t>(wide[i]) == bits);
    const bool infinite = (all[i] & 0x7FFF) == 0x7F80, nan = (all[i] & 0x7FFF) > 0x7F80;
    for (const std::uint32_t beyond : {0x0u, 0x1u, 0x7FFFu, 0x8000u, 0x8001u, 0xFFFFu}) {
      const bool up = beyond > 0x8000 || (beyond == 0x8000 && all[i] % 2 == 1);
      near.push_back(bits | beyond);
      expected.push_back(nan || (infinite && beyond > 0) ? 0x7FC0 : std::uint16_t(all[i] + up));
    }
  }
  CHECK(converted<std::uint16_t>(near, DType::kF32, DType::kBF16) == expected);
}

TEST_CASE("f8e4m3fn has neither infinity nor room: 448 is the most, and stands for all beyond") {
  // torch.tensor([...]).to(torch.float8_e4m3fn).view(torch.uint8)
  const auto bits =
      converted<std::uint8_t>(std::vector<float>{448, 464, 480, -kInfinity, std::nanf(""), 0.5f},
                              DType::kF32, DType::kF8E4M3FN);
  CHECK(bits == std::vector<std::uint8_t>{0x7E, 0x7E, 0x7E, 0xFE, 0x7F, 0x30});
  const auto back = converted<float>(bits, DType::kF8E4M3FN, DType::kF32);
  CHECK(back[2] == 448);
  CHECK(std::isnan(back[4]));
}

TEST_CASE("f64 to f32 rounds once; NaN and infinities stay") {
  const auto got = converted<float>(std::vector<double>{0.1, 1e300, -1e300, std::nan(""), 16777217},
                                    DType::kF64, DType::kF32);
  CHECK(got[0] == 0.1f);
  CHECK(got[1] == kInfinity);
  CHECK(got[2] == -kInfinity);
  CHECK(std::isnan(got[3]));
  CHECK(got[4] == 16777216);
}

TEST_CASE("floats to integers truncate toward zero") {
  const std::vector<float> from = {2.9f, -2.9f, 0.5f, -0.5f, 127};
  CHECK(converted<std::int8_t>(from, DType::kF32, DType::kI8) ==
        std::vector<std::int8_t>{2, -2, 0, 0, 127});
  CHECK(converted<std::int64_t>(from, DType::kF32, DType::kI64) ==
        std::vector<std::int64_t>{2, -2, 0, 0, 127});
}

TEST_CASE("floats that no integer holds give what processors give") {
  const std::vector<float> from = {1e20f, -1e20f, std::nanf(""), kInfinity};
  constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
  CHECK(converted<std::int64_t>(from, DType::kF32, DType::kI64) ==
        std::vector<std::int64_t>{kLeast, kLeast, kLeast, kLeast});
  constexpr std::int32_t kLeast32 = std::numeric_limits<std::int32_t>::min();
  CHECK(converted<std::int32_t>(from, DType::kF32, DType::kI32) ==
        std::vector<std::int32_t>{kLeast32, kLeast32, kLeast32, kLeast32});
}

TEST_CASE("runs of floats become 64-bit integers: near and far ones, wherever they stand") {
  std::vector<double> from;
  std::vector<std::int64_t> expected;
  constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
  for (std::int64_t i = 0; i < 200; ++i) {
    const std::int64_t whole = i * 1234567891 % 4001 - 2000;
    from.push_back(static_cast<double>(whole) + (whole < 0 ? -0.75 : 0.75));
    expected.push_back(whole);
  }
  const auto replace = [&](std::size_t at, double value, std::int64_t whole) {
    from[at] = value;
    expected[at] = whole;
  };
  replace(3, -0.75, 0);
  replace(21, 0x1p51 - 0.5, (std::int64_t{1} << 51) - 1);
  replace(40, -0x1p51 + 0.5, 1 - (std::int64_t{1} << 51));
  replace(63, 0x1p51, std::int64_t{1} << 51);
  replace(80, 0x1.8p61, std::int64_t{3} << 60);
  replace(100, -0x1p63, kLeast);
  replace(117, 1e30, kLeast);
  replace(134, std::nan(""), kLeast);
  replace(151, -0.0, 0);
  replace(199, 0x1p62, std::int64_t{1} << 62);
  CHECK(converted<std::int64_t>(from, DType::kF64, DType::kI64) == expected);

  std::vector<float> narrow;
  std::vector<std::int64_t> wholes;
  for (const double value : from) {
    const float number = static_cast<float>(value);
    narrow.push_back(number);
    const bool fits = number >= -0x1p63f && number < 0x1p63f;
    wholes.push_back(fits ? static_cast<std::int64_t>(std::trunc(number)) : kLeast);
  }
  CHECK(converted<std::int64_t>(narrow, DType::kF32, DType::kI64) == wholes);
}

TEST_CASE("integers narrow by their low bits and widen by their sign") {
  const std::vector<std::int64_t> from = {300, -1, 128, std::int64_t{1} << 40};
  CHECK(converted<std::int8_t>(from, DType::kI64, DType::kI8) ==
        std::vector<std::int8_t>{44, -1, -128, 0});
  CHECK(converted<std::uint8_t>(from, DType::kI64, DType::kU8) ==
        std::vector<std::uint8_t>{44, 255, 128, 0});
  CHECK(converted<std::int64_t>(std::vector<std::int8_t>{-128, 127}, DType::kI8, DType::kI64) ==
        std::vector<std::int64_t>{-128, 127});
  CHECK(converted<std::int64_t>(std::vector<std::uint8_t>{255}, DType::kU8, DType::kI64) ==
        std::vector<std::int64_t>{255});
}

TEST_CASE("all that is not zero is true: NaN, the least subnormal, an imaginary part") {
  const auto truth = converted<std::uint8_t>(
      std::vector<double>{0, -0.0, 0.25, std::nan(""), 5e-324}, DType::kF64, DType::kBool);
  CHECK(truth == std::vector<std::uint8_t>{0, 0, 1, 1, 1});
  const std::vector<std::complex<float>> complex = {{0, 0}, {0, 1}, {1, 0}};
  CHECK(converted<std::uint8_t>(complex, DType::kC64, DType::kBool) ==
        std::vector<std::uint8_t>{0, 1, 1});
  CHECK(converted<std::uint8_t>(std::vector<std::int64_t>{256}, DType::kI64, DType::kBool) ==
        std::vector<std::uint8_t>{1});
}

TEST_CASE("complex to real drops the imaginary part, real to complex has none") {
  const std::vector<std::complex<double>> from = {{1.5, 9}, {-2.5, -9}};
  CHECK(converted<float>(from, DType::kC128, DType::kF32) == std::vector<float>{1.5f, -2.5f});
  CHECK(converted<std::int32_t>(from, DType::kC128, DType::kI32) ==
        std::vector<std::int32_t>{1, -2});
  CHECK(converted<std::complex<float>>(std::vector<double>{3}, DType::kF64, DType::kC64) ==
        std::vector<std::complex<float>>{{3, 0}});
}

TEST_CASE("runs with strides: every second element, a repeated one, none") {
  const std::vector<std::int32_t> from = {1, 2, 3, 4, 5};
  std::vector<float> to(6, -1);
  convert_run({to.data(), 2, DType::kF32}, {from.data(), 2, DType::kI32}, 3);
  CHECK(to == std::vector<float>{1, -1, 3, -1, 5, -1});
  convert_run({to.data(), 1, DType::kF32}, {from.data() + 1, 0, DType::kI32}, 4);
  CHECK(to == std::vector<float>{2, 2, 2, 2, 5, -1});
  convert_run({to.data() + 5, -2, DType::kF32}, {from.data() + 2, 0, DType::kI32}, 3);
  CHECK(to == std::vector<float>{2, 3, 2, 3, 5, 3});
  convert_run({to.data(), 1, DType::kF32}, {from.data(), 1, DType::kI32}, 0);
  CHECK(to[0] == 2);
}

TEST_CASE("16-bit floats from and to integers and complex numbers, with strides, block by block") {
  // Every third of 3,000 integers i - 500 as bf16 and back: 8 bits of them are kept, exact to 256.
  std::vector<std::int64_t> from(3000);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::int64_t>(i) - 500;
  std::vector<std::uint16_t> bits(1000);
  convert_run({bits.data(), 1, DType::kBF16}, {from.data(), 3, DType::kI64}, 1000);
  CHECK(bits[0] == 0xC3FA);    // -500 = -1.953125 * 2^8
  CHECK(bits[167] == 0x3F80);  // 1
  CHECK(bits[999] == 0x451C);  // 2497 is between 2496 and 2512: 1.21875 * 2^11
  std::vector<std::complex<float>> to(2000, {7, 7});
  convert_run({to.data(), 2, DType::kC64}, {bits.data(), 1, DType::kBF16}, 1000);
  CHECK(to[0] == std::complex<float>(-500, 0));
  CHECK(to[1] == std::complex<float>(7, 7));
  CHECK(to[334] == std::complex<float>(1, 0));
  CHECK(to[1998] == std::complex<float>(2496, 0));
  std::vector<std::int16_t> back(1000, -1);
  convert_run({back.data() + 999, -1, DType::kI16}, {to.data(), 2, DType::kC64}, 1000);
  CHECK(back[999] == -500);
  CHECK(back[832] == 1);
  CHECK(back[0] == 2496);
  CHECK(converted<std::uint16_t>(bits, DType::kBF16, DType::kF16)[999] == 0x68E0);  // 2496
}

TEST_CASE("dtypes that are names only are refused, with what to use instead") {
  std::uint32_t bits = 0;
  float number = 0;
  for (const DType name : {DType::kC32, DType::kBC32}) {
    try {
      convert_run({&number, 1, DType::kF32}, {&bits, 1, name}, 1);
      FAIL("no error");
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::kUnsupported);
      CHECK(error.find("fix") != nullptr);
    }
  }
}

TEST_CASE("one number is stored as any dtype") {
  std::int64_t integer = 0;
  store_scalar(&integer, DType::kI64, Scalar((std::int64_t{1} << 53) + 1));
  CHECK(integer == (std::int64_t{1} << 53) + 1);  // not by way of f64
  store_scalar(&integer, DType::kI64, Scalar(-2.75));
  CHECK(integer == -2);
  std::complex<float> complex;
  store_scalar(&complex, DType::kC64, Scalar(std::complex<double>(1, -2)));
  CHECK(complex == std::complex<float>(1, -2));
  std::uint8_t truth = 9;
  store_scalar(&truth, DType::kBool, Scalar(0.5));
  CHECK(truth == 1);
}

TEST_CASE("tensors convert by broadcasting into any strides") {
  Kernels kernels;
  const Tensor column = kernels.i64({2, 1}, {1, 2});
  const Tensor out = empty(kernels.device(), TensorMeta{{2, 3}, {1, 2}, DType::kF32});
  convert_tensor(out, column);
  CHECK(values_of<float>(out) == std::vector<float>{1, 1, 1, 2, 2, 2});
  fill_tensor(out.narrow(1, 1, 1), Scalar(7));
  CHECK(values_of<float>(out) == std::vector<float>{1, 7, 1, 2, 7, 2});
  fill_tensor(out.narrow(1, 0, 0), Scalar(9));
  CHECK(values_of<float>(out) == std::vector<float>{1, 7, 1, 2, 7, 2});
}

TEST_CASE("rows of a turned tensor are read and written in its own order") {
  Kernels kernels;
  const Tensor lying = kernels.f32({2, 3}, {1, 2, 3, 4, 5, 6});
  const Tensor turned = lying.as_view({{3, 2}, {1, 3}, DType::kF32}, 0);
  double values[6] = {};
  load_row_major(values, DType::kF64, turned);
  CHECK(std::vector<double>(values, values + 6) == std::vector<double>{1, 4, 2, 5, 3, 6});
  const double fresh[6] = {10, 20, 30, 40, 50, 60};
  store_row_major(turned, fresh, DType::kF64);
  CHECK(values_of<float>(lying) == std::vector<float>{10, 30, 50, 20, 40, 60});
}

TEST_CASE("copy, fill and constants") {
  Kernels kernels;
  const Tensor source = kernels.f32({2}, {1.5f, -2.5f});
  const Tensor none = kernels.f32({2}, {0, 0});
  CHECK(values_of<std::int32_t>(kernels.run(KernelId::kConvert, {source}, Dims{2}, DType::kI32)) ==
        std::vector<std::int32_t>{1, -2});
  CHECK(values_of<float>(kernels.run(KernelId::kCopy, {none, source}, Dims{2})) ==
        std::vector<float>{1.5f, -2.5f});
  CHECK(values_of<float>(kernels.run(KernelId::kFill, {none, Scalar(3)}, Dims{2})) ==
        std::vector<float>{3, 3});
  CHECK(values_of<float>(kernels.run(KernelId::kFill, {none, kernels.i64({}, {4})}, Dims{2})) ==
        std::vector<float>{4, 4});
  CHECK(values_of<float>(kernels.run(KernelId::kFillThird, {none, Dims{2}, Scalar(5)}, Dims{2})) ==
        std::vector<float>{5, 5});
  CHECK(values_of<float>(kernels.run(KernelId::kZeros, {}, Dims{2})) == std::vector<float>{0, 0});
  CHECK(values_of<bool>(kernels.run(KernelId::kOnes, {}, Dims{2}, DType::kBool)) ==
        std::vector<bool>{true, true});
}
