// Terms are multiples of 1/64, as the values are, so that sums of a few are exact in f32.
#include "sim/proof/terms.h"

#include <random>

#include "base/rank_context.h"
#include "tensor/host.h"

namespace shardlab {

namespace {

// The terms of one element, by rank.
class Terms {
 public:
  Terms(Fill fill, ReduceOp op, std::int64_t count, std::uint64_t seed)
      : fill_(fill), op_(op), random_(seed), terms_(static_cast<std::size_t>(count)) {}

  const std::vector<double>& of(double value) {
    const bool extremes = op_ == ReduceOp::kMax || op_ == ReduceOp::kMin;
    return extremes ? around(value) : adding_up(value);
  }

 private:
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
  Terms terms(fill, op, count, seed);
  const auto own = static_cast<std::size_t>(index);
  const Tensor term = empty(*current_rank().device, whole.shape(), whole.dtype());
  if (is_integral(whole.dtype())) {
    std::vector<std::int64_t> values = read_integers(whole);
    for (std::int64_t& value : values) {
      value = static_cast<std::int64_t>(terms.of(static_cast<double>(value))[own]);
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
