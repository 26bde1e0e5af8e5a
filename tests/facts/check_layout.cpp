// Our answers about pieces, in the form of the recordings: computed by src/mesh, one rank after the
// other.
#include <algorithm>
#include <numeric>

#include "mesh/local_shape.h"
#include "mesh/type_string.h"
#include "tests/facts/fact_json.h"
#include "tests/facts/layout_facts.h"

namespace shardlab {
namespace {

std::vector<std::int64_t> indices_of(const DimMap& map) {
  std::vector<std::int64_t> indices;
  count_of(map.local_size());
  for (const IndexRun& run : map.runs) {
    for (std::int64_t i = 0; i < run.size; ++i) indices.push_back(run.offset + i);
  }
  return indices;
}

/// Values of arange(shape) at [offset, offset + size) of `dim`, row-major, then `pad` zeros in
/// `dim`.
Json arange_piece(const Dims& shape, std::size_t dim, const Chunk& chunk, std::int64_t pad) {
  const auto cut = static_cast<std::ptrdiff_t>(dim);
  const std::int64_t outer = product({shape.begin(), shape.begin() + cut});
  const std::int64_t inner = product({shape.begin() + cut + 1, shape.end()});
  count_of(product(shape));
  Json values = Json::array();
  for (std::int64_t o = 0; o < outer; ++o) {
    const std::int64_t start = (o * shape[dim] + chunk.offset) * inner;
    for (std::int64_t i = 0; i < chunk.size * inner; ++i) values.push_back(start + i);
    for (std::int64_t i = 0; i < pad * inner; ++i) values.push_back(0);
  }
  return values;
}

/// Local shape and offset of every rank, in the files' form. An empty piece's first index is null
/// where `mark_empty` is set, else the offset rule of K-1 holds.
struct Pieces {
  Json shapes = Json::array(), offsets = Json::array(), first_indices = Json::array();
};
Pieces pieces_of(const DTensorSpec& spec) {
  Pieces pieces;
  for (std::int64_t index = 0; index < spec.layout()->size(); ++index) {
    const Coordinate coordinate = spec.layout()->coordinate_at_index(index);
    const Dims shape = local_shape(spec, coordinate);
    const Dims offset = local_offset(spec, coordinate);
    pieces.shapes.push_back(json_of(shape));
    pieces.offsets.push_back(json_of(offset));
    Json first = Json::array();
    for (std::size_t dim = 0; dim < shape.size(); ++dim) {
      first.push_back(shape[dim] == 0 ? Json() : Json(offset[dim]));
    }
    pieces.first_indices.push_back(std::move(first));
  }
  return pieces;
}

bool same_ownership(const DTensorSpec& a, const DTensorSpec& b) {
  for (std::int64_t index = 0; index < a.layout()->size(); ++index) {
    const Coordinate coordinate = a.layout()->coordinate_at_index(index);
    const LocalView ours = local_view(a, coordinate), theirs = local_view(b, coordinate);
    for (std::size_t dim = 0; dim < ours.dims.size(); ++dim) {
      if (!(ours.dims[dim].runs == theirs.dims[dim].runs)) return false;
    }
  }
  return true;
}

std::string spec_text(const DTensorSpec& spec) {
  return fmt::format("Spec({}({}))", type_string(spec.meta()),
                     order_text(spec.placements(), spec.order()));
}

/// Per tensor dim: the number of its pieces; the mesh dim that cuts it, -1 for none.
void check_dim_maps(const DTensorSpec& spec, const Json& fact, CaseReport& report) {
  Json counts = Json::array(), mesh_dims = Json::array();
  bool cut_twice = false;
  for (std::size_t dim = 0; dim < spec.ndim(); ++dim) {
    const auto sequence =
        cutting_order(spec.placements(), spec.order(), static_cast<std::int64_t>(dim));
    std::int64_t count = 1;
    for (const std::size_t mesh_dim : sequence) count *= spec.layout()->size(mesh_dim);
    counts.push_back(count);
    mesh_dims.push_back(sequence.empty() ? std::int64_t{-1}
                                         : static_cast<std::int64_t>(sequence[0]));
    cut_twice |= sequence.size() > 1;
  }
  report.expect("num_shards_map", fact.at("num_shards_map"), counts);
  report.expect("dim_map_error", fact.contains("dim_map_error"), cut_twice);
  if (fact.contains("dim_map")) report.expect("dim_map", fact.at("dim_map"), mesh_dims);
}

std::int64_t chunks_of(const Json& fact) {
  const std::int64_t count = count_of(fact.at("chunks"));
  if (count < 1) fail(ErrorKind::kValue, "cut into {} chunks", count);
  return count;
}

}  // namespace

void check_shard_size_offset(Arena&, const Json& fact, CaseReport& report) {
  const auto count = chunks_of(fact);
  Json local = Json::array(), offset = Json::array();
  for (std::int64_t index = 0; index < count; ++index) {
    const Chunk chunk = chunk_of(integer_of<std::int64_t>(fact.at("size")), count, index);
    local.push_back(chunk.size);
    offset.push_back(chunk.offset);
  }
  report.expect("local", fact.at("local"), local);
  report.expect("offset", fact.at("offset"), offset);
}

void check_split_tensor(Arena&, const Json& fact, CaseReport& report) {
  const Dims shape = dims_of(fact.at("shape"));
  const auto dim = integer_of<std::size_t>(fact.at("dim"));
  const auto count = chunks_of(fact);
  const bool padded = fact.at("with_padding").get<bool>();
  if (dim >= shape.size()) fail(ErrorKind::kValue, "tensor dim {} of {}", dim, shape.size());
  const std::int64_t full = chunk_of(shape[dim], count, 0).size;
  Json shapes = Json::array(), values = Json::array(), pads = Json::array();
  for (std::int64_t index = 0; index < count; ++index) {
    const Chunk chunk = chunk_of(shape[dim], count, index);
    const std::int64_t pad = padded ? full - chunk.size : 0;
    Dims piece = shape;
    piece[dim] = chunk.size + pad;
    shapes.push_back(json_of(piece));
    values.push_back(arange_piece(shape, dim, chunk, pad));
    if (padded) pads.push_back(pad);
  }
  report.expect("shapes", fact.at("shapes"), shapes);
  report.expect("values", fact.at("values"), values);
  report.expect("pads", fact.at("pads"), pads);
}

void check_strided_shard(Arena&, const Json& fact, CaseReport& report) {
  const auto count = chunks_of(fact);
  const Placement placement =
      Placement::strided_shard(0, integer_of<std::int64_t>(fact.at("split_factor")));
  std::vector<std::int64_t> local;
  Json indices = Json::array(), pads = Json::array();
  for (std::int64_t index = 0; index < count; ++index) {
    const Cut cut{placement, count, index};
    const DimMap map = dim_map(integer_of<std::int64_t>(fact.at("size")), std::span(&cut, 1));
    local.push_back(map.local_size());
    indices.push_back(indices_of(map));
  }
  const std::int64_t largest = std::ranges::max(local);
  for (const std::int64_t size : local) pads.push_back(largest - size);
  report.expect("local", fact.at("local"), local);
  report.expect("indices", fact.at("indices"), indices);
  report.expect("split_values", fact.at("split_values"), indices);
  report.expect("split_pads", fact.at("split_pads"), pads);
}

void check_local_shape_offset(Arena& arena, const Json& fact, CaseReport& report) {
  const DTensorSpec* spec =
      arena.spec(mesh_of(arena, fact.at("mesh")), placements_of(fact.at("placements")),
                 contiguous_meta(dims_of(fact.at("shape")), DType::kF32));
  const Pieces pieces = pieces_of(*spec);
  report.expect("local_shape", fact.at("local_shape"), pieces.shapes);
  report.expect("offset", fact.at("offset"), pieces.offsets);
}

void check_shard_order(Arena& arena, const Json& fact, CaseReport& report) {
  const MeshLayout* layout = mesh_of(arena, fact.at("mesh"));
  const Placements placements = placements_of(fact.at("placements"));
  const ShardOrder order = order_of(fact.at("order"), placements.size());
  const TensorMeta meta = contiguous_meta(dims_of(fact.at("shape")), DType::kF32);
  const DTensorSpec* spec = arena.spec(layout, placements, order, meta);
  report.expect("is_default", fact.at("is_default"), spec->has_default_order());
  report.expect("text", fact.at("text"), order_text(placements, order));
  report.expect("spec_text", our_spelling(fact.at("spec_text").get<std::string>()),
                spec_text(*spec));
  report.expect("num_shards", fact.at("num_shards"), spec->num_shards());
  check_dim_maps(*spec, fact, report);

  const Placements strided = encode_strided(placements, order, layout->shape());
  report.expect("as_strided", fact.at("as_strided"), texts_of(strided));
  const auto back = decode_strided(strided, layout->shape());
  report.expect("strided_back_to_order", fact.at("strided_back_to_order"),
                back ? json_of(back->placements, back->order) : Json());
  const DTensorSpec* strided_spec = arena.spec(layout, strided, meta);
  const Pieces strided_pieces = pieces_of(*strided_spec);
  report.expect("strided_local_shape", fact.at("strided_local_shape"), strided_pieces.shapes);
  report.expect("strided_offset", fact.at("strided_offset"), strided_pieces.offsets);
  const Pieces pieces = pieces_of(*spec);
  report.expect("order_owned_shape", fact.at("order_owned_shape"), pieces.shapes);
  report.expect("order_first_index", fact.at("order_first_index"), pieces.first_indices);
  report.expect("strided_same_ownership", fact.at("strided_same_ownership"),
                same_ownership(*spec, *strided_spec));
}

void check_strided_decode(Arena& arena, const Json& fact, CaseReport& report) {
  const MeshLayout* layout = mesh_of(arena, fact.at("mesh"));
  const Placements placements = placements_of(fact.at("placements"));
  const auto decoded = decode_strided(placements, layout->shape());
  report.expect("order", fact.at("order"),
                decoded ? json_of(decoded->placements, decoded->order) : Json());
  const DTensorSpec* spec =
      arena.spec(layout, placements, contiguous_meta(Dims{24, 24}, DType::kF32));
  report.expect("flag", fact.at("flag"), spec->has_strided());
  // Without an order of its own (null) the mesh dims cut in mesh order.
  report.expect("spec_order", fact.at("spec_order").is_null(), spec->has_default_order());
  report.expect("text", our_spelling(fact.at("text").get<std::string>()), spec_text(*spec));
}

void check_global_info(Arena& arena, const Json& fact, CaseReport& report) {
  const MeshLayout* layout = mesh_of(arena, fact.at("mesh"));
  const Placements placements = placements_of(fact.at("placements"));
  const TensorMeta meta{dims_of(fact.at("local_shape")), dims_of(fact.at("local_stride")),
                        DType::kF32};
  const TensorMeta whole = global_meta(*layout, placements, meta);
  report.expect("global_shape", fact.at("global_shape"), json_of(whole.shape));
  report.expect("global_stride", fact.at("global_stride"), json_of(whole.stride));
  const DTensorSpec* spec = arena.spec(layout, placements, meta);
  const Coordinate first = layout->coordinate_at_index(0);
  if (fact.contains("as_global_error")) {
    report.expect_error("as_global_error", fact.at("as_global_error"),
                        [&] { local_meta(*spec, first); });
    return;
  }
  const TensorMeta local = local_meta(*spec, first);
  report.expect("as_global_local_shape", fact.at("as_global_local_shape"), json_of(local.shape));
  report.expect("as_global_local_stride", fact.at("as_global_local_stride"), json_of(local.stride));
}

}  // namespace shardlab
