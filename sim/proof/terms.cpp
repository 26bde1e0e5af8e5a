// Terms are multiples of 1/64, as drawn values are, so that sums of a few are exact in f32. Given
// values have as many digits as their dtype: their terms are zeros and powers of two times the
// value, of which every partial sum is such a multiple, too.
#include "sim/proof/terms.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "base/rank_context.h"
#include "tensor/host.h"

namespace shardlab {

namespace {

// The terms of one element, by rank.
struct Terms {
  const std::vector<double>& of(double value) {
    if (fill_ == Fill::kGiven) return of_given(value);
    const bool extremes = op_ == ReduceOp::kMax || op_ == ReduceOp::kMin;
    return extremes ? around(value) : adding_up(value);
  }

  // -v and 2v, or v / 2 twice; the other terms are 0. For maxima and minima, and for numbers that
  // are not finite, one rank has the whole.
  const std::vector<double>& of_given(double value) {
    const std::size_t count = terms_.size();
    const std::size_t one = random_() % count, other = (one + 1 + random_() % (count - 1)) % count;
    const std::uint64_t kind = random_() % 3;
    if (op_ == ReduceOp::kMax || op_ == ReduceOp::kMin) {
      const double less = op_ == ReduceOp::kMax ? -1 : 1;
      for (double& term : terms_) term = value + less * static_cast<double>(below(3));
      terms_[one] = value;
      return terms_;
    }
    const bool mean = op_ == ReduceOp::kAvg;
    const double size = std::fabs(value);
    const bool tame = size == 0 || (size > 1e-30 && size < 1e30);
    std::ranges::fill(terms_, 0);
    const double whole = mean ? value * static_cast<double>(count) : value;
    if (!tame || kind == 0) {
      terms_[one] = whole;
    } else {
      terms_[one] = kind == 1 ? -whole : whole / 2;
      terms_[other] = kind == 1 ? 2 * whole : whole / 2;
    }
    return terms_;
  }

  double below(std::uint64_t end) { return static_cast<double>(random_() % end); }

  // One rank has the value, the others less, or as much.
  const std::vector<double>& around(double value) {
    const std::size_t holder = random_() % terms_.size();
    for (std::size_t rank = 0; rank < terms_.size(); ++rank) {
      const double part = rank == holder ? 0 : below(65) / 64;
      double room = 2;
      if (fill_ == Fill::kUnit) room = (op_ == ReduceOp::kMax ? value : 1 - value) / 2;
      terms_[rank] = op_ == ReduceOp::kMax ? value - part * room : value + part * room;
    }
    return terms_;
  }

  const std::vector<double>& adding_up(double value) {
    const bool mean = op_ == ReduceOp::kAvg;
    const double step = fill_ == Fill::kIndex || fill_ == Fill::kCount ? 1 : 1.0 / 64;
    double left = mean ? 0 : value;
    for (std::size_t rank = 0; rank + 1 < terms_.size(); ++rank) {
      terms_[rank] = (below(129) - 64) * step;
      left -= terms_[rank];
    }
    terms_.back() = left;
    if (mean) {
      for (double& term : terms_) term += value;
    }
    return terms_;
  }

  Fill fill_;
  ReduceOp op_;
  std::mt19937_64 random_;
  std::vector<double> terms_;
};

}  // namespace

Tensor term_of(const Tensor& whole, Fill fill, ReduceOp op, std::int64_t index, std::int64_t count,
               std::uint64_t seed) {
  const bool integers = is_integral(whole.dtype());
  Terms terms{fill == Fill::kGiven && integers ? Fill::kIndex : fill, op, std::mt19937_64(seed),
              std::vector<double>(static_cast<std::size_t>(count))};
  const auto own = static_cast<std::size_t>(index);
  const Tensor term = empty(*current_rank().device, whole.shape(), whole.dtype());
  if (integers) {
    std::vector<std::int64_t> values = read_integers(whole);
    for (std::int64_t& value : values) {
      // Numbers that no double holds: one rank has them, so that terms add up exactly.
      constexpr std::int64_t kExact = std::int64_t{1} << 52;
      const bool held = value > -kExact && value < kExact;
      if (held) {
        value = static_cast<std::int64_t>(terms.of(static_cast<double>(value))[own]);
      } else if (op == ReduceOp::kSum && own != 0) {
        value = 0;
      }
    }
    write_integers(term, values);
    return term;
  }
  std::vector<double> values = read_doubles(whole);
  for (double& value : values) value = terms.of(value)[own];
  write_doubles(term, values);
  return term;
}

}  // namespace shardlab
