// argmax and argmin where ranks share the reduced dims. Each rank finds the extremum of its piece
// and turns the position into a global index; then the ranks of each mesh dim that cuts gather
// their candidates, and keep the lowest index among those that hold the best value. This is the
// first extremum of the whole tensor in row-major order, as on one rank: taking the lowest index
// among equal values is associative, so that the order of the mesh dims does not matter. A NaN
// counts as the extremum, as it does in ATen. An empty piece contributes a value that changes no
// extremum and an index behind all others.
#include "dispatch/extremum_index.h"

#include <limits>

#include "base/rank_context.h"
#include "comm/device_mesh.h"
#include "dispatch/observed_op.h"
#include "dispatch/plain_calls.h"
#include "dispatch/prepare.h"
#include "kernels/kernel_id.h"
#include "mesh/local_shape.h"
#include "ops/core/arguments.h"
#include "propagate/propagator.h"
#include "schema/op_row.h"
#include "tensor/host.h"

namespace shardlab {

namespace {

// Larger than every real index, so that the candidate of an empty piece never wins.
constexpr std::int64_t kNowhere = std::numeric_limits<std::int64_t>::max();

DTensor filled_like(const DTensor& x, std::int64_t value) {
  return plain_calls().one("aten::full_like", {x, value});
}

// argmax or argmin of a whole dim or, without `dim`, of the flattened tensor.
class Search {
 public:
  Search(const OpRow& row, const Arguments& args, std::size_t ndim)
      : row_(row), whole_(args[1].is_none() || ndim == 0) {
    if (!whole_) dim_ = static_cast<std::size_t>(wrap_dim(args[1].to_int(), ndim));
  }

  bool reduces(std::int64_t dim) const { return whole_ || dim == static_cast<std::int64_t>(dim_); }
  const char* extremum() const {
    return row_.kernel() == KernelId::kArgmax ? "aten::amax" : "aten::amin";
  }

  /// Along the dim of candidates.
  std::int64_t dim() const { return static_cast<std::int64_t>(dim_); }

  /// With the candidates along one dim: the piece itself, or its elements in one row.
  Tensor laid_out(const Tensor& piece) const {
    if (!whole_) return piece;
    return plain_calls().one("aten::reshape", {DTensor(piece), Dims{piece.numel()}}).local();
  }

  /// The largest or smallest values, of an empty piece those that change no extremum.
  DTensor values(const Tensor& rows) const {
    const OpRow& op = plain_calls().find(extremum());
    const Arguments args{DTensor(rows), Dims{dim()}, true};
    Dims shape = rows.shape();
    shape[dim_] = 1;
    const OutputMeta output{contiguous_meta(shape, rows.dtype())};
    const LocalCall call{.row = &op,
                         .args = &args,
                         .tensors = {&rows, 1},
                         .device = current_rank().device,
                         .calls = &plain_calls()};
    return DTensor(run_placed(call, {output}).front());
  }

  /// Their positions in the global tensor.
  DTensor indices(const Tensor& rows, const LocalView& view, const DTensor& values) const {
    Calls& calls = plain_calls();
    if (rows.shape()[dim_] == 0) {
      return calls.one("aten::full_like", {values, kNowhere, DType::kI64});
    }
    const DTensor local = calls.one(row_.name(), {DTensor(rows), dim(), true});
    return whole_ ? global_of_flat(local, view) : global_along(local, view.dims[dim_]);
  }

 private:
  static DTensor global_along(const DTensor& local, const DimMap& map) {
    Calls& calls = plain_calls();
    if (map.runs.size() == 1) {
      return calls.one("aten::add.Scalar", {local, map.runs[0].offset});
    }
    std::vector<std::int64_t> positions;
    for (const IndexRun& run : map.runs) {
      for (std::int64_t i = 0; i < run.size; ++i) positions.push_back(run.offset + i);
    }
    const Tensor table = empty(*current_rank().device,
                               Dims{static_cast<std::int64_t>(positions.size())}, DType::kI64);
    write_integers(table, positions);
    const DTensor flat = calls.one("aten::reshape", {local, Dims{local.numel()}});
    const DTensor global = calls.one("aten::index_select", {DTensor(table), 0, flat});
    return calls.one("aten::reshape", {global, local.shape()});
  }

  // Row-major within the piece to row-major within the tensor, digit by digit.
  static DTensor global_of_flat(const DTensor& local, const LocalView& view) {
    Calls& calls = plain_calls();
    DTensor rest = local, sum = filled_like(local, 0);
    std::int64_t stride = 1;
    for (std::size_t d = view.dims.size(); d-- > 0;) {
      const std::int64_t size = view.dims[d].local_size();
      const DTensor digit = calls.one("aten::remainder.Scalar", {rest, size});
      const DTensor index = global_along(digit, view.dims[d]);
      sum = calls.one("aten::add.Tensor", {sum, index, stride});
      rest = calls.one("aten::div.Scalar_mode", {rest, size, std::string("floor")});
      stride *= view.global_shape[d];
    }
    return sum;
  }

  const OpRow& row_;
  bool whole_;
  std::size_t dim_ = 0;
};

struct Candidates {
  DTensor values, indices;
};

// One candidate of all ranks' along a mesh dim: the lowest index of those with the best value.
Candidates best_of(const Search& search, const Candidates& mine, ProcessGroup& group) {
  Calls& calls = plain_calls();
  const std::vector<std::int64_t> ones(static_cast<std::size_t>(group.size()), 1);
  const DTensor values(group.all_gather(mine.values.local(), search.dim(), ones));
  const DTensor indices(group.all_gather(mine.indices.local(), search.dim(), ones));
  const Argument along(Dims{search.dim()});
  const DTensor best = calls.one(search.extremum(), {values, along, true});
  DTensor hit = calls.one("aten::eq.Tensor", {values, best});
  if (!is_integral(values.dtype())) {
    hit = calls.one("aten::logical_or", {hit, calls.one("aten::isnan", {values})});
  }
  const DTensor reported =
      calls.one("aten::where.self", {hit, indices, filled_like(indices, kNowhere)});
  return {best, calls.one("aten::amin", {reported, along, true})};
}

// The decision requires reduced dims whole; their cuts stay, since candidates are sent between
// ranks instead. If nothing else moves, the input is used as it is.
const DTensorSpec* with_kept_cuts(const DTensorSpec* given, const DTensorSpec* wanted,
                                  const Search& search) {
  Placements placements = wanted->placements();
  bool cuts_as_given = true;
  for (std::size_t i = 0; i < placements.size(); ++i) {
    const Placement& now = given->placement(i);
    if (now.is_shard() && search.reduces(now.dim)) placements[i] = now;
    cuts_as_given &= placements[i] == now || (now.is_partial() && placements[i].is_replicate());
  }
  if (placements == given->placements()) return given;
  return cuts_as_given ? given->with(placements, given->order()) : given->with(placements);
}

bool has_elements(const DTensorSpec& spec, const Search& search) {
  for (std::size_t d = 0; d < spec.ndim(); ++d) {
    if (search.reduces(static_cast<std::int64_t>(d)) && spec.shape()[d] == 0) return false;
  }
  return true;
}

// The row's kernel on one tensor; it refuses one without elements to choose from.
DTensor run_alone(const OpRow& row, const Arguments& args, const Tensor& x) {
  const LocalCall call{.row = &row,
                       .args = &args,
                       .tensors = {&x, 1},
                       .device = current_rank().device,
                       .calls = &plain_calls()};
  return DTensor(run_local(call, infer_local(call)).front());
}

Tensor search_on_mesh(const OpRow& row, const Arguments& args, const Search& search,
                      const Tensor& piece, const DTensorSpec* source, const DTensorSpec* output,
                      const DeviceMesh& mesh) {
  std::vector<std::size_t> cuts;
  for (std::size_t i = 0; i < source->placements().size(); ++i) {
    const Placement& placement = source->placement(i);
    const bool cut = placement.is_shard() && search.reduces(placement.dim);
    if (cut && source->layout()->size(i) > 1) cuts.push_back(i);
  }
  if (cuts.empty() || !has_elements(*source, search)) return run_alone(row, args, piece).local();
  const Tensor rows = search.laid_out(piece);
  Candidates best;
  best.values = search.values(rows);
  best.indices = search.indices(rows, local_view(*source, *mesh.coordinate()), best.values);
  for (const std::size_t mesh_dim : cuts) best = best_of(search, best, mesh.group(mesh_dim));
  return plain_calls()
      .one("aten::reshape", {best.indices, local_shape(*output, *mesh.coordinate())})
      .local();
}

}  // namespace

Results handle_extremum_index(Calls&, const OpRow& row, const Arguments& args) {
  const Unwrapped call = unwrap(row, args);
  const DTensor& x = call.slots[0].handle;
  if (!call.distributed) {
    return {run_alone(row, args, x.local())};
  }
  try {
    OutputSharding decision = *current_rank().propagator->propagate(call.schema);
    const Search search(row, args, call.slots[0].spec->ndim());
    const DTensorSpec* output = decision.outputs[0];
    decision.inputs[0] = with_kept_cuts(call.slots[0].spec, decision.inputs[0], search);
    decision.needs_redistribute = decision.inputs[0] != call.slots[0].spec;
    const DeviceMesh& mesh = device_mesh(call.schema.layout);
    const ObservedOp observed(call.schema, decision);
    const LocalTensors locals = prepare_inputs(call, decision, mesh);
    return {DTensor(mesh.participates() ? search_on_mesh(row, args, search, locals[0],
                                                         decision.inputs[0], output, mesh)
                                        : outsider_value(*output),
                    output)};
  } catch (Error& error) {
    add_context(error, call);
    throw;
  }
}

}  // namespace shardlab
