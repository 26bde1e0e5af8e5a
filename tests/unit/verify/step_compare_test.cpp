// Values that the judge of calls takes for the same.
#include "sim/verify/step_compare.h"

#include <doctest/doctest.h>

#include <cmath>

#include "tests/support/local_tensor.h"

namespace shardlab {
namespace {

Tensor f32(const std::vector<double>& values) {
  return local_tensor({static_cast<std::int64_t>(values.size())}, DType::kF32, values);
}
Tensor i64(const std::vector<double>& values) {
  return local_tensor({static_cast<std::int64_t>(values.size())}, DType::kI64, values);
}

TEST_CASE("B-13 values are the same bit for bit, and any NaN is any other") {
  CHECK(same_values(f32({1, std::nan(""), 0}), f32({1, -std::nan(""), 0})));
  CHECK_FALSE(same_values(f32({1, 2, -0.0}), f32({1, 2, 0.0})));
  CHECK_FALSE(same_values(f32({1, 2, 3}), f32({1, 2, std::nan("")})));
  CHECK_FALSE(same_values(f32({1, 2, 3}), f32({1, 2, 3.0000002384185791})));
  CHECK(same_values(f32({}), f32({})));
  CHECK(same_values(i64({1, 2, 3}), i64({1, 2, 3})));
  CHECK_FALSE(same_values(i64({1, 2, 3}), i64({1, 2, 4})));
}

TEST_CASE("B-13 elements that lie in other orders are compared in one") {
  const Tensor dense = local_tensor({2, 3}, DType::kF32, {1, 2, 3, 4, 5, 6});
  const Tensor turned = local_tensor({3, 2}, DType::kF32, {1, 4, 2, 5, 3, 6});
  const Tensor view = turned.as_view({{2, 3}, {1, 2}, DType::kF32}, 0);
  const Tensor wide = local_tensor({2, 4}, DType::kF32, {1, 2, 3, 9, 4, 5, 6, 9});
  const Tensor part = wide.narrow(1, 0, 3);
  CHECK(same_bits(dense, view));
  CHECK(same_bits(view, part));
  CHECK_FALSE(same_bits(wide.narrow(1, 1, 3), view));
  CHECK_FALSE(same_bits(view, local_tensor({2, 3}, DType::kF32, {1, 2, 3, 4, 5, 7})));
  CHECK(same_bits(wide.narrow(1, 0, 0), dense.narrow(1, 0, 0)));
}

TEST_CASE("B-13 a miss names the first element and counts all") {
  const WrongStep wrong = bitwise_miss(i64({1, 5, 3, 7}), i64({1, 2, 3, 4}));
  CHECK(wrong.element == 1);
  CHECK(wrong.wrong_elements == 2);
  CHECK(wrong.got == 5);
  CHECK(wrong.expected == 2);
}

TEST_CASE("B-13 neither NaN nor an infinity is finite") {
  CHECK(all_finite(f32({1, -2, 0})));
  CHECK_FALSE(all_finite(f32({1, HUGE_VAL, 0})));
  CHECK_FALSE(all_finite(f32({1, 0, std::nan("")})));
}

}  // namespace
}  // namespace shardlab
