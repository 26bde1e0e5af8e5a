// Ownership is composed of cuts. A piece of a tensor dim is the list of global runs behind its
// local indices 0, 1, 2, ...; each cut takes a range of local indices of what the cuts before it
// left, by the chunk rule (K-1), or, for a strided shard (K-19), one such range out of every chunk.
// So nested, uneven and empty shards need no cases of their own. If only plain shards cut a dim,
// the piece is a single run, and local_chunk() follows its two ends without a list.
#include "mesh/local_shape.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "mesh/placement_dims.h"

namespace shardlab {
namespace {

/// ceil(length / count) without overflow.
std::int64_t chunk_size(std::int64_t length, std::int64_t count) {
  return length / count + (length % count != 0 ? 1 : 0);
}

/// Collects the global runs behind ranges of local indices of `map`, which ascend.
class RunReader {
 public:
  explicit RunReader(const DimMap& map) : map_(map) {}

  void read(Chunk range) {
    while (range.size > 0 && next_ < map_.runs.size()) {
      const IndexRun& run = map_.runs[next_];
      const std::int64_t at = range.offset - before_;
      if (at >= run.size) {
        before_ += run.size;
        ++next_;
        continue;
      }
      const std::int64_t size = std::min(range.size, run.size - at);
      add({run.offset + at, size});
      range = {range.size - size, range.offset + size};
    }
  }
  DimMap take() { return std::move(found_); }

 private:
  void add(const IndexRun& run) {
    constexpr std::size_t kMostRuns = 1 << 24;
    auto& runs = found_.runs;
    if (!runs.empty() && runs.back().offset + runs.back().size == run.offset) {
      runs.back().size += run.size;
    } else if (runs.size() < kMostRuns) {
      runs.push_back(run);
    } else {
      fail(ErrorKind::kUnsupported, Fix{"use S(dim), or a smaller split factor"},
           "the piece that a strided shard gives a rank has more than {} runs", kMostRuns);
    }
  }

  const DimMap& map_;
  DimMap found_;
  std::size_t next_ = 0;     ///< the run that is read
  std::int64_t before_ = 0;  ///< local indices in front of it
};

/// K-19: the dim in `split_factor` chunks, each in `count` parts; part `index` of every chunk.
DimMap cut_strided(const DimMap& map, const Cut& cut) {
  const std::int64_t factor = cut.placement.split_factor;
  if (factor < 1) {
    fail(ErrorKind::kValue, Fix{"use S(dim), which is a split factor of 1"},
         "the split factor of a strided shard is {}; it must be at least 1", factor);
  }
  RunReader reader(map);
  const std::int64_t length = map.local_size();
  const std::int64_t chunk = chunk_size(length, factor);
  for (std::int64_t i = 0; i * chunk < length; ++i) {  // the chunks that are not empty
    const Chunk outer = chunk_of(length, factor, i);
    const Chunk inner = chunk_of(outer.size, cut.count, cut.index);
    reader.read({inner.size, outer.offset + inner.offset});
  }
  return reader.take();
}

bool cut_by_strided(const DTensorSpec& spec, std::size_t tensor_dim) {
  if (!spec.has_strided()) return false;
  for (const Placement& placement : spec.placements()) {
    if (placement.is_strided_shard() && placement.is_shard(static_cast<std::int64_t>(tensor_dim))) {
      return true;
    }
  }
  return false;
}

DimMap map_of_dim(const DTensorSpec& spec, const Coordinate& coordinate, std::size_t tensor_dim) {
  return dim_map(spec.shape()[tensor_dim],
                 cuts_of(*spec.layout(), spec.placements(), spec.order(),
                         static_cast<std::int64_t>(tensor_dim), coordinate));
}

/// Compares the pieces of one tensor dim under two cuttings, the second by plain shards alone.
struct PieceComparison {
  const MeshLayout& layout;
  const OrderedPlacements& strided;
  const OrderedPlacements& ordered;
  std::int64_t tensor_dim;
  std::int64_t length;
  InlineVector<std::size_t, 4> sequence;  ///< mesh dims that cut under `ordered`, first cut first
  Coordinate coordinate;

  /// Takes all pieces that hold an element and have the coordinates of the first `level` cuts,
  /// which leave `left` elements.
  bool agree(std::size_t level, std::int64_t left) {
    if (level == sequence.size()) {
      const auto piece_of = [&](const OrderedPlacements& cutting) {
        return dim_map(length,
                       cuts_of(layout, cutting.placements, cutting.order, tensor_dim, coordinate));
      };
      return piece_of(strided).runs == piece_of(ordered).runs;
    }
    const std::int64_t count = layout.size(sequence[level]);
    for (std::int64_t index = 0; index < count; ++index) {
      const std::int64_t size = chunk_of(left, count, index).size;
      if (size == 0) break;
      coordinate[sequence[level]] = index;
      if (!agree(level + 1, size)) return false;
    }
    return true;
  }
};

/// Strides of `shape` with dims in the memory order of `global`; sizes count as `smallest` at
/// least.
Dims strides_in_order(const Dims& global, const Dims& shape, std::int64_t smallest) {
  // Sorts by falling stride, equal ones in the given order: an insertion sort of a handful, almost
  // sorted.
  InlineVector<std::size_t, 5> dims;
  for (std::size_t dim = 0; dim < shape.size(); ++dim) {
    dims.push_back(dim);
    for (std::size_t i = dim; i > 0 && global[dims[i - 1]] < global[dims[i]]; --i) {
      std::swap(dims[i - 1], dims[i]);
    }
  }
  Dims stride(shape.size());
  std::int64_t step = 1;
  for (std::size_t i = dims.size(); i-- > 0;) {
    stride[dims[i]] = step;
    step *= std::max(shape[dims[i]], smallest);
  }
  return stride;
}

}  // namespace

Chunk chunk_of(std::int64_t length, std::int64_t count, std::int64_t index) {
  if (length < 0) {
    fail(ErrorKind::kValue, Fix{"give sizes of 0 or more"},
         "the size of a tensor dim is {}; it must be 0 or more", length);
  }
  if (index < 0 || index >= count) {
    fail(ErrorKind::kValue, Fix{"coordinates count from 0 to the number of ranks less 1"},
         "coordinate {} is outside of a mesh dim of {} ranks", index, count);
  }
  const std::int64_t chunk = chunk_size(length, count);
  const bool beyond = chunk == 0 || index > length / chunk;  // index * chunk might overflow
  const std::int64_t offset = beyond ? length : std::min(index * chunk, length);
  return {std::min(chunk, length - offset), offset};
}

InlineVector<Cut, 4> cuts_of(const MeshLayout& layout, const Placements& placements,
                             const ShardOrder& order, std::int64_t tensor_dim,
                             const Coordinate& coordinate) {
  layout.check_own(coordinate);
  InlineVector<Cut, 4> cuts;
  for (const std::size_t mesh_dim : cutting_order(placements, order, tensor_dim)) {
    cuts.push_back({placements[mesh_dim], layout.size(mesh_dim), coordinate[mesh_dim]});
  }
  return cuts;
}

DimMap dim_map(std::int64_t length, std::span<const Cut> cuts) {
  DimMap map;
  if (length > 0) map.runs.push_back({0, length});
  for (const Cut& cut : cuts) {
    if (cut.placement.is_strided_shard()) {
      map = cut_strided(map, cut);
    } else if (cut.placement.is_shard()) {
      const Chunk chunk = chunk_of(map.local_size(), cut.count, cut.index);
      RunReader reader(map);
      reader.read(chunk);
      map = reader.take();
    }
  }
  return map;
}

bool same_pieces(const MeshLayout& layout, const OrderedPlacements& strided,
                 const OrderedPlacements& ordered, std::int64_t tensor_dim, std::int64_t length) {
  PieceComparison comparison{
      .layout = layout,
      .strided = strided,
      .ordered = ordered,
      .tensor_dim = tensor_dim,
      .length = length,
      .sequence = cutting_order(ordered.placements, ordered.order, tensor_dim),
      .coordinate = Coordinate(layout.ndim())};
  std::int64_t pieces = 1;
  for (const std::size_t mesh_dim : comparison.sequence) pieces *= layout.size(mesh_dim);
  return length % pieces == 0 || comparison.agree(0, length);
}

Chunk local_chunk(const DTensorSpec& spec, const Coordinate& coordinate, std::size_t tensor_dim) {
  const std::int64_t length = spec.shape()[tensor_dim];
  if (cut_by_strided(spec, tensor_dim)) {
    const DimMap map = map_of_dim(spec, coordinate, tensor_dim);
    return {map.local_size(), map.runs.empty() ? length : map.runs[0].offset};
  }
  spec.layout()->check_own(coordinate);
  Chunk piece{length, 0};
  const auto wanted = static_cast<std::int64_t>(tensor_dim);
  // Places run from 0, so searching them in turn cuts in the spec's order.
  std::int32_t place = 0;
  for (bool found = true; found; ++place) {
    found = false;
    for (std::size_t mesh_dim = 0; mesh_dim < coordinate.size(); ++mesh_dim) {
      if (spec.order()[mesh_dim] != place || !spec.placement(mesh_dim).is_shard(wanted)) continue;
      const Chunk cut = chunk_of(piece.size, spec.layout()->size(mesh_dim), coordinate[mesh_dim]);
      piece = {cut.size, piece.offset + cut.offset};
      found = true;
    }
  }
  return piece.size == 0 ? Chunk{0, length} : piece;
}

std::vector<std::int64_t> lengths_along(const DTensorSpec& spec, std::size_t mesh_dim,
                                        std::size_t tensor_dim) {
  std::vector<std::int64_t> lengths;
  Coordinate coordinate = spec.layout()->coordinate_at_index(0);
  for (std::int64_t k = 0; k < spec.layout()->size(mesh_dim); ++k) {
    coordinate[mesh_dim] = k;
    lengths.push_back(local_chunk(spec, coordinate, tensor_dim).size);
  }
  return lengths;
}

Dims local_shape(const DTensorSpec& spec, const Coordinate& coordinate) {
  Dims shape = spec.shape();
  if (!spec.is_sharded()) return shape;
  for (std::size_t dim = 0; dim < shape.size(); ++dim) {
    shape[dim] = local_chunk(spec, coordinate, dim).size;
  }
  return shape;
}

Dims local_offset(const DTensorSpec& spec, const Coordinate& coordinate) {
  Dims offset(spec.ndim());
  for (std::size_t dim = 0; dim < offset.size(); ++dim) {
    offset[dim] = local_chunk(spec, coordinate, dim).offset;
  }
  return offset;
}

Dims local_stride(const DTensorSpec& spec, const Coordinate& coordinate) {
  return strides_in_order(spec.stride(), local_shape(spec, coordinate), 0);
}

TensorMeta local_meta(const DTensorSpec& spec, const Coordinate& coordinate) {
  if (!spec.is_sharded()) return spec.meta();
  TensorMeta meta{local_shape(spec, coordinate), spec.stride(), spec.dtype()};
  if (!(meta.shape == spec.shape())) {
    meta.stride = strides_in_order(spec.stride(), meta.shape, 1);
  }
  return meta;
}

TensorMeta global_meta(const MeshLayout& layout, const Placements& placements,
                       const TensorMeta& local) {
  TensorMeta meta = local;
  for (std::size_t mesh_dim = 0; mesh_dim < placements.size(); ++mesh_dim) {
    const Placement& placement = placements[mesh_dim];
    if (!placement.is_shard()) continue;
    const auto cut = static_cast<std::size_t>(placement.dim);
    if (placement.dim < 0 || cut >= meta.shape.size()) {
      throw no_such_dim(placement, meta.shape.size());
    }
    meta.shape[cut] *= layout.size(mesh_dim);
    for (std::size_t dim = 0; dim < meta.stride.size(); ++dim) {
      const bool outside = dim != cut && meta.stride[dim] >= meta.stride[cut];
      if (outside) meta.stride[dim] *= layout.size(mesh_dim);
    }
  }
  return meta;
}

LocalView local_view(const DTensorSpec& spec, const Coordinate& coordinate) {
  LocalView view{spec.shape(), {}};
  view.dims.reserve(spec.ndim());
  for (std::size_t dim = 0; dim < spec.ndim(); ++dim) {
    view.dims.push_back(map_of_dim(spec, coordinate, dim));
  }
  return view;
}

}  // namespace shardlab
