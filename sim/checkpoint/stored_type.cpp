// One row a type.
#include "sim/checkpoint/stored_type.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"

namespace shardlab {

namespace {

// clang-format off
constexpr StoredType kTypes[] = {
    {"f64", "F64", "float64", "DoubleStorage", "<f8", 8, DType::kF64},
    {"f32", "F32", "float32", "FloatStorage", "<f4", 4, DType::kF32},
    {"f16", "F16", "float16", "HalfStorage", "<f2", 2, DType::kF16},
    {"bf16", "BF16", "bfloat16", "BFloat16Storage", "", 2, DType::kBF16},
    {"f8e4m3fn", "F8_E4M3", "float8_e4m3fn", "", "", 1, DType::kF8E4M3FN},
    {"f8e5m2", "F8_E5M2", "float8_e5m2", "", "", 1, {}},
    {"f8e8m0", "F8_E8M0", "float8_e8m0fnu", "", "", 1, {}},
    {"f8e4m3fnuz", "F8_E4M3FNUZ", "float8_e4m3fnuz", "", "", 1, {}},
    {"f8e5m2fnuz", "F8_E5M2FNUZ", "float8_e5m2fnuz", "", "", 1, {}},
    {"i64", "I64", "int64", "LongStorage", "<i8", 8, DType::kI64},
    {"i32", "I32", "int32", "IntStorage", "<i4", 4, DType::kI32},
    {"i16", "I16", "int16", "ShortStorage", "<i2", 2, DType::kI16},
    {"i8", "I8", "int8", "CharStorage", "|i1", 1, DType::kI8},
    {"u64", "U64", "uint64", "", "<u8", 8, DType::kU64},
    {"u32", "U32", "uint32", "", "<u4", 4, {}},
    {"u16", "U16", "uint16", "", "<u2", 2, {}},
    {"u8", "U8", "uint8", "ByteStorage", "|u1", 1, DType::kU8},
    {"bool", "BOOL", "bool", "BoolStorage", "|b1", 1, DType::kBool},
    {"c64", "C64", "complex64", "ComplexFloatStorage", "<c8", 8, DType::kC64},
    {"c128", "", "complex128", "ComplexDoubleStorage", "<c16", 16, DType::kC128},
    {"c32", "", "complex32", "", "", 4, DType::kC32},
    {"bc32", "", "bcomplex32", "", "", 4, DType::kBC32},
};
// clang-format on

}  // namespace

const StoredType* stored_type(std::string_view StoredType::*column, std::string_view text) {
  const auto* found = std::ranges::find(kTypes, text, column);
  return text.empty() || found == std::end(kTypes) ? nullptr : found;
}

const StoredType& stored_type(DType dtype) {
  const auto* found = std::ranges::find(kTypes, std::optional(dtype), &StoredType::dtype);
  check_invariant(found != std::end(kTypes), "each dtype has a row");
  return *found;
}

}  // namespace shardlab
