// One pass over the elements, stretch by stretch of what is contiguous in the whole.
#include "sim/verify/near_pieces.h"

#include <algorithm>
#include <cmath>

#include "mesh/local_shape.h"
#include "sim/verify/extent.h"
#include "sim/verify/global_value.h"
#include "sim/verify/rounding.h"
#include "sim/verify/step_compare.h"
#include "tensor/host.h"

namespace shardlab {

namespace {

bool is_in_order(const Tensor& x) {
  return x.dtype() == DType::kF32 && x.contiguous() && x.numel() > 0 && on_host(x);
}

const float* floats_of(const Tensor& x) { return reinterpret_cast<const float*>(first_byte(x)); }

}  // namespace

std::optional<Comparison> compare_pieces(const DTensorSpec& spec,
                                         const std::vector<DTensor>& pieces, const Tensor& single) {
  if (spec.has_partial() || !is_in_order(single) || single.shape() != spec.shape()) {
    return std::nullopt;
  }
  const float* expected = floats_of(single);
  const MeshLayout& layout = *spec.layout();
  double size = 0, apart = -1;
  std::size_t worst = 0;  // the first element that is as far off
  float got = 0;
  for (std::int64_t index = 0; index < layout.size(); ++index) {
    const Coordinate coordinate = layout.coordinate_at_index(index);
    const Tensor& piece = pieces[static_cast<std::size_t>(index)].local();
    if (piece.shape() != local_shape(spec, coordinate)) return std::nullopt;
    if (piece.numel() == 0) continue;
    if (!is_in_order(piece)) return std::nullopt;
    const Coordinate first = representative(spec, coordinate);
    if (first != coordinate) {
      const Tensor& other = pieces[static_cast<std::size_t>(layout.index_of(first))].local();
      if (!same_bits(piece, other)) return std::nullopt;
      continue;
    }
    const float* own = floats_of(piece);
    bool finite = true;
    const auto look = [&](std::size_t local, std::size_t global, std::size_t count) {
      const Extent found = extent_of(own + local, expected + global, count);
      finite = finite && found.finite;
      size = std::max(size, found.size);
      if (!finite || found.distance < apart || (found.distance == apart && global > worst)) return;
      std::size_t at = 0;
      const auto off = [&](std::size_t i) {
        return std::fabs(static_cast<double>(own[local + i]) - expected[global + i]);
      };
      while (off(at) != found.distance) ++at;
      if (found.distance == apart && global + at >= worst) return;
      apart = found.distance;
      worst = global + at;
      got = own[local + at];
    };
    for_each_stretch(local_view(spec, coordinate), look);
    if (!finite) return std::nullopt;
  }
  const double roundoff = unit_roundoff(DType::kF32);
  if (apart < 0 || apart > rounding::kRoundings * roundoff * size) return std::nullopt;
  Comparison result;
  result.agreement = Agreement::kEnvelope;
  result.error = apart;
  result.allowed = rounding::kRoundings * roundoff * size;
  result.worst_index = static_cast<std::int64_t>(worst);
  result.got = got;
  result.expected = expected[worst];
  if (size > 0) result.roundings = apart / (roundoff * size);
  return result;
}

}  // namespace shardlab
