#include "sim/language/syntax/numbers.h"

#include <doctest/doctest.h>

#include "base/error.h"

using namespace shardlab;
using ast::BinaryOp;

namespace {
Number whole(std::int64_t value) { return value; }
}  // namespace

TEST_CASE("B-63 integers divide and take remainders as Python does") {
  struct Row {
    std::int64_t left, right, quotient, rest;
  };
  const Row rows[] = {{7, 2, 3, 1}, {-7, 2, -4, 1}, {7, -2, -4, -1}, {-7, -2, 3, -1}, {6, 3, 2, 0}};
  for (const Row& row : rows) {
    CAPTURE(row.left);
    CAPTURE(row.right);
    CHECK(arithmetic(BinaryOp::kFloorDiv, row.left, row.right) == whole(row.quotient));
    CHECK(arithmetic(BinaryOp::kMod, row.left, row.right) == whole(row.rest));
  }
  CHECK(arithmetic(BinaryOp::kDiv, whole(6), whole(3)) == Number(2.0));
  CHECK(arithmetic(BinaryOp::kFloorDiv, Number(-7.0), whole(2)) == Number(-4.0));
  CHECK(arithmetic(BinaryOp::kMod, Number(-7.5), whole(2)) == Number(0.5));
}

TEST_CASE("B-63 powers and shifts") {
  CHECK(arithmetic(BinaryOp::kPow, whole(2), whole(10)) == whole(1024));
  CHECK(arithmetic(BinaryOp::kPow, whole(-3), whole(3)) == whole(-27));
  CHECK(arithmetic(BinaryOp::kPow, whole(2), whole(-1)) == Number(0.5));
  CHECK(arithmetic(BinaryOp::kPow, whole(0), whole(0)) == whole(1));
  CHECK(arithmetic(BinaryOp::kPow, whole(2), whole(62)) == whole(std::int64_t{1} << 62));
  CHECK(arithmetic(BinaryOp::kLeft, whole(3), whole(4)) == whole(48));
  CHECK(arithmetic(BinaryOp::kRight, whole(-5), whole(1)) == whole(-3));
  CHECK(arithmetic(BinaryOp::kRight, whole(-5), whole(99)) == whole(-1));
}

TEST_CASE("B-63 arithmetic without a result in 64 bits is refused") {
  const Number large = std::int64_t{1} << 62;
  CHECK_THROWS_AS(arithmetic(BinaryOp::kAdd, large, large), Error);
  CHECK_THROWS_AS(arithmetic(BinaryOp::kMul, large, whole(2)), Error);
  CHECK_THROWS_AS(arithmetic(BinaryOp::kPow, whole(10), whole(19)), Error);
  CHECK_THROWS_AS(arithmetic(BinaryOp::kLeft, whole(1), whole(63)), Error);
  CHECK_THROWS_AS(arithmetic(BinaryOp::kDiv, whole(1), whole(0)), Error);
  CHECK_THROWS_AS(arithmetic(BinaryOp::kMod, Number(1.0), Number(0.0)), Error);
  CHECK_THROWS_AS(arithmetic(BinaryOp::kBitAnd, Number(1.0), whole(1)), Error);
  CHECK_THROWS_AS(arithmetic(BinaryOp::kMatMul, whole(1), whole(1)), Error);
}

TEST_CASE("B-63 numbers print as Python prints them") {
  CHECK(to_string(whole(-3)) == "-3");
  CHECK(to_string(Number(2.0)) == "2.0");
  CHECK(to_string(Number(0.1)) == "0.1");
  CHECK(to_string(Number(1e-5)) == "1e-05");
  CHECK(float_text(1.0 / 0.0) == "inf");
}
