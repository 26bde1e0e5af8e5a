// Conversions of several elements at a time. By hand, because compilers do not vectorise the
// processor's conversion of f16, and need many instructions for that of bf16.
#include "kernels/half_runs.h"

#include "kernels/vectors.h"

namespace shardlab {

namespace {

constexpr std::int64_t kWidth = kWidthOf<float>;

template <typename Source>
void widen(float* to, const Source* from, std::int64_t count) {
  std::int64_t i = 0;
  for (; i + kWidth <= count; i += kWidth) {
    VectorOf<float> numbers;
    load_vector<float>(numbers, from + i);
    store_vector<float>(to + i, numbers);
  }
  for (; i < count; ++i) to[i] = widened<float>(from[i]);
}

template <typename Target>
void narrow(Target* to, const float* from, std::int64_t count) {
  std::int64_t i = 0;
  for (; i + 2 * kWidth <= count; i += 2 * kWidth) {
    VectorOf<float> first, second;
    load_vector<float>(first, from + i);
    load_vector<float>(second, from + i + kWidth);
    store_vectors<float>(to + i, first, second);
  }
  for (; i < count; ++i) to[i] = narrowed<Target>(from[i]);
}

}  // namespace

void convert_half(float* to, const Half* from, std::int64_t count) { widen(to, from, count); }
void convert_half(float* to, const BFloat16* from, std::int64_t count) { widen(to, from, count); }
void convert_half(Half* to, const float* from, std::int64_t count) { narrow(to, from, count); }
void convert_half(BFloat16* to, const float* from, std::int64_t count) { narrow(to, from, count); }

}  // namespace shardlab
