// A whole value is dealt out without communication: every rank cuts its own piece from the runs of
// global indices that its LocalView lists, so that uneven, empty and strided shards are one case.
// Under a partial placement each element has one owner among the ranks, chosen by its global index;
// the terms of the others differ from rank to rank, and the reduction still gives the value back
// (avg: up to one rounding). A program that forgets a pending reduction is so seen to be wrong.
#include "api/distribute.h"

#include <fmt/ranges.h>

#include "base/fix.h"
#include "base/rank_context.h"
#include "comm/device_mesh.h"
#include "comm/observer.h"
#include "dispatch/factory.h"
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

// How a value is dealt out over the n ranks of one partial mesh dim. Each element has an owner
// rank; the parts differ between ranks and reduce to the value exactly (avg: up to one rounding).
struct Part {
  Placement placement;
  std::int64_t n;
  std::int64_t coordinate;

  bool owns(std::int64_t index) const { return (index + 1) % n == coordinate; }
  // Integers k with sum 0 over the ranks: rank r of n holds r - (n - 1 - r).
  std::int64_t zero_sum_term() const { return 2 * coordinate - (n - 1); }

  double of_float(double value, std::int64_t index) const {
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
        return owner ? value : 1;
      default:
        break;
    }
    fail(ErrorKind::kValue, Fix{"use sum, avg, max, min or product"},
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
    fail(ErrorKind::kValue, Fix{"use sum, max, min or product, or make the tensor of floats"},
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
    fail(ErrorKind::kValue, Fix{"use sum, max, min or product, or make the tensor of floats"},
         "{} of a tensor of integers does not exist; it must be of floats", to_string(placement));
  }
};

void deal_out(const Tensor& piece, const Part& part, const std::vector<std::int64_t>& indices) {
  if (is_integral(piece.dtype())) {
    std::vector<std::int64_t> values = read_integers(piece);
    const bool truth = piece.dtype() == DType::kBool;
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] =
          truth ? part.of_bool(values[i], indices[i]) : part.of_integer(values[i], indices[i]);
    }
    write_integers(piece, values);
    return;
  }
  std::vector<double> values = read_doubles(piece);
  const std::size_t per_element = is_complex(piece.dtype()) ? 2 : 1;
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = part.of_float(values[i], indices[i / per_element]);
  }
  write_doubles(piece, values);
}

// This rank's piece as an independent contiguous tensor.
Tensor cut(const Tensor& value, const LocalView& view, const TensorMeta& piece_meta) {
  Tensor current = value;
  for (std::size_t dim = 0; dim < view.dims.size(); ++dim) {
    const auto& runs = view.dims[dim].runs;
    if (runs.size() <= 1) {
      const IndexRun run = runs.empty() ? IndexRun{0, 0} : runs.front();
      current = current.narrow(dim, run.offset, run.size);
      continue;
    }
    Dims shape = current.shape();
    shape[dim] = view.dims[dim].local_size();
    Tensor gathered = empty(*value.device(), shape, value.dtype());
    std::int64_t at = 0;
    for (const IndexRun& run : runs) {
      value.device()->copy(gathered.narrow(dim, at, run.size),
                           current.narrow(dim, run.offset, run.size));
      at += run.size;
    }
    current = gathered;
  }
  Tensor piece = empty(*value.device(), piece_meta);
  value.device()->copy(piece, current);
  return piece;
}

}  // namespace

DTensor deal_partials(const DTensor& pieces, const DTensorSpec* spec) {
  const DeviceMesh& mesh = device_mesh(spec->layout());
  if (!mesh.participates()) return DTensor(pieces.local(), spec);
  Tensor piece = clone_contiguous(pieces.local());
  if (piece.device()->shape_only()) return DTensor(std::move(piece), spec);
  const std::vector<std::int64_t> indices = global_indices(local_view(*spec, *mesh.coordinate()));
  for (std::size_t mesh_dim = 0; mesh_dim < spec->placements().size(); ++mesh_dim) {
    const Placement& placement = spec->placement(mesh_dim);
    const std::int64_t n = spec->layout()->size(mesh_dim);
    if (!placement.is_partial() || n == 1) continue;
    if (placement.kind == PlacementKind::kMaskPartial) {
      fail(ErrorKind::kValue,
           Fix{"give the input as R, and look it up in a table that is sharded by rows"},
           "{} cannot be an input, because only a lookup makes its mask", type_string(*spec));
    }
    deal_out(piece, {placement, n, (*mesh.coordinate())[mesh_dim]}, indices);
  }
  return DTensor(std::move(piece), spec);
}

DTensor distribute(const Tensor& value, const DTensorSpec* spec) {
  return distribute(DTensor(value), spec);
}

DTensor distribute(const DTensor& value, const DTensorSpec* spec) {
  check_invariant(value.shape() == spec->shape() && value.dtype() == spec->dtype(),
                  "distribute: the spec describes the value");
  const DeviceMesh& mesh = device_mesh(spec->layout());
  if (!mesh.participates()) return DTensor(outsider_value(*spec), spec);
  const Tensor piece = cut(value.local(), local_view(*spec, *mesh.coordinate()),
                           local_meta(*spec, *mesh.coordinate()));
  DTensor result(piece, spec);
  if (spec->has_partial()) result = deal_partials(result, spec);
  tell_placed(PlacedRecord::Kind::kDistribute, value, result);
  return result;
}

Tensor value_of_source(const Tensor& value, const MeshLayout* mesh, std::int64_t index) {
  for (std::size_t dim = 0; dim < mesh->ndim(); ++dim) {
    if (index < 0 || index >= mesh->shape()[dim]) {
      throw Error(ErrorKind::kValue, fmt::format("no rank has index {} on mesh dim {}", index, dim))
          .with("mesh", mesh->text())
          .with("fix", fmt::format("give an index from 0 to {}", mesh->shape()[dim] - 1));
    }
  }
  const DeviceMesh& view = device_mesh(mesh);
  if (!view.participates()) return value;
  Tensor current = value;
  for (std::size_t dim = 0; dim < mesh->ndim(); ++dim) {
    current = view.group(dim).communicator().broadcast(current, index, value.meta());
  }
  return current;
}

Tensor checked_piece(const Tensor& local, const MeshLayout* mesh, const Placements& placements) {
  const DeviceMesh& view = device_mesh(mesh);
  if (!view.participates()) return local;
  const std::string own = type_string(local.meta());
  const std::string meta = fmt::format("{} [{}]", own, fmt::join(local.stride(), ","));
  for (std::size_t dim = 0; dim < mesh->ndim(); ++dim) {
    const auto all = view.group(dim).communicator().all_gather_bytes(meta);
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      if (all[rank] == meta) continue;
      throw Error(ErrorKind::kValue, "from_local: the ranks bring different tensors")
          .with("op", fmt::format("local {}, on index {} of mesh dim {} {}", meta, rank,
                                  mesh->names()[dim], all[rank]))
          .with("fix", "pass shape= with the global sizes, and no run_check, for uneven shards");
    }
  }
  Tensor current = local;
  for (std::size_t dim = 0; dim < mesh->ndim(); ++dim) {
    if (!placements[dim].is_replicate()) continue;
    current = view.group(dim).communicator().broadcast(current, 0, current.meta());
  }
  return current;
}

}  // namespace shardlab
