// The dtype of several operands: tensors with dims before tensors without, these before numbers.
#include "kernels/promotion.h"

#include <doctest/doctest.h>

#include <cmath>
#include <complex>

#include "tests/unit/kernels/fixtures.h"

using namespace shardlab;
using namespace shardlab::test;

namespace {

DType met(const std::vector<LocalArg>& operands) { return promote_operands(operands); }

}  // namespace

TEST_CASE("a number changes the dtype only where its category is higher") {
  Kernels kernels;
  const auto of = [&](DType dtype) { return empty(kernels.device(), Dims{2}, dtype); };
  CHECK(met({of(DType::kF32), Scalar(2.0)}) == DType::kF32);
  CHECK(met({of(DType::kBF16), Scalar(2.0)}) == DType::kBF16);
  CHECK(met({of(DType::kI8), Scalar(1000)}) == DType::kI8);
  CHECK(met({of(DType::kI8), Scalar(0.5)}) == DType::kF32);
  CHECK(met({of(DType::kBool), Scalar(1)}) == DType::kI64);
  CHECK(met({of(DType::kBool), Scalar(true)}) == DType::kBool);
  CHECK(met({of(DType::kF32), Scalar(std::complex<double>(0, 1))}) == DType::kC64);
  CHECK(met({of(DType::kF64), Scalar(std::complex<double>(0, 1))}) == DType::kC128);
  CHECK(met({of(DType::kF16), Scalar(std::complex<double>(0, 1))}) == DType::kC32);
  CHECK(met({of(DType::kBF16), Scalar(std::complex<double>(0, 1))}) == DType::kBC32);
}

TEST_CASE("a tensor without dims counts as a number of its dtype") {
  Kernels kernels;
  const auto of = [&](DType dtype) { return empty(kernels.device(), Dims{2}, dtype); };
  const auto single = [&](DType dtype) { return empty(kernels.device(), Dims{}, dtype); };
  CHECK(met({of(DType::kF32), single(DType::kF64)}) == DType::kF32);
  CHECK(met({of(DType::kI32), single(DType::kF64)}) == DType::kF64);
  CHECK(met({of(DType::kI32), single(DType::kI64)}) == DType::kI32);
  CHECK(met({single(DType::kF32), single(DType::kF64)}) == DType::kF64);
  CHECK(met({single(DType::kI8), Scalar(0.5)}) == DType::kF32);
  CHECK(met({single(DType::kF16), Scalar(0.5)}) == DType::kF16);
}

TEST_CASE("two tensors meet in the dtype that holds both") {
  Kernels kernels;
  const auto of = [&](DType dtype) { return empty(kernels.device(), Dims{2}, dtype); };
  CHECK(met({of(DType::kU8), of(DType::kI8)}) == DType::kI16);
  CHECK(met({of(DType::kF16), of(DType::kBF16)}) == DType::kF32);
  CHECK(met({of(DType::kI64), of(DType::kF16)}) == DType::kF16);
  CHECK(met({of(DType::kC64), of(DType::kF64)}) == DType::kC128);
  CHECK(met({of(DType::kBool), of(DType::kBool)}) == DType::kBool);
}

TEST_CASE("operands of other kinds do not count; without any the dtype is bool") {
  Kernels kernels;
  CHECK(met({}) == DType::kBool);
  CHECK(met({std::monostate{}, std::string("floor"), Dims{1, 2}}) == DType::kBool);
  CHECK(met({empty(kernels.device(), Dims{1}, DType::kF16), std::monostate{}}) == DType::kF16);
}

TEST_CASE("the least and the largest number of each kind of dtype") {
  CHECK(lowest_number(DType::kI8).to_int() == -128);
  CHECK(highest_number(DType::kI8).to_int() == 127);
  CHECK(lowest_number(DType::kI16).to_int() == -32768);
  CHECK(highest_number(DType::kI32).to_int() == 2147483647);
  CHECK(lowest_number(DType::kI64).to_int() == std::numeric_limits<std::int64_t>::min());
  CHECK(highest_number(DType::kI64).to_int() == std::numeric_limits<std::int64_t>::max());
  CHECK(lowest_number(DType::kU8).to_int() == 0);
  CHECK(highest_number(DType::kU8).to_int() == 255);
  CHECK(std::isinf(lowest_number(DType::kBF16).to_double()));
  CHECK(highest_number(DType::kF8E4M3FN).to_double() == 448);
  CHECK(lowest_number(DType::kBool).to_bool() == false);
  CHECK(highest_number(DType::kBool).to_bool() == true);
}

TEST_CASE("which dtypes are computed in wider ones") {
  for (const DType wide : {DType::kI64, DType::kF32, DType::kF64, DType::kC64, DType::kBool}) {
    CAPTURE(to_string(wide));
    CHECK_FALSE(computes_wider(wide));
  }
  for (const DType narrow :
       {DType::kU8, DType::kI8, DType::kI16, DType::kI32, DType::kF16, DType::kBF16}) {
    CAPTURE(to_string(narrow));
    CHECK(computes_wider(narrow));
  }
}

TEST_CASE("a bound beyond an integer's range is brought to its end, others stay") {
  const auto bounded = [](const LocalArg& bound, DType dtype) {
    return std::get<Scalar>(within_range(bound, dtype));
  };
  CHECK(bounded(Scalar(1000), DType::kI8).to_int() == 127);
  CHECK(bounded(Scalar(-1), DType::kU8).to_int() == 0);
  CHECK(bounded(Scalar(5), DType::kI8).to_int() == 5);
  CHECK(bounded(Scalar(1000), DType::kF16).to_int() == 1000);
  CHECK(bounded(Scalar(1e9), DType::kI8).to_double() == 1e9);  // a float decides for floats
}
