// global_value.h - the whole value of a tensor, put together from all ranks' pieces by the
// definition of placements alone. Shares no code with redistribution, which is checked against it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mesh/dtensor.h"
#include "tensor/local_view.h"

namespace shardlab {

/// Row-major global elements. Exactly one of the vectors is filled: integers and bool as integers,
/// floats as doubles (complex: re, im pairs).
struct GlobalValue {
  // Shape and dtype of the whole; its strides have no meaning here.
  TensorMeta meta;
  // Both are empty for a tensor without elements.
  std::vector<double> reals;
  std::vector<std::int64_t> integers;
  bool is_integral() const { return shardlab::is_integral(meta.dtype); }
};

/// A disagreement inside one value, found before it is compared with anything else: replicas that
/// differ, or a piece of the wrong shape.
struct AssemblyFault {
  std::string what;  ///< "ranks 0 and 4 hold different replicas: 1.5 and 2 at [0, 3]"
};

/// The coordinate with its replicated mesh dims set to 0: the first of the ranks with the same
/// piece.
Coordinate representative(const DTensorSpec& spec, Coordinate coordinate);
/// The value of the pieces under `spec`. Runs on one thread, outside of the ranks, once all of them
/// have ended. `pieces` holds the handle of every rank of the spec's layout, by row-major mesh
/// index. Partials are reduced in f64 (integers exactly). Replicas are compared bitwise; a
/// difference is added to `faults`.
GlobalValue assemble(const DTensorSpec& spec, const std::vector<DTensor>& pieces,
                     std::vector<AssemblyFault>& faults);
/// The handles of a mesh's ranks, by row-major mesh index, among those of all ranks.
std::vector<DTensor> pieces_of(const MeshLayout& layout, const std::vector<DTensor>& by_rank);
/// The pieces, by index, that the elements of the whole are in: one of equal replicas, none of a
/// wrong shape. `faults` has what assemble() finds.
std::vector<std::int64_t> pieces_to_read(const DTensorSpec& spec,
                                         const std::vector<DTensor>& pieces,
                                         std::vector<AssemblyFault>& faults);
/// The value of a plain tensor, read by way of its device: the host waits for it.
GlobalValue whole_value(const Tensor& tensor);

/// Calls visit(local element, global element, count) over the stretches of a piece that are
/// contiguous in the whole, both row-major.
template <typename Visit>
void for_each_stretch(const LocalView& view, Visit visit) {
  if (view.dims.empty()) return visit(std::size_t{0}, std::size_t{0}, std::size_t{1});
  // Along the innermost dim a run is one stretch; all dims around it are counted through.
  const std::size_t outer = view.dims.size() - 1;
  if (view.dims[outer].runs.empty()) return;  // however many rows have nothing in them
  Dims size(outer), index(outer);
  std::int64_t rows = 1;
  for (std::size_t dim = 0; dim < outer; ++dim) {
    size[dim] = view.dims[dim].local_size();
    rows *= size[dim];
  }
  std::size_t local = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    std::int64_t begin = 0;
    for (std::size_t dim = 0; dim < outer; ++dim) {
      begin = begin * view.global_shape[dim] + view.dims[dim].global_index(index[dim]);
    }
    begin *= view.global_shape[outer];
    for (const IndexRun& run : view.dims[outer].runs) {
      const auto count = static_cast<std::size_t>(run.size);
      visit(local, static_cast<std::size_t>(begin + run.offset), count);
      local += count;
    }
    for (std::size_t dim = outer; dim-- > 0;) {
      if (++index[dim] < size[dim]) break;
      index[dim] = 0;
    }
  }
}

/// Calls visit(local element, global element) over a piece, both row-major.
template <typename Visit>
void for_each_element(const LocalView& view, Visit visit) {
  for_each_stretch(view, [&](std::size_t local, std::size_t global, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) visit(local + i, global + i);
  });
}

}  // namespace shardlab
