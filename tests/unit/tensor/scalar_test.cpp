#include "tensor/scalar.h"

#include <doctest/doctest.h>

#include <cmath>
#include <complex>

using namespace shardlab;

TEST_CASE("numbers print as Python prints them") {
  CHECK(Scalar(true).text() == "True");
  CHECK(Scalar(2).text() == "2");
  CHECK(Scalar(2.0).text() == "2.0");
  CHECK(Scalar(-0.0).text() == "-0.0");
  CHECK(Scalar(1e-5).text() == "1e-05");
  CHECK(Scalar(1e16).text() == "1e+16");
  CHECK(Scalar(123456789012345.0).text() == "123456789012345.0");
  CHECK(Scalar(0.1).text() == "0.1");
  CHECK(Scalar(INFINITY).text() == "inf");
  CHECK(Scalar(NAN).text() == "nan");
  CHECK(Scalar(std::complex<double>(1, 2)).text() == "(1+2j)");
  CHECK(Scalar(std::complex<double>(0, -2)).text() == "-2j");
  CHECK(Scalar(std::complex<double>(1.5, -0.5)).text() == "(1.5-0.5j)");
}

TEST_CASE("integers stay exact, floats truncate, zero is false") {
  CHECK(Scalar(std::int64_t{9007199254740993}).to_int() == 9007199254740993);
  CHECK(Scalar(-2.7).to_int() == -2);
  CHECK_FALSE(Scalar(0.0).to_bool());
  CHECK(Scalar(std::complex<double>(0, 1)).to_bool());
  CHECK_FALSE(Scalar(2) == Scalar(2.0));
}
