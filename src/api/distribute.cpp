// A whole value is dealt out without communication: every rank cuts its own piece from the runs of
// global indices that its LocalView lists, so that uneven, empty and strided shards are one case.
// Under a partial placement the piece is then split into terms (terms.h).
#include "api/distribute.h"

#include "api/terms.h"
#include "base/rank_context.h"
#include "base/text.h"
#include "comm/device_mesh.h"
#include "comm/observer.h"
#include "dispatch/prepare.h"
#include "mesh/local_shape.h"
#include "mesh/type_string.h"
#include "tensor/device.h"

namespace shardlab {

namespace {

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

// The same; the whole of a program's value is copied when somebody writes to it, so that ranks go
// on sharing its Buffer.
Tensor cut_or_shared(const Tensor& value, const LocalView& view, const TensorMeta& piece_meta) {
  const bool whole =
      value.meta() == piece_meta && value.offset() == 0 &&
      static_cast<std::int64_t>(value.storage()->buffer()->size_bytes()) == value.size_bytes();
  if (!whole) return cut(value, view, piece_meta);
  return Tensor(value.storage()->copy(), piece_meta);
}

using Cut = Tensor (*)(const Tensor& value, const LocalView& view, const TensorMeta& piece_meta);

DTensor dealt_out(const DTensor& value, const DTensorSpec* spec, Cut piece_of) {
  check_invariant(value.shape() == spec->shape() && value.dtype() == spec->dtype(),
                  "distribute: the spec describes the value");
  const DeviceMesh& mesh = device_mesh(spec->layout());
  if (!mesh.participates()) return DTensor(outsider_value(*spec), spec);
  const Tensor piece = piece_of(value.local(), local_view(*spec, *mesh.coordinate()),
                                local_meta(*spec, *mesh.coordinate()));
  DTensor result(piece, spec);
  if (spec->has_partial()) result = deal_partials(result, spec);
  report_placed(PlacedRecord::Kind::kDistribute, value, result);
  return result;
}

}  // namespace

DTensor deal_partials(const DTensor& pieces, const DTensorSpec* spec) {
  const DeviceMesh& mesh = device_mesh(spec->layout());
  if (!mesh.participates()) return DTensor(pieces.local(), spec);
  return DTensor(own_terms(pieces.local(), *spec, *mesh.coordinate()), spec);
}

// The elements of an input may be those of a file.
DTensor distribute(const Tensor& value, const DTensorSpec* spec) {
  return dealt_out(DTensor(value), spec, cut);
}

DTensor distribute(const DTensor& value, const DTensorSpec* spec) {
  return dealt_out(value, spec, cut_or_shared);
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
  const std::string meta = fmt::format("{} [{}]", own, text_of_list(local.stride(), ","));
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
