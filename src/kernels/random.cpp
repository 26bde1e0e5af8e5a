// Random numbers by element: element i of the global tensor draws from counter
// random.offset + i with key random.seed, so that every placement gives the single-device values
// bit for bit. i is the row-major index in the global shape that `view` gives, or in the output.
//   rand     f64: 53 bits of words 0 and 1; f32, f16, bf16: 24, 11, 8 bits of word 0
//   randn    Box-Muller: f64 from all four words; f32, f16, bf16 in f32 from words 0 and 2
//   randint  low + words 0 and 1 as a 64-bit number modulo (high - low)
//   bernoulli and dropout   the f64 uniform number < probability of 1
#include <algorithm>

#include "base/fix.h"
#include "kernels/draw_elements.h"
#include "kernels/kernel_args.h"
#include "kernels/kernel_table.h"
#include "kernels/philox.h"
#include "kernels/positions.h"
#include "kernels/scratch.h"
#include "kernels/vector_math.h"

namespace shardlab {

namespace {

int uniform_digits(DType dtype) {
  return dtype == DType::kF16 ? 11 : dtype == DType::kBF16 ? 8 : 24;
}

struct Interval {
  double low;
  double high;
};

void draw_uniform(const KernelCall& call, const Interval& interval) {
  const Tensor& out = call.outputs[0];
  const double width = interval.high - interval.low;
  if (out.dtype() == DType::kF64) {
    return draw_elements<double>(call, out, [&](const PhiloxWords& words, std::int64_t) {
      return interval.low + width * uniform_double(words);
    });
  }
  const int digits = uniform_digits(out.dtype());
  const auto low = static_cast<float>(interval.low), scale = static_cast<float>(width);
  draw_elements<float>(call, out, [&](const PhiloxWords& words, std::int64_t) {
    return low + scale * uniform_float(words, digits);
  });
}

struct NormalLaw {
  double mean;
  double deviation;
};

// cos of each lane, an angle in [0, 2 pi]: less so many quarters of a turn, which are taken in
// parts so that no digits are lost, by a polynomial. Draws keep these bits.
EIGEN_ALWAYS_INLINE PacketOf<float> packet_cosine(const PacketOf<float>& x) {
  using namespace Eigen::internal;
  using Packet = PacketOf<float>;
  using Bits = BitsOf<float>;
#ifdef EIGEN_HAS_SINGLE_INSTRUCTION_MADD
  constexpr float kQuarter[] = {1.57079601287841796875f,
                                3.1391647326017846353352069854736328125e-07f,
                                5.390302529957764765544681040410068817436695098876953125e-15f};
#else
  constexpr float kQuarter[] = {1.5703125f, 0.000483989715576171875f,
                                -1.62865035235881805419921875e-07f,
                                -5.5644315544157710640977020375430583953857421875e-11f};
#endif
  static constexpr float kSine[] = {-0.0001959234114083702898469196984621021329076029360294342f,
                                    0.00833268736556168516937947998712843400426209f,
                                    -0.16666662039822982555037356178218033164739609f};
  static constexpr float kCosine[] = {2.4372266125283204019069671630859375e-05f,
                                      -0.00138865201734006404876708984375f,
                                      0.041666619479656219482421875f, -0.5f, 1.0f};
  const Packet shift = pset1<Packet>(kWholeShift<float>);
  const Packet shifted = pmadd(x, pset1<Packet>(0.63661977236758134308f), shift);
  const Packet quarters = psub(shifted, shift);
  Packet rest = x;
  for (const float part : kQuarter) rest = pmadd(quarters, pset1<Packet>(-part), rest);
  const Packet z = pmul(rest, rest), cosine = polynomial<float>(z, kCosine);
  const Packet sine = pmadd(pmul(polynomial<float>(z, kSine), z), rest, rest);
  // The last bits of a shifted number are those of a whole number.
  const Bits quarter = std::bit_cast<Bits>(shifted) + 1;
  const Packet is_odd = std::bit_cast<Packet>(Bits{} - (quarter & 1));
  return pxor(pselect(is_odd, cosine, sine), std::bit_cast<Packet>((quarter >> 1) << 31));
}

// turns -> radii[i] := standard normal number i, through packets that do not depend on the
// position.
template <typename T>
void box_muller(T* radii, T* turns, std::int64_t count) {
  map_function<element::Log, T>(radii, radii, count);
  for (std::int64_t i = 0; i < count; ++i) turns[i] *= T(6.283185307179586477);
  if constexpr (std::is_same_v<T, float>) {
    map_packets(turns, turns, count, [](const PacketOf<float>& x) { return packet_cosine(x); });
  } else {
    for (std::int64_t i = 0; i < count; ++i) turns[i] = std::cos(turns[i]);
  }
  for (std::int64_t i = 0; i < count; ++i) radii[i] = std::sqrt(T(-2) * radii[i]) * turns[i];
}

template <typename T, typename Source>
void draw_normal_as(const KernelCall& call, const NormalLaw& law, Source source) {
  const Tensor& out = call.outputs[0];
  const std::int64_t count = out.numel();
  const auto radii = scratch<T>(count), turns = scratch<T>(count);
  for_each_run(out, call.view, [&](std::int64_t local, std::int64_t global, std::int64_t size) {
    const std::uint64_t first = call.random.offset + static_cast<std::uint64_t>(global);
    for (std::int64_t i = 0; i < size; ++i) {
      const auto [radius, turn] =
          source(element_words(call.random.seed, first + static_cast<std::uint64_t>(i)));
      radii[local + i] = radius;
      turns[local + i] = turn;
    }
  });
  box_muller(radii.get(), turns.get(), count);
  const T mean = static_cast<T>(law.mean), deviation = static_cast<T>(law.deviation);
  for (std::int64_t i = 0; i < count; ++i) radii[i] = mean + deviation * radii[i];
  store_row_major(out, radii.get(), dtype_of<T>());
}

void draw_normal(const KernelCall& call, const NormalLaw& law) {
  if (call.outputs[0].dtype() == DType::kF64) {
    return draw_normal_as<double>(call, law, normal_source_double);
  }
  draw_normal_as<float>(call, law, normal_source_float);
}

void draw_integers(const KernelCall& call, std::int64_t low, std::int64_t high) {
  if (high <= low) {
    fail(ErrorKind::kValue, Fix{"randint(0, 10, [4]) draws from 0 to 9"},
         "randint: low is {} and high is {}; low must be less than high", low, high);
  }
  const std::uint64_t range = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
  draw_elements<std::int64_t>(call, call.outputs[0], [&](const PhiloxWords& words, std::int64_t) {
    return sum_of(low, wrapped(word_pair(words, 0) % range));
  });
}

void rand_kernel(const KernelCall& call) { draw_uniform(call, {0, 1}); }
void randn_kernel(const KernelCall& call) { draw_normal(call, {0, 1}); }

void uniform_kernel(const KernelCall& call) {
  const double low = scalar_arg(call, 1).to_double(), high = scalar_arg(call, 2).to_double();
  if (!(low <= high)) {
    fail(ErrorKind::kValue, Fix{"give the lower bound first"},
         "uniform: from is {} and to is {}; from must not be above to", low, high);
  }
  draw_uniform(call, {low, high});
}

// The number arguments are in front, behind self where there is one.
std::size_t first_number(const KernelCall& call) {
  return optional_scalar_arg(call, 0) != nullptr ? 0 : 1;
}

void normal_kernel(const KernelCall& call) {
  const std::size_t first = first_number(call);
  const double deviation = scalar_arg(call, first + 1).to_double();
  if (!(deviation >= 0)) refuse_law("normal", "std", deviation, "at least 0");
  draw_normal(call, {scalar_arg(call, first).to_double(), deviation});
}

void randint_kernel(const KernelCall& call) {
  draw_integers(call, 0, int_arg(call, first_number(call)));
}

void randint_low_kernel(const KernelCall& call) {
  const std::size_t first = first_number(call);
  draw_integers(call, int_arg(call, first), int_arg(call, first + 1));
}

void require_chance(double p) {
  if (!(p >= 0 && p <= 1)) refuse_law("bernoulli", "p", p, "from 0 to 1");
}

void bernoulli_kernel(const KernelCall& call) {
  const RowMajor<double> probability(tensor_arg(call, 0));
  for (std::int64_t i = 0; i < call.outputs[0].numel(); ++i) {
    require_chance(probability.data()[i]);
  }
  draw_elements<bool>(call, call.outputs[0], [&](const PhiloxWords& words, std::int64_t i) {
    return uniform_double(words) < probability.data()[i];
  });
}

void bernoulli_p_kernel(const KernelCall& call) {
  const double probability = scalar_arg(call, 1).to_double();
  require_chance(probability);
  draw_elements<bool>(call, call.outputs[0], [&](const PhiloxWords& words, std::int64_t) {
    return uniform_double(words) < probability;
  });
}

// native_dropout(input, p, train): values scaled by 1 / (1 - p), and the mask of kept elements.
void native_dropout_kernel(const KernelCall& call) {
  const Tensor &values = call.outputs[0], &mask = call.outputs[1];
  const Scalar* train = optional_scalar_arg(call, 2);
  if (train != nullptr && !train->to_bool()) {
    convert_tensor(values, tensor_arg(call, 0));
    return fill_tensor(mask, Scalar(true));
  }
  const double keep = 1 - scalar_arg(call, 1).to_double();
  const RowMajor<double> input(tensor_arg(call, 0));
  const auto kept = scratch<double>(values.numel());
  draw_elements<bool>(call, mask, [&](const PhiloxWords& words, std::int64_t i) {
    const bool keeps = uniform_double(words) < keep;
    kept[i] = keeps ? input.data()[i] / keep : 0.0;
    return keeps;
  });
  store_row_major(values, kept.get(), DType::kF64);
}

}  // namespace

void add_random_kernels(KernelTable& table) {
  table.set(KernelId::kRand, rand_kernel);
  table.set(KernelId::kRandn, randn_kernel);
  table.set(KernelId::kRandint, randint_kernel);
  table.set(KernelId::kRandintLow, randint_low_kernel);
  table.set(KernelId::kUniform, uniform_kernel);
  table.set(KernelId::kNormal, normal_kernel);
  table.set(KernelId::kBernoulli, bernoulli_kernel);
  table.set(KernelId::kBernoulliP, bernoulli_p_kernel);
  table.set(KernelId::kNativeDropout, native_dropout_kernel);
}

}  // namespace shardlab
