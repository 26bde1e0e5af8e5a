// Each order is made and compared: there are few dims and few counts of ranks.
#include "sim/verify/labels/joined_along.h"

#include <set>

#include "sim/verify/compare.h"
#include "sim/verify/labels/label.h"

namespace shardlab {

namespace {

std::vector<double> rearranged(const GlobalValue& whole, const JoinedAlong& way) {
  const Dims& shape = whole.meta.shape;
  Dims joined = shape;
  joined[way.cut] /= way.pieces;
  joined[way.joined] *= way.pieces;
  std::vector<double> numbers;
  numbers.reserve(whole.reals.size());
  Dims index(shape.size());
  for (std::size_t at = 0; at < whole.reals.size(); ++at) {
    std::int64_t source = 0;
    const std::int64_t piece = index[way.joined] / shape[way.joined];
    for (std::size_t dim = 0; dim < shape.size(); ++dim) {
      std::int64_t place = index[dim];
      if (dim == way.joined) place %= shape[dim];
      if (dim == way.cut) place += piece * joined[dim];
      source = source * shape[dim] + place;
    }
    numbers.push_back(whole.reals[static_cast<std::size_t>(source)]);
    for (std::size_t dim = shape.size(); dim-- > 0;) {
      if (++index[dim] < joined[dim]) break;
      index[dim] = 0;
    }
  }
  return numbers;
}

}  // namespace

std::optional<JoinedAlong> joined_along(const GlobalValue& got, const GlobalValue& whole,
                                        const MeshLayout& layout, double relative) {
  const auto numel = static_cast<std::int64_t>(whole.reals.size());
  if (got.reals.size() != whole.reals.size() || numel != product(whole.meta.shape) ||
      numel > kMostLabelled) {
    return std::nullopt;
  }
  const double allowed = relative * largest_finite(whole.reals);
  if (all_close(got.reals, whole.reals, allowed)) return std::nullopt;
  std::set<std::int64_t> counts = {layout.size()};
  for (std::size_t dim = 0; dim < layout.ndim(); ++dim) counts.insert(layout.size(dim));
  for (const std::int64_t pieces : counts) {
    for (std::size_t cut = 0; cut < whole.meta.shape.size(); ++cut) {
      if (pieces < 2 || whole.meta.shape[cut] % pieces != 0) continue;
      for (std::size_t joined = 0; joined < whole.meta.shape.size(); ++joined) {
        const JoinedAlong way{pieces, cut, joined};
        if (joined != cut && all_close(got.reals, rearranged(whole, way), allowed)) return way;
      }
    }
  }
  return std::nullopt;
}

}  // namespace shardlab
