// dtype.h - element types, their names and the promotion rules of the reference.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>

namespace shardlab {

/// Element types, named as in type strings. The order is that of the tables here and in dtype.cpp,
/// and has no meaning for promotion.
enum class DType : std::uint8_t {
  kBool,
  kU8,
  kU64,
  kI8,
  kI16,
  kI32,
  kI64,
  kF16,
  kBF16,
  kF32,
  kF64,
  kC64,
  kC128,
  kF8E4M3FN,
  kC32,
  kBC32,  ///< names only: no kernel takes them
};
inline constexpr int kDTypeCount = 16;

/// bool < integer < float < complex: decides promotion with 0-dim tensors and numbers.
enum class Category : std::uint8_t { kBool, kInteger, kFloat, kComplex };

/// Facts about a dtype that kernels need for every operand. `bytes`: of one element.
struct DTypeTraits {
  std::uint8_t bytes;
  Category category;
};
// clang-format off
inline constexpr DTypeTraits kDTypeTraits[kDTypeCount] = {
    {1, Category::kBool},      // bool
    {1, Category::kInteger},   // u8
    {8, Category::kInteger},   // u64
    {1, Category::kInteger},   // i8
    {2, Category::kInteger},   // i16
    {4, Category::kInteger},   // i32
    {8, Category::kInteger},   // i64
    {2, Category::kFloat},     // f16
    {2, Category::kFloat},     // bf16
    {4, Category::kFloat},     // f32
    {8, Category::kFloat},     // f64
    {8, Category::kComplex},   // c64
    {16, Category::kComplex},  // c128
    {1, Category::kFloat},     // f8e4m3fn
    {4, Category::kComplex},   // c32
    {4, Category::kComplex},   // bc32
};
// clang-format on

/// "f32", "bool", ...: the one spelling in type strings, facts and messages.
std::string_view to_string(DType dtype);
/// Also reads "b8" (bool). Empty when unknown.
std::optional<DType> parse_dtype(std::string_view name);

/// Size of one element in bytes; bool takes one.
inline std::int64_t item_bytes(DType dtype) {
  return kDTypeTraits[static_cast<std::size_t>(dtype)].bytes;
}
/// The category of a dtype, one of four.
inline Category category_of(DType dtype) {
  return kDTypeTraits[static_cast<std::size_t>(dtype)].category;
}
inline bool is_floating(DType dtype) { return category_of(dtype) == Category::kFloat; }
inline bool is_complex(DType dtype) { return category_of(dtype) == Category::kComplex; }
/// The floats of 16 bits.
inline bool is_half(DType dtype) { return dtype == DType::kF16 || dtype == DType::kBF16; }
/// The dtype that formulas over several ops are computed in, so that they round once: f32 for half
/// types.
inline DType f32_for_half(DType dtype) { return is_half(dtype) ? DType::kF32 : dtype; }
/// bool counts as integral.
inline bool is_integral(DType dtype) { return category_of(dtype) <= Category::kInteger; }

/// Result of an op on two tensors that both have dims.
/// Fails with Value for f8 with any other dtype, and for u64 with one that is not floating.
DType promote(DType a, DType b);
/// The dtype a number of this category has by itself: bool, i64, f32, c64.
DType default_dtype(Category category);
/// Real part's dtype of a complex one (c64 -> f32); others unchanged.
DType real_dtype(DType dtype);
/// The complex dtype whose parts have this one (f16 -> c32); c64 for integers; complex unchanged.
DType complex_dtype(DType dtype);
/// f32 for bool and integers (as for exp or true division); others unchanged.
DType float_dtype(DType dtype);
/// Unit roundoff of a floating or complex dtype (f32: 2^-24); 0 for integers and bool.
double unit_roundoff(DType dtype);

// 16-bit and 8-bit floats are stored as bits; kernels compute in float.
struct Half {
  std::uint16_t bits;
};
struct BFloat16 {
  std::uint16_t bits;
};
struct Float8E4M3 {
  std::uint8_t bits;
};

/// The dtype whose elements are stored as T: f32 of float, c64 of std::complex<float>. Empty if
/// there is none.
template <typename T>
constexpr std::optional<DType> dtype_if() {
  if constexpr (std::is_same_v<T, bool>) return DType::kBool;
  if constexpr (std::is_same_v<T, Half>) return DType::kF16;
  if constexpr (std::is_same_v<T, BFloat16>) return DType::kBF16;
  if constexpr (std::is_same_v<T, Float8E4M3>) return DType::kF8E4M3FN;
  if constexpr (std::is_floating_point_v<T> && sizeof(T) <= 8) {
    return sizeof(T) == 4 ? DType::kF32 : DType::kF64;
  } else if constexpr (requires(const T& z) {
                         z.real();
                         z.imag();
                       }) {
    return sizeof(T) == 8 ? DType::kC64 : DType::kC128;
  } else if constexpr (std::is_integral_v<T> && std::is_signed_v<T>) {
    constexpr DType kBySize[] = {DType::kI8, DType::kI16, DType::kI32, DType::kI64};
    return kBySize[sizeof(T) == 8 ? 3 : sizeof(T) / 2];
  } else if constexpr (std::is_integral_v<T> && (sizeof(T) == 1 || sizeof(T) == 8)) {
    return sizeof(T) == 1 ? DType::kU8 : DType::kU64;
  } else {
    return std::nullopt;
  }
}
template <typename T>
constexpr DType dtype_of() {
  static_assert(dtype_if<T>().has_value(), "a tensor has no such elements");
  return *dtype_if<T>();
}
/// Whether memory with elements of this dtype may be read as Ts: as their type, as bytes, and those
/// that are bits, as unsigned integers of their size.
template <typename T>
constexpr bool is_stored_as(DType dtype) {
  if (std::is_same_v<T, std::byte> || dtype_if<T>() == dtype) return true;
  const bool are_bits = dtype == DType::kBool || dtype == DType::kF16 || dtype == DType::kBF16 ||
                        dtype == DType::kF8E4M3FN;
  return are_bits && std::is_unsigned_v<T> && !std::is_same_v<T, bool> &&
         sizeof(T) == kDTypeTraits[static_cast<std::size_t>(dtype)].bytes;
}

/// Round to nearest, ties to even; NaN stays NaN. f8e4m3fn has no infinity: 448 is the largest.
Half to_half(float value);
/// Exact: every one of these numbers is a float.
float to_float(Half value);
inline BFloat16 to_bfloat16(float value);
inline float to_float(BFloat16 value);
Float8E4M3 to_float8(float value);
float to_float(Float8E4M3 value);

inline BFloat16 to_bfloat16(float value) {
  std::uint32_t bits = __builtin_bit_cast(std::uint32_t, value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return {0x7FC0};
  bits += 0x7FFFu + ((bits >> 16) & 1u);
  return {static_cast<std::uint16_t>(bits >> 16)};
}
inline float to_float(BFloat16 value) {
  return __builtin_bit_cast(float, static_cast<std::uint32_t>(value.bits) << 16);
}

}  // namespace shardlab
