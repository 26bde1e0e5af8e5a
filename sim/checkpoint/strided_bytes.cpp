// A part is cut in halves along its outermost dim until it is one run of bytes, which goes to its
// place at once, or small enough to be read with all that is between its elements.
#include "sim/checkpoint/strided_bytes.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "tensor/strided_copy.h"

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

// Bytes that are read for elements which are not next to each other; runs from this length on are
// read by themselves.
constexpr std::int64_t kBlock = 4 << 20, kLongRun = 64 << 10;

struct Copy {
  Dims count, from_stride, to_stride;
};

// Elements next to each other in both places, from the last dim on.
std::int64_t run_of(const Copy& copy) {
  std::int64_t run = 1;
  for (std::size_t dim = copy.count.size(); dim-- > 0;) {
    if (copy.count[dim] == 1) continue;
    if (copy.from_stride[dim] != run || copy.to_stride[dim] != run) break;
    run *= copy.count[dim];
  }
  return run;
}

void read_part(const StridedBytes& elements, Copy copy, std::int64_t at, char* out,
               std::vector<char>& block) {
  const std::int64_t item = elements.item, run = run_of(copy);
  if (run == product(copy.count)) {
    return elements.bytes.read(static_cast<std::uint64_t>(at * item),
                               static_cast<std::uint64_t>(run * item), out);
  }
  std::int64_t span = 1;
  std::size_t outer = 0;
  for (std::size_t dim = 0; dim < copy.count.size(); ++dim) {
    span += (copy.count[dim] - 1) * copy.from_stride[dim];
    const bool wider = copy.count[outer] == 1 || copy.from_stride[dim] > copy.from_stride[outer];
    if (copy.count[dim] > 1 && wider) outer = dim;
  }
  if (span * item <= kBlock && run * item < kLongRun) {
    block.resize(static_cast<std::size_t>(span * item));
    elements.bytes.read(static_cast<std::uint64_t>(at * item), block.size(), block.data());
    return strided_copy({out, copy.to_stride}, {block.data(), copy.from_stride}, copy.count, item);
  }
  const std::int64_t all = copy.count[outer], half = all / 2;
  copy.count[outer] = half;
  read_part(elements, copy, at, out, block);
  copy.count[outer] = all - half;
  read_part(elements, copy, at + half * copy.from_stride[outer],
            out + half * copy.to_stride[outer] * item, block);
}

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

std::string text_of(const Box& box) {
  std::vector<std::string> dims;
  for (std::size_t dim = 0; dim < box.from.size(); ++dim) {
    dims.push_back(fmt::format("{}:{}", box.from[dim], box.from[dim] + box.shape[dim]));
  }
  return fmt::format("[{}]", text_of_list(dims, ", "));
}

Box common_part(const Box& a, const Box& b) {
  Box common = a;
  for (std::size_t dim = 0; dim < a.from.size(); ++dim) {
    const std::int64_t end = std::min(a.from[dim] + a.shape[dim], b.from[dim] + b.shape[dim]);
    common.from[dim] = std::max(a.from[dim], b.from[dim]);
    common.shape[dim] = std::max<std::int64_t>(end - common.from[dim], 0);
  }
  return common;
}

void StridedBytes::check() const {
  const std::int64_t count = product(shape);
  std::int64_t last = offset;
  bool fits = offset >= 0 && shape.size() == stride.size();
  for (std::size_t dim = 0; fits && dim < shape.size(); ++dim) {
    std::int64_t reach = 0;
    fits =
        shape[dim] >= 0 && stride[dim] >= 0 &&
        !__builtin_mul_overflow(std::max<std::int64_t>(shape[dim], 1) - 1, stride[dim], &reach) &&
        !__builtin_add_overflow(last, reach, &last);
  }
  constexpr std::int64_t kRepeated = 16 << 20;
  const auto size = static_cast<std::int64_t>(bytes.size());
  // A stride of 0, as that of an expanded tensor, may make much of little.
  const bool small = count <= std::max(size, kRepeated) / item;
  if (fits && (count == 0 || (last < size / item && small))) return;
  bytes.refuse("elements are outside of their bytes: it is cut short or damaged");
}

void StridedBytes::read(const Box& part, char* out, const Dims& out_stride) const {
  if (product(part.shape) == 0) return;
  std::int64_t at = offset;
  for (std::size_t dim = 0; dim < shape.size(); ++dim) at += part.from[dim] * stride[dim];
  std::vector<char> block;
  read_part(*this, {part.shape, stride, out_stride}, at, out, block);
}

}  // namespace shardlab
