// A product of two operands is one whose rule is written in letters: each letter's size multiplies
// the number of multiplications, each of which is followed by an addition. Convolutions multiply
// each element of the result with as many as a kernel has, their gradients likewise.
#include "sim/report/op_work.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <string_view>
#include <variant>
#include <vector>

#include "mesh/local_shape.h"
#include "schema/op_row.h"

namespace shardlab {

namespace {

struct Pieces {
  const OpRow* row = nullptr;
  std::vector<Dims> inputs, outputs;  ///< empty shapes of absent tensors are left out
  double bytes = 0;
};

double elements(const Dims& shape) {
  double count = 1;
  for (const std::int64_t size : shape) count *= static_cast<double>(size);
  return count;
}

void add_piece(const Dims& shape, DType dtype, std::vector<Dims>& shapes, double& bytes) {
  shapes.push_back(shape);
  bytes += elements(shape) * static_cast<double>(item_bytes(dtype));
}

// The place on a mesh of the program's own, which may be a slice of its mesh, or flattened.
Coordinate place_on(const MeshLayout& layout, const RankPlace& rank) {
  if (rank.mesh == &layout) return rank.coordinate;
  if (const auto own = layout.coordinate_of(rank.mesh->rank_at(rank.coordinate))) return *own;
  Coordinate place(layout.ndim());
  const auto& names = rank.mesh->names();
  for (std::size_t dim = 0; dim < layout.ndim(); ++dim) {
    const auto found = std::ranges::find(names, layout.names()[dim]) - names.begin();
    const auto at = static_cast<std::size_t>(found);
    const bool same = at < names.size() && rank.mesh->size(at) == layout.size(dim);
    place[dim] = same ? rank.coordinate[at] : 0;
  }
  return place;
}

Pieces pieces_of(const TraceEvent& event, const RankPlace& rank) {
  Pieces pieces;
  const auto add = [&](const std::vector<const DTensorSpec*>& specs, std::vector<Dims>& shapes) {
    for (const DTensorSpec* spec : specs) {
      if (spec == nullptr) continue;
      const Dims shape = local_shape(*spec, place_on(*spec->layout(), rank));
      add_piece(shape, spec->dtype(), shapes, pieces.bytes);
    }
  };
  const auto add_plain = [&](const std::vector<TensorMeta>& metas, std::vector<Dims>& shapes) {
    for (const TensorMeta& meta : metas) add_piece(meta.shape, meta.dtype, shapes, pieces.bytes);
  };
  if (event.kind == TraceEvent::Kind::kOp) {
    pieces.row = event.schema.row;
    add(event.decision->inputs, pieces.inputs);
    add(event.decision->outputs, pieces.outputs);
  } else if (event.kind == TraceEvent::Kind::kLocal) {
    pieces.row = event.local->row;
    add_plain(event.local->inputs, pieces.inputs);
    add_plain(event.local->outputs, pieces.outputs);
  }
  return pieces;
}

// "+mn,mk,kn->mn": the operands before the arrow that are multiplied, the last ones of the call.
double product_flops(std::string_view rule, const Pieces& pieces) {
  std::vector<std::string_view> operands;
  rule = rule.substr(0, rule.find("->"));
  while (!rule.empty()) {
    const std::size_t comma = std::min(rule.find(','), rule.size());
    if (!rule.starts_with('+')) operands.push_back(rule.substr(0, comma));
    rule.remove_prefix(std::min(comma + 1, rule.size()));
  }
  if (operands.size() != 2 || pieces.inputs.size() < 2) return 0;
  std::map<char, double> sizes;
  for (std::size_t i = 0; i < 2; ++i) {
    const Dims& shape = pieces.inputs[pieces.inputs.size() - 2 + i];
    if (shape.size() != operands[i].size()) return 0;
    for (std::size_t dim = 0; dim < shape.size(); ++dim) {
      sizes[operands[i][dim]] = static_cast<double>(shape[dim]);
    }
  }
  double flops = 2;
  for (const auto& [letter, size] : sizes) flops *= size;
  return flops;
}

// `moved`: the result, or the input of a transposed convolution: a kernel is applied at each of its
// elements.
double convolution_flops(const Dims& moved, const Dims& weight) {
  if (weight.empty() || weight[0] == 0) return 0;
  return 2 * elements(moved) * elements(weight) / static_cast<double>(weight[0]);
}

// Queries [.., T, D], keys [.., S, D], values [.., S, E].
double attention_flops(const Dims& queries, const Dims& keys, const Dims& values) {
  if (queries.size() < 2 || keys.size() < 2 || values.empty()) return 0;
  const auto depth = static_cast<double>(std::max<std::int64_t>(queries.back(), 1));
  const double scores = elements(queries) / depth * static_cast<double>(keys[keys.size() - 2]);
  return 2 * scores * static_cast<double>(queries.back() + values.back());
}

bool transposed(const TraceEvent& event) {
  if (event.kind != TraceEvent::Kind::kOp) return false;
  const auto& declared = event.schema.row->op.arguments;
  for (std::size_t i = 0; i < declared.size(); ++i) {
    const Argument& given = event.schema.args[i];
    if (declared[i].name == "transposed") return given.is_scalar() && given.to_bool();
  }
  return false;
}

double flops_of(const TraceEvent& event, const Pieces& pieces) {
  if (const auto* rule = std::get_if<FactorRule>(&pieces.row->rule)) {
    if (pieces.row->on_pieces) return 0;  // a program of the user's
    return product_flops(rule->text, pieces);
  }
  const std::string_view base = pieces.row->op.base;
  const std::vector<Dims>&in = pieces.inputs, &out = pieces.outputs;
  if (base == "aten::convolution" && in.size() >= 2 && !out.empty()) {
    return convolution_flops(transposed(event) ? in[0] : out[0], in[1]);
  }
  if (base == "aten::convolution_backward" && in.size() >= 3) {
    // One as large as the convolution for the input's gradient, one for the weight's.
    const double one = convolution_flops(transposed(event) ? in[1] : in[0], in[2]);
    double wanted = 0;
    for (const Dims& shape : out) wanted += shape == in[1] || shape == in[2] ? 1 : 0;
    return one * std::min(wanted, 2.0);
  }
  if (base.starts_with("aten::_scaled_dot_product") && !base.ends_with("backward") &&
      in.size() >= 3) {
    return attention_flops(in[0], in[1], in[2]);
  }
  return 0;
}

}  // namespace

OpWork work_of(const TraceEvent& event, const RankPlace& rank) {
  const Pieces pieces = pieces_of(event, rank);
  if (pieces.row == nullptr) return {};
  return {.flops = flops_of(event, pieces),
          .bytes = pieces.row->view() != nullptr ? 0 : pieces.bytes};
}

OpWork work_of(std::span<const TraceEvent> events, const RankPlace& rank) {
  OpWork all;
  for (const TraceEvent& event : events) {
    const OpWork work = work_of(event, rank);
    all.flops += work.flops;
    all.bytes += work.bytes;
  }
  return all;
}

std::string flops_text(double flops) {
  static constexpr std::string_view kUnits[] = {"", "k", "M", "G", "T", "P", "E"};
  std::size_t unit = 0;
  while (flops >= 999.5 && unit + 1 < std::size(kUnits)) {
    flops /= 1000;
    ++unit;
  }
  return fmt::format("{:.3g} {}FLOP", flops, kUnits[unit]);
}

}  // namespace shardlab
