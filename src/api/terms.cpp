// Each element has one owner among the n ranks of a partial mesh dim, chosen by its global index;
// the terms of the others differ from rank to rank, and the reduction still gives the value back
// (avg: up to one rounding). A program that forgets a pending reduction therefore shows a wrong
// value.
#include "api/terms.h"

#include "base/error.h"
#include "mesh/local_shape.h"
#include "mesh/type_string.h"
#include "tensor/host.h"

namespace shardlab {

namespace {

// The global row-major index of every element of this rank's piece, in local row-major order.
std::vector<std::int64_t> global_indices(const LocalView& view) {
  std::vector<std::int64_t> indices = {0};
  for (std::size_t dim = 0; dim < view.dims.size(); ++dim) {
    std::vector<std::int64_t> next;
    next.reserve(indices.size() * static_cast<std::size_t>(view.dims[dim].local_size()));
    for (const std::int64_t outer : indices) {
      for (const IndexRun& run : view.dims[dim].runs) {
        for (std::int64_t k = 0; k < run.size; ++k) {
          next.push_back(outer * view.global_shape[dim] + run.offset + k);
        }
      }
    }
    indices = std::move(next);
  }
  return indices;
}

// This rank's terms, of the n that one partial mesh dim has.
struct Terms {
  Placement placement;
  std::int64_t n;
  std::int64_t coordinate;

  bool owns(std::int64_t index) const { return (index + 1) % n == coordinate; }
  // Integers k with sum 0 over the ranks: rank r of n holds r - (n - 1 - r).
  std::int64_t zero_sum_term() const { return 2 * coordinate - (n - 1); }

  // `one` is the empty product: 1, or 0 for the imaginary part of a complex number.
  double of_float(double value, std::int64_t index, double one) const {
    const bool owner = owns(index);
    if (placement.kind == PlacementKind::kNormPartial) return owner ? value : 0;
    switch (placement.op) {
      case ReduceOp::kSum:
        return owner ? value : 0;
      case ReduceOp::kAvg:
        return owner ? value * static_cast<double>(n) : 0;
      case ReduceOp::kMax:
        return owner ? value : value - static_cast<double>(1 + coordinate);
      case ReduceOp::kMin:
        return owner ? value : value + static_cast<double>(1 + coordinate);
      case ReduceOp::kProduct:
        return owner ? value : one;
      default:
        break;
    }
    fail(Fix{"use sum, avg, max, min or product"},
         "{} of a floating tensor does not exist; it must be of integers", to_string(placement));
  }

  std::int64_t of_integer(std::int64_t value, std::int64_t index) const {
    const bool owner = owns(index);
    switch (placement.op) {
      case ReduceOp::kSum:
        return (owner ? value : 0) + zero_sum_term();
      case ReduceOp::kMax:
        return owner ? value : value - (1 + coordinate);
      case ReduceOp::kMin:
        return owner ? value : value + (1 + coordinate);
      case ReduceOp::kProduct:
        return owner ? value : 1;
      case ReduceOp::kBitAnd:
        return owner ? value : -1;
      case ReduceOp::kBitOr:
        return owner ? value : value & (1 + coordinate);
      case ReduceOp::kBitXor:
        return owner ? value : 0;
      case ReduceOp::kAvg:
        break;
    }
    fail(Fix{"use sum, max, min or product, or make the tensor of floats"},
         "{} of a tensor of integers does not exist; it must be of floats", to_string(placement));
  }

  std::int64_t of_bool(std::int64_t value, std::int64_t index) const {
    if (owns(index)) return value;
    switch (placement.op) {
      case ReduceOp::kMax:
      case ReduceOp::kSum:
      case ReduceOp::kBitOr:
      case ReduceOp::kBitXor:
        return 0;
      case ReduceOp::kMin:
      case ReduceOp::kProduct:
      case ReduceOp::kBitAnd:
        return 1;
      case ReduceOp::kAvg:
        break;
    }
    fail(Fix{"use sum, max, min or product, or make the tensor of floats"},
         "{} of a tensor of bools does not exist; it must be of floats", to_string(placement));
  }
};

void deal_out(const Tensor& piece, const Terms& terms, const std::vector<std::int64_t>& indices) {
  if (is_integral(piece.dtype())) {
    std::vector<std::int64_t> values = read_integers(piece);
    const bool truth = piece.dtype() == DType::kBool;
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] =
          truth ? terms.of_bool(values[i], indices[i]) : terms.of_integer(values[i], indices[i]);
    }
    write_integers(piece, values);
    return;
  }
  std::vector<double> values = read_doubles(piece);
  const std::size_t per_element = is_complex(piece.dtype()) ? 2 : 1;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double one = i % per_element == 0 ? 1 : 0;
    values[i] = terms.of_float(values[i], indices[i / per_element], one);
  }
  write_doubles(piece, values);
}

}  // namespace

Tensor own_terms(const Tensor& piece, const DTensorSpec& spec, const Coordinate& coordinate) {
  Tensor result = clone_contiguous(piece);
  if (result.device()->shape_only()) return result;
  const std::vector<std::int64_t> indices = global_indices(local_view(spec, coordinate));
  for (std::size_t mesh_dim = 0; mesh_dim < spec.placements().size(); ++mesh_dim) {
    const Placement& placement = spec.placement(mesh_dim);
    const std::int64_t n = spec.layout()->size(mesh_dim);
    if (!placement.is_partial() || n == 1) continue;
    if (placement.kind == PlacementKind::kMaskPartial) {
      fail(Fix{"give the input as R, and look it up in a table that is sharded by rows"},
           "{} cannot be an input, because only a lookup makes its mask", type_string(spec));
    }
    deal_out(result, {placement, n, coordinate[mesh_dim]}, indices);
  }
  return result;
}

}  // namespace shardlab
