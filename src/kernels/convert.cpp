// One conversion for every pair of dtypes, which rounds each element once. There are loops for
// pairs of types of the language; f16, bf16 and f8 have one from and one to f32, and use blocks of
// f32 to all others; the parts of complex numbers are runs of reals with twice the stride. A run
// whose source repeats one element (stride 0) converts it once and copies the result.
#include "kernels/convert.h"

#include <algorithm>
#include <complex>
#include <cstring>
#include <memory>

#include "base/error.h"
#include "kernels/element_types.h"
#include "kernels/functors.h"
#include "kernels/strided_loop.h"
#include "tensor/strided_copy.h"

namespace shardlab {

namespace {

void with_storage_type(DType dtype, const auto& visit) {
  if (visit_elements(dtype, visit)) return;
  fail(ErrorKind::kUnsupported, Fix{"use complex64 instead: x.to(torch.complex64)"},
       "no kernel reads or writes {}", to_string(dtype));
}

template <typename T>
T widen(T value) {
  return value;
}
inline float widen(Half value) { return half_to_float(value); }
inline float widen(BFloat16 value) { return to_float(value); }
inline float widen(Float8E4M3 value) { return to_float(value); }

template <typename To, typename From>
To narrow_to(From value) {
  if constexpr (std::is_same_v<To, bool>) {
    return value != From(0);
  } else if constexpr (kIsComplex<To>) {
    using Real = typename To::value_type;
    return To(static_cast<Real>(value.real()), static_cast<Real>(value.imag()));
  } else if constexpr (std::is_same_v<To, Half>) {
    return float_to_half(value);
  } else if constexpr (std::is_same_v<To, BFloat16>) {
    return to_bfloat16(value);
  } else if constexpr (std::is_same_v<To, Float8E4M3>) {
    return to_float8(value);
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    return truncated<To>(value);
  } else {
    return static_cast<To>(value);
  }
}

template <typename To, typename From>
void convert_side_by_side(To* to, const From* from, std::int64_t count) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) to[i] = narrow_to<To>(widen(from[i]));
}
// Eight at a time: of the sixteen that compilers take, loads wait for stores in some places of
// memory, which takes twice as long.
inline void convert_side_by_side(float* to, const BFloat16* from, std::int64_t count) {
  typedef std::uint16_t Halves __attribute__((vector_size(16)));
  typedef std::uint32_t Words __attribute__((vector_size(32)));
  std::int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    Halves halves;
    std::memcpy(&halves, from + i, sizeof(halves));
    const Words words = __builtin_convertvector(halves, Words) << 16;
    std::memcpy(to + i, &words, sizeof(words));
  }
  for (; i < count; ++i) to[i] = to_float(from[i]);
}

template <typename To, typename From>
void convert_typed(const MutableElementRun& to, const ElementRun& from, std::int64_t count) {
  auto* target = static_cast<To*>(to.data);
  const auto* source = static_cast<const From*>(from.data);
  if (to.stride == 1 && from.stride == 1) {
    convert_side_by_side(target, source, count);
  } else {
    for (std::int64_t i = 0; i < count; ++i) {
      target[i * to.stride] = narrow_to<To>(widen(source[i * from.stride]));
    }
  }
}

// f16, bf16 and f8: kept as bits.
template <typename T>
constexpr bool kIsBits = !std::is_arithmetic_v<T> && !kIsComplex<T>;

// The pairs that have a loop of their own.
template <typename To, typename From>
constexpr bool kDirect = (std::is_arithmetic_v<To> && std::is_arithmetic_v<From>) ||
                         (kIsBits<To> && std::is_same_v<From, float>) ||
                         (kIsBits<From> && std::is_same_v<To, float>) ||
                         (kIsComplex<From> && (kIsComplex<To> || std::is_same_v<To, bool>));

bool has_parts(DType dtype) { return dtype == DType::kC64 || dtype == DType::kC128; }

void convert_by_f32(const MutableElementRun& to, const ElementRun& from, std::int64_t count) {
  constexpr std::int64_t kBlock = 512;
  float block[kBlock];
  auto* target = static_cast<std::byte*>(to.data);
  const auto* source = static_cast<const std::byte*>(from.data);
  for (std::int64_t done = 0; done < count; done += kBlock) {
    const std::int64_t size = std::min(kBlock, count - done);
    convert_run({block, 1, DType::kF32},
                {source + done * from.stride * item_bytes(from.dtype), from.stride, from.dtype},
                size);
    convert_run({target + done * to.stride * item_bytes(to.dtype), to.stride, to.dtype},
                {block, 1, DType::kF32}, size);
  }
}

// `count` times the element at `from`, which has the target's dtype.
void repeat(const MutableElementRun& to, const void* from, std::int64_t count) {
  const std::int64_t none = 0;
  strided_copy({to.data, {&to.stride, 1}}, {from, {&none, 1}}, {&count, 1}, item_bytes(to.dtype));
}

// The real parts, and zeros behind them.
void convert_to_complex(const MutableElementRun& to, const ElementRun& from, std::int64_t count) {
  const DType part = real_dtype(to.dtype);
  const double zero = 0;
  convert_run({to.data, 2 * to.stride, part}, from, count);
  repeat({static_cast<std::byte*>(to.data) + item_bytes(part), 2 * to.stride, part}, &zero, count);
}

void convert_constant(const MutableElementRun& to, const ElementRun& from, std::int64_t count) {
  alignas(16) std::byte element[16];
  convert_run({element, 1, to.dtype}, {from.data, 1, from.dtype}, 1);
  repeat(to, element, count);
}

}  // namespace

void convert_run(const MutableElementRun& to, const ElementRun& from, std::int64_t count) {
  if (count <= 0) return;
  if (to.dtype == from.dtype && to.stride == 1 && from.stride == 1) {
    std::memcpy(to.data, from.data, static_cast<std::size_t>(count * item_bytes(to.dtype)));
    return;
  }
  if (from.stride == 0 && count > 1) return convert_constant(to, from, count);
  if (has_parts(to.dtype) && !is_complex(from.dtype)) return convert_to_complex(to, from, count);
  if (has_parts(from.dtype) && !is_complex(to.dtype) && to.dtype != DType::kBool) {
    return convert_run(to, {from.data, 2 * from.stride, real_dtype(from.dtype)}, count);
  }
  with_storage_type(to.dtype, [&](auto to_example) {
    with_storage_type(from.dtype, [&](auto from_example) {
      using To = decltype(to_example);
      using From = decltype(from_example);
      if constexpr (kDirect<To, From>) {
        convert_typed<To, From>(to, from, count);
      } else {
        convert_by_f32(to, from, count);
      }
    });
  });
}

void store_scalar(void* to, DType dtype, const Scalar& number) {
  const MutableElementRun target{to, 1, dtype};
  switch (number.category()) {
    case Category::kBool:
    case Category::kInteger: {
      const std::int64_t value = number.to_int();
      return convert_run(target, {&value, 1, DType::kI64}, 1);
    }
    case Category::kFloat: {
      const double value = number.to_double();
      return convert_run(target, {&value, 1, DType::kF64}, 1);
    }
    case Category::kComplex: {
      const std::complex<double> value(number.to_double(), number.imaginary());
      return convert_run(target, {&value, 1, DType::kC128}, 1);
    }
  }
}

namespace {

struct StridedElements {
  std::byte* data;
  DType dtype;
  Dims stride;
};

void convert_strided(const StridedElements& to, const StridedElements& from,
                     std::span<const std::int64_t> shape) {
  if (to.dtype == from.dtype) {
    return strided_copy({to.data, to.stride}, {from.data, from.stride}, shape,
                        item_bytes(to.dtype));
  }
  if (is_across(shape, from.stride) && !is_across(shape, to.stride)) {
    const Dims stride = contiguous_strides(shape);
    const std::int64_t bytes = item_bytes(from.dtype);
    const auto copy = std::make_unique_for_overwrite<std::byte[]>(
        static_cast<std::size_t>(product(shape) * bytes));
    strided_copy({copy.get(), stride}, {from.data, from.stride}, shape, bytes);
    return convert_strided(to, {copy.get(), from.dtype, stride}, shape);
  }
  StridedLoop loop(shape);
  loop.add(to.stride, item_bytes(to.dtype));
  loop.add(from.stride, item_bytes(from.dtype));
  loop.run([&](std::span<const std::int64_t> offset, std::span<const std::int64_t> stride,
               std::int64_t count) {
    convert_run({to.data + offset[0], stride[0], to.dtype},
                {from.data + offset[1], stride[1], from.dtype}, count);
  });
}

// For reading only.
std::byte* source_bytes(const Tensor& tensor) {
  return const_cast<std::byte*>(readable_bytes(tensor));
}

}  // namespace

void convert_tensor(const Tensor& out, const Tensor& source) {
  // The output first: writable() may replace the Buffer that both share.
  const StridedElements to{writable_bytes(out), out.dtype(), out.stride()};
  const StridedElements from{source_bytes(source), source.dtype(),
                             broadcast_strides(source, out.shape())};
  const bool same = to.data == from.data && to.dtype == from.dtype && to.stride == from.stride;
  if (!same) convert_strided(to, from, out.shape());
}

void load_row_major(void* to, DType dtype, const Tensor& source) {
  if (source.contiguous()) {
    return convert_run({to, 1, dtype}, {source_bytes(source), 1, source.dtype()}, source.numel());
  }
  convert_strided({static_cast<std::byte*>(to), dtype, contiguous_strides(source.shape())},
                  {source_bytes(source), source.dtype(), source.stride()}, source.shape());
}

void store_row_major(const Tensor& out, const void* from, DType dtype) {
  if (out.contiguous()) {
    return convert_run({writable_bytes(out), 1, out.dtype()}, {from, 1, dtype}, out.numel());
  }
  auto* source = const_cast<std::byte*>(static_cast<const std::byte*>(from));
  convert_strided({writable_bytes(out), out.dtype(), out.stride()},
                  {source, dtype, contiguous_strides(out.shape())}, out.shape());
}

void fill_tensor(const Tensor& out, const Scalar& number) {
  alignas(16) std::byte element[16];
  store_scalar(element, out.dtype(), number);
  const Dims zeros(out.shape().size(), 0);
  strided_copy({writable_bytes(out), out.stride()}, {element, zeros}, out.shape(),
               item_bytes(out.dtype()));
}

}  // namespace shardlab
