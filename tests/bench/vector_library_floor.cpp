// glibc's vector functions (libmvec) over the same arrays, in AVX-512 where the processor has it:
// the speed of a library made for such functions alone, where arithmetic and not memory decides.
#include <benchmark/benchmark.h>

#include <vector>

#include "tests/bench/kernel_floors.h"

#if defined(__x86_64__) && defined(__GLIBC__) && defined(__AVX2__)
#include <immintrin.h>

// An argument of 512 bits has another ABI in functions that are compiled without AVX-512.
#pragma GCC diagnostic ignored "-Wpsabi"

extern "C" {
__m256 _ZGVdN8vv_powf(__m256, __m256);
__m256d _ZGVdN4v_erf(__m256d);
__attribute__((target("avx512f"))) __m512 _ZGVeN16vv_powf(__m512, __m512);
__attribute__((target("avx512f"))) __m512d _ZGVeN8v_erf(__m512d);
}

namespace shardlab {

namespace {

struct Arrays {
  const std::byte* inputs[2];
  std::byte* output;
  std::int64_t count;

  template <typename T>
  const T* input(std::size_t index) const {
    return reinterpret_cast<const T*>(inputs[index]);
  }
  template <typename T>
  T* out() const {
    return reinterpret_cast<T*>(output);
  }
};

void pow_in_256_bits(const Arrays& a) {
  for (std::int64_t i = 0; i + 8 <= a.count; i += 8) {
    const __m256 base = _mm256_loadu_ps(a.input<float>(0) + i);
    _mm256_storeu_ps(a.out<float>() + i,
                     _ZGVdN8vv_powf(base, _mm256_loadu_ps(a.input<float>(1) + i)));
  }
}

void erf_in_256_bits(const Arrays& a) {
  for (std::int64_t i = 0; i + 4 <= a.count; i += 4) {
    _mm256_storeu_pd(a.out<double>() + i, _ZGVdN4v_erf(_mm256_loadu_pd(a.input<double>(0) + i)));
  }
}

__attribute__((target("avx512f"))) void pow_in_512_bits(const Arrays& a) {
  for (std::int64_t i = 0; i + 16 <= a.count; i += 16) {
    const __m512 base = _mm512_loadu_ps(a.input<float>(0) + i);
    _mm512_storeu_ps(a.out<float>() + i,
                     _ZGVeN16vv_powf(base, _mm512_loadu_ps(a.input<float>(1) + i)));
  }
}

__attribute__((target("avx512f"))) void erf_in_512_bits(const Arrays& a) {
  for (std::int64_t i = 0; i + 8 <= a.count; i += 8) {
    _mm512_storeu_pd(a.out<double>() + i, _ZGVeN8v_erf(_mm512_loadu_pd(a.input<double>(0) + i)));
  }
}

}  // namespace

bool has_vector_library() { return true; }

TimedWork vector_library_floor(VectorFunction function, std::span<const Tensor> inputs,
                               const Tensor& output) {
  const bool wide = __builtin_cpu_supports("avx512f");
  const auto run = function == VectorFunction::kPow ? (wide ? pow_in_512_bits : pow_in_256_bits)
                                                    : (wide ? erf_in_512_bits : erf_in_256_bits);
  return [run, held = std::vector<Tensor>(inputs.begin(), inputs.end()), output] {
    Arrays arrays{{}, output.mutable_data<std::byte>(), output.numel()};
    for (std::size_t i = 0; i < held.size(); ++i) arrays.inputs[i] = held[i].data<std::byte>();
    run(arrays);
    benchmark::ClobberMemory();
  };
}

}  // namespace shardlab

#else

namespace shardlab {

bool has_vector_library() { return false; }

TimedWork vector_library_floor(VectorFunction, std::span<const Tensor>, const Tensor&) {
  return {};
}

}  // namespace shardlab

#endif
