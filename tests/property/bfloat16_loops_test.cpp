// Loops of bf16 that take no detour through a buffer have the results of the loops of f32, rounded:
// for every function, numbers of every size, and lengths around those of registers.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kernels/element_types.h"
#include "kernels/elementwise.h"

namespace shardlab {
namespace {

using Random = std::mt19937_64;

// Numbers of every size, ordinary ones most often, infinities and NaN.
template <typename T>
T drawn(Random& random) {
  using Word = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  const auto word = static_cast<Word>(random());
  switch (random() % 16) {
    case 0:
      return std::bit_cast<T>(word);
    case 1: {
      constexpr T kEnds[] = {T(0),
                             T(-0.0),
                             T(1),
                             T(-1),
                             std::numeric_limits<T>::infinity(),
                             -std::numeric_limits<T>::infinity(),
                             std::numeric_limits<T>::quiet_NaN(),
                             std::numeric_limits<T>::denorm_min(),
                             std::numeric_limits<T>::min(),
                             std::numeric_limits<T>::max(),
                             std::numeric_limits<T>::lowest()};
      return kEnds[random() % std::size(kEnds)];
    }
    case 2:
    case 3:
      return std::ldexp(static_cast<T>(word) / T(std::numeric_limits<Word>::max()) - T(0.5),
                        static_cast<int>(random() % 40));
    default:
      return static_cast<T>(word) / T(std::numeric_limits<Word>::max()) * 8 - 4;
  }
}

#define SHARDLAB_NAME(function, operands, kinds, how) #function,
constexpr const char* kFunctionNames[] = {SHARDLAB_ELEMENT_FUNCTIONS(SHARDLAB_NAME)};
#undef SHARDLAB_NAME
#define SHARDLAB_OPERANDS(function, operands, kinds, how) operands,
constexpr std::size_t kOperands[] = {SHARDLAB_ELEMENT_FUNCTIONS(SHARDLAB_OPERANDS)};
#undef SHARDLAB_OPERANDS

}  // namespace

TEST_CASE("V-27 a loop of bf16 gives what the loop of f32 gives, rounded") {
  const std::span<const ElementLoop> one = bfloat16_loops();
  REQUIRE(one.size() == std::size(kFunctionNames));
  const std::span<const ElementLoop> singles = element_loops<float>();
  Random random(11);
  int compared = 0;
  for (std::size_t f = 0; f < one.size(); ++f) {
    if (one[f].run == nullptr) continue;
    ++compared;
    for (const std::size_t count : {0u, 1u, 15u, 16u, 31u, 32u, 33u, 63u, 64u, 65u, 4099u}) {
      std::vector<std::vector<BFloat16>> elements(kOperands[f]);
      std::vector<std::vector<float>> numbers(kOperands[f]);
      std::array<const std::byte*, kMaxOperands> in{}, wide_in{};
      for (std::size_t i = 0; i < elements.size(); ++i) {
        for (std::size_t k = 0; k < count; ++k) {
          elements[i].push_back(to_bfloat16(drawn<float>(random)));
          numbers[i].push_back(to_float(elements[i].back()));
        }
        in[i] = reinterpret_cast<const std::byte*>(elements[i].data());
        wide_in[i] = reinterpret_cast<const std::byte*>(numbers[i].data());
      }
      std::vector<BFloat16> a(count + 1, BFloat16{7});
      std::vector<float> single(count + 1);
      const auto length = static_cast<std::int64_t>(count);
      one[f].run(in.data(), reinterpret_cast<std::byte*>(a.data()), length);
      singles[f].run(wide_in.data(), reinterpret_cast<std::byte*>(single.data()), length);
      std::size_t different = 0;
      for (std::size_t k = 0; k < count; ++k) {
        const bool nan = std::isnan(single[k]);
        const bool same =
            nan ? std::isnan(to_float(a[k])) : a[k].bits == to_bfloat16(single[k]).bits;
        if (!same) ++different;
      }
      CAPTURE(std::string(kFunctionNames[f]));
      CAPTURE(count);
      CHECK(different == 0);
      CHECK(a[count].bits == 7);
    }
  }
  CHECK(compared >= 11);
}

}  // namespace shardlab
