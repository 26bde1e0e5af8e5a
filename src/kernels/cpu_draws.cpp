// Values by position on the CPU. Random numbers are by element: element i of the global
// tensor draws from counter random.offset + i with key random.seed, so that every placement gives
// the single-device values bit for bit.
#include <bit>
#include <cmath>
#include <optional>

#include "kernels/cpu_loops.h"
#include "kernels/positions.h"
#include "kernels/scratch.h"
#include "kernels/vector_math.h"

namespace shardlab {

namespace {

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
  map_function<element::Log>(radii, count, radii);
  for (std::int64_t i = 0; i < count; ++i) turns[i] *= T(6.283185307179586477);
  if constexpr (std::is_same_v<T, float>) {
    map_packets(
        turns, count,
        [](const PacketOf<float>& x) __attribute__((always_inline)) { return packet_cosine(x); },
        turns);
  } else {
    for (std::int64_t i = 0; i < count; ++i) turns[i] = std::cos(turns[i]);
  }
  for (std::int64_t i = 0; i < count; ++i) radii[i] = std::sqrt(T(-2) * radii[i]) * turns[i];
}

template <typename T, typename Source>
void draw_normal_as(const Draw& draw, Source source) {
  const std::int64_t count = draw.out.numel();
  const auto radii = scratch<T>(count), turns = scratch<T>(count);
  for_each_run(
      draw.out, draw.view, [&](std::int64_t local, std::int64_t global, std::int64_t size) {
        const std::uint64_t first = draw.random.offset + static_cast<std::uint64_t>(global);
        for (std::int64_t i = 0; i < size; ++i) {
          const auto [radius, turn] =
              source(element_words(draw.random.seed, first + static_cast<std::uint64_t>(i)));
          radii[local + i] = radius;
          turns[local + i] = turn;
        }
      });
  box_muller(radii.get(), turns.get(), count);
  const T mean = static_cast<T>(draw.law.a), deviation = static_cast<T>(draw.law.b);
  for (std::int64_t i = 0; i < count; ++i) radii[i] = mean + deviation * radii[i];
  store_row_major(draw.out, radii.get(), dtype_of<T>());
}

template <typename T>
void draw_as(const Draw& draw) {
  const RowMajorOutput<T> result(draw.out);
  std::optional<RowMajor<double>> chances;
  if (draw.chances.defined()) chances.emplace(draw.chances);
  for_each_run(
      draw.out, draw.view, [&](std::int64_t local, std::int64_t global, std::int64_t count) {
        for (std::int64_t i = 0; i < count; ++i) {
          const std::int64_t place = global + i;
          const PhiloxWords words = element_words(
              draw.random.seed, draw.random.offset + static_cast<std::uint64_t>(place));
          result.data()[local + i] = drawn<T>(draw.law, place, words, draw.out.dtype(),
                                              chances ? chances->data()[local + i] : draw.law.a);
        }
      });
  result.store();
}

}  // namespace

void CpuLoops::draw(const Draw& draw) {
  const bool normal = draw.law.kind == DrawLaw::Kind::kNormal;
  switch (draw.law.made_in(draw.out.dtype())) {
    case DType::kI64:
      return draw_as<std::int64_t>(draw);
    case DType::kF32:
      return normal ? draw_normal_as<float>(draw, normal_source_float) : draw_as<float>(draw);
    default:
      return normal ? draw_normal_as<double>(draw, normal_source_double) : draw_as<double>(draw);
  }
}

}  // namespace shardlab
