#include "base/dtype.h"
#include "base/torch_dtype.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace shardlab;

TEST_CASE("dtype names round-trip and b8 is bool") {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    CHECK(parse_dtype(to_string(dtype)) == dtype);
  }
  CHECK(parse_dtype("b8") == DType::kBool);
  CHECK_FALSE(parse_dtype("f31").has_value());
}

TEST_CASE("users may write torch's words for dtypes") {
  CHECK(parse_written_dtype("float32") == DType::kF32);
  CHECK(parse_written_dtype("half") == DType::kF16);
  CHECK(parse_written_dtype("bfloat16") == DType::kBF16);
  CHECK(parse_written_dtype("long") == DType::kI64);
  CHECK(parse_written_dtype("i8") == DType::kI8);
  CHECK_FALSE(parse_written_dtype("float31").has_value());
  CHECK_FALSE(parse_dtype("float32").has_value());
}

TEST_CASE("promotion of two tensors, as recorded") {
  CHECK(promote(DType::kBool, DType::kU8) == DType::kU8);
  CHECK(promote(DType::kI64, DType::kF16) == DType::kF16);
  CHECK(promote(DType::kF16, DType::kBF16) == DType::kF32);
  CHECK(promote(DType::kF64, DType::kC64) == DType::kC128);
  CHECK(promote(DType::kI64, DType::kC64) == DType::kC64);
}

TEST_CASE("f16, bf16 and f8 round to nearest even and keep every stored value") {
  CHECK(to_half(1.0f).bits == 0x3C00);
  CHECK(to_half(65504.0f).bits == 0x7BFF);
  CHECK(to_half(65520.0f).bits == 0x7C00);
  CHECK(to_half(5.9604645e-8f).bits == 0x0001);
  CHECK(to_half(2049.0f).bits == to_half(2048.0f).bits);
  CHECK(to_bfloat16(1.00390625f).bits == 0x3F80);
  CHECK(to_float8(448.0f).bits == 0x7E);
  CHECK(to_float8(1000.0f).bits == 0x7E);
  for (std::uint32_t bits = 0; bits < 0x7C00; ++bits) {
    REQUIRE(to_half(to_float(Half{static_cast<std::uint16_t>(bits)})).bits == bits);
  }
  for (std::uint32_t bits = 0; bits < 0x7F; ++bits) {
    REQUIRE(to_float8(to_float(Float8E4M3{static_cast<std::uint8_t>(bits)})).bits == bits);
  }
}
