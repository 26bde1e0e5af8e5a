// One mesh dim after the other is removed: the ranks along it are put together in each way that a
// placement has, until one value is left to be compared with the whole one.
#include "sim/verify/labels/label.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/verify/compare.h"
#include "sim/verify/held_numbers.h"
#include "sim/verify/labels/row_order.h"

namespace shardlab {

namespace {

// A complex number is a dim of two.
struct Part {
  Dims shape;
  std::vector<double> numbers;
};

using Parts = std::vector<Part>;

// With more mesh dims only the mesh's own order is tried.
constexpr std::size_t kMostOrdered = 4;

Part part_of(const GlobalValue& value) {
  Part part{value.meta.shape, value.reals};
  if (is_complex(value.meta.dtype)) part.shape.push_back(2);
  if (value.is_integral()) part.numbers.assign(value.integers.begin(), value.integers.end());
  return part;
}

GlobalValue value_from(Part part, DType dtype) {
  GlobalValue value;
  if (is_complex(dtype)) part.shape.pop_back();
  value.meta = contiguous_meta(part.shape, dtype);
  if (value.is_integral()) {
    value.integers.assign(part.numbers.begin(), part.numbers.end());
  } else {
    value.reals = std::move(part.numbers);
  }
  return value;
}

bool same(const Part& a, const Part& b, double allowed) {
  return a.shape == b.shape && all_close(a.numbers, b.numbers, allowed);
}

// The parts one after the other along a tensor dim; nothing if their other sizes differ.
std::optional<Part> joined(const Parts& line, std::size_t dim) {
  Part whole{line[0].shape, {}};
  if (dim >= whole.shape.size()) return std::nullopt;
  whole.shape[dim] = 0;
  for (const Part& part : line) {
    if (part.shape.size() != whole.shape.size()) return std::nullopt;
    for (std::size_t other = 0; other < part.shape.size(); ++other) {
      if (other != dim && part.shape[other] != line[0].shape[other]) return std::nullopt;
    }
    whole.shape[dim] += part.shape[dim];
  }
  std::int64_t outer = 1;
  for (std::size_t i = 0; i < dim; ++i) outer *= whole.shape[i];
  for (std::int64_t row = 0; row < outer; ++row) {
    for (const Part& part : line) {
      const auto count =
          static_cast<std::int64_t>(part.numbers.size()) / std::max<std::int64_t>(1, outer);
      const auto from = part.numbers.begin() + row * count;
      whole.numbers.insert(whole.numbers.end(), from, from + count);
    }
  }
  return whole;
}

// The parts reduced by `op`; nothing if their shapes differ.
std::optional<Part> reduced(const Parts& line, ReduceOp op) {
  Part result = line[0];
  for (std::size_t k = 1; k < line.size(); ++k) {
    if (line[k].shape != result.shape) return std::nullopt;
    for (std::size_t i = 0; i < result.numbers.size(); ++i) {
      double& number = result.numbers[i];
      const double other = line[k].numbers[i];
      if (op == ReduceOp::kMax) {
        number = std::max(number, other);
      } else if (op == ReduceOp::kMin) {
        number = std::min(number, other);
      } else {
        number += other;
      }
    }
  }
  if (op == ReduceOp::kAvg) {
    for (double& number : result.numbers) number /= static_cast<double>(line.size());
  }
  return result;
}

// Each line of ranks along a mesh dim becomes one part.
template <typename Combine>
std::optional<Parts> along(const Parts& parts, const Dims& sizes, std::size_t mesh_dim,
                           const Combine& combine) {
  std::int64_t inner = 1;
  for (std::size_t dim = mesh_dim + 1; dim < sizes.size(); ++dim) inner *= sizes[dim];
  const std::int64_t length = sizes[mesh_dim];
  const auto count = static_cast<std::int64_t>(parts.size()) / length;
  Parts result;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t begin = i / inner * inner * length + i % inner;
    Parts line;
    for (std::int64_t k = 0; k < length; ++k) {
      line.push_back(parts[static_cast<std::size_t>(begin + k * inner)]);
    }
    std::optional<Part> one = combine(line);
    if (!one) return std::nullopt;
    result.push_back(std::move(*one));
  }
  return result;
}

class LabelSearch {
 public:
  LabelSearch(const Part& whole, const MeshLayout& layout, double relative)
      : whole_(whole), layout_(layout), allowed_(relative * largest_finite(whole.numbers)) {}

  // `order`: the mesh dims as they are removed.
  std::optional<Label> run(const Parts& parts, const std::vector<std::size_t>& order) {
    found_ = Placements(layout_.ndim(), Placement::replicate());
    if (!take_away(parts, layout_.shape(), order, 0)) return std::nullopt;
    Label label{found_, ShardOrder(found_.size(), -1)};
    for (std::size_t at = order.size(); at-- > 0;) {  // the last cut was put together first
      if (!found_[order[at]].is_shard()) continue;
      std::int32_t& place = label.order[order[at]] = 0;
      for (std::size_t before = at + 1; before < order.size(); ++before) {
        place += found_[order[before]] == found_[order[at]] ? 1 : 0;
      }
    }
    return label;
  }

 private:
  // Putting together makes no dim shorter.
  bool too_large(const Part& part) const {
    if (part.shape.size() != whole_.shape.size()) return true;
    for (std::size_t dim = 0; dim < part.shape.size(); ++dim) {
      if (part.shape[dim] > whole_.shape[dim]) return true;
    }
    return false;
  }

  // `sizes`: of the mesh that `parts` are on; 1 along removed dims.
  bool take_away(const Parts& parts, const Dims& sizes, const std::vector<std::size_t>& order,
                 std::size_t at) {
    if (too_large(parts[0])) return false;
    if (at == order.size()) return same(parts[0], whole_, allowed_);
    const std::size_t mesh_dim = order[at];
    if (sizes[mesh_dim] == 1) return take_away(parts, sizes, order, at + 1);
    const auto tried = [&](Placement placement, const auto& combine) {
      const std::optional<Parts> less = along(parts, sizes, mesh_dim, combine);
      if (!less) return false;
      found_[mesh_dim] = placement;
      Dims smaller = sizes;
      smaller[mesh_dim] = 1;
      return take_away(*less, smaller, order, at + 1);
    };
    const auto first = [&](const Parts& line) -> std::optional<Part> {
      const auto like = [&](const Part& part) { return same(part, line[0], allowed_); };
      return std::ranges::all_of(line, like) ? std::optional(line[0]) : std::nullopt;
    };
    if (tried(Placement::replicate(), first)) return true;
    for (std::size_t dim = 0; dim < whole_.shape.size(); ++dim) {
      const auto pieces = [&](const Parts& line) { return joined(line, dim); };
      if (tried(Placement::shard(static_cast<int>(dim)), pieces)) return true;
    }
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kMax, ReduceOp::kMin}) {
      const auto terms = [&](const Parts& line) { return reduced(line, op); };
      if (tried(Placement::partial(op), terms)) return true;
    }
    return false;
  }

  const Part& whole_;
  const MeshLayout& layout_;
  double allowed_;
  Placements found_;
};

// The mesh dims in the order in which they are put together under a label: the last cut first.
std::vector<std::size_t> removal_of(const Label& label) {
  std::vector<std::size_t> order(label.placements.size());
  for (std::size_t dim = 0; dim < order.size(); ++dim) order[dim] = dim;
  std::ranges::stable_sort(order, std::ranges::greater(),
                           [&](std::size_t dim) { return label.order[dim]; });
  return order;
}

// Along which mesh dims the ranks' parts differ, as bits.
std::uint32_t varying(const Parts& parts, const MeshLayout& layout, double allowed) {
  std::uint32_t dims = 0;
  for (std::size_t dim = 0; dim < layout.ndim(); ++dim) {
    for (std::int64_t i = 0; i < layout.size(); ++i) {
      Coordinate coordinate = layout.coordinate_at_index(i);
      coordinate[dim] = 0;
      const auto first = static_cast<std::size_t>(layout.index_of(coordinate));
      if (same(parts[static_cast<std::size_t>(i)], parts[first], allowed)) continue;
      dims |= 1U << dim;
      break;
    }
  }
  return dims;
}

// Rows of each rank in rising order, all rows once.
bool deals_rows(const std::vector<std::int64_t>& rows, const std::vector<std::int64_t>& lengths) {
  auto begin = rows.begin();
  for (const std::int64_t length : lengths) {
    if (!std::is_sorted(begin, begin + length)) return false;
    begin += length;
  }
  return true;
}

// Rows of ranks that take turns, and those of a zigzag: the first and the last piece, and so on.
std::vector<std::vector<std::int64_t>> usual_orders(std::int64_t rows, std::int64_t ranks) {
  std::vector<std::int64_t> turns, zigzag;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    for (std::int64_t row = rank; row < rows; row += ranks) turns.push_back(row);
    const std::int64_t piece = rows / (2 * ranks);
    for (const std::int64_t first : {rank * piece, (2 * ranks - 1 - rank) * piece}) {
      for (std::int64_t row = first; row < first + piece; ++row) zigzag.push_back(row);
    }
  }
  if (rows % (2 * ranks) != 0) zigzag.clear();
  return {std::move(turns), std::move(zigzag)};
}

std::optional<Label> label_by_rows(const std::vector<GlobalValue>& held, const Parts& parts,
                                   const GlobalValue& whole, const MeshLayout& layout,
                                   double relative) {
  const double allowed = relative * largest_finite(whole.reals);
  const std::uint32_t dims = varying(parts, layout, allowed);
  if (dims == 0) return std::nullopt;
  Label label{Placements(layout.ndim(), Placement::replicate()), ShardOrder(layout.ndim(), -1)};
  for (std::size_t tensor_dim = 0; tensor_dim < whole.meta.shape.size(); ++tensor_dim) {
    std::int32_t place = 0;
    for (std::size_t dim = 0; dim < layout.ndim(); ++dim) {
      if ((dims >> dim & 1) == 0) continue;
      label.placements[dim] = Placement::shard(static_cast<std::int64_t>(tensor_dim));
      label.order[dim] = place++;
    }
    std::vector<std::int64_t> lengths;
    std::int64_t rows = 0;
    for (std::int64_t i = 0; i < layout.size(); ++i) {
      const Coordinate at = layout.coordinate_at_index(i);
      bool first = true;
      for (std::size_t dim = 0; dim < at.size(); ++dim) {
        first = first && ((dims >> dim & 1) != 0 || at[dim] == 0);
      }
      const Dims& shape = held[static_cast<std::size_t>(i)].meta.shape;
      if (shape.size() != whole.meta.shape.size()) return std::nullopt;
      if (first) lengths.push_back(shape[tensor_dim]);
      if (first) rows += shape[tensor_dim];
    }
    if (rows != whole.meta.shape[tensor_dim]) continue;
    const GlobalValue joined = put_together(held, label, layout);
    const auto order = row_order(joined, whole, tensor_dim, relative);
    if (order && deals_rows(*order, lengths)) label.rows = *order;
    for (auto& usual : usual_orders(rows, std::ssize(lengths))) {
      if (label.by_rows() || std::ssize(usual) != rows) continue;
      const GlobalValue dealt = in_order(whole, tensor_dim, usual);
      if (close_numbers(dealt, joined, relative)) label.rows = std::move(usual);
    }
    if (label.by_rows()) return label;
  }
  return std::nullopt;
}

std::string text_of(const Placement& placement, const std::string& mesh_dim) {
  if (placement.is_shard()) {
    return fmt::format("its piece of dim {}, which {} cuts", placement.dim, mesh_dim);
  }
  return fmt::format("a term of {} over {}", text_of(placement.op), mesh_dim);
}

}  // namespace

bool Label::has_terms() const {
  return std::ranges::any_of(placements, [](const Placement& p) { return p.is_partial(); });
}

bool Label::is_average() const {
  return std::ranges::none_of(
      placements, [](const Placement& p) { return p.is_partial() && p.op != ReduceOp::kAvg; });
}

bool Label::is_replicated() const {
  return std::ranges::all_of(placements, &Placement::is_replicate);
}

bool one_holds_all(const std::vector<GlobalValue>& held, const GlobalValue& whole,
                   double relative) {
  const Part all = part_of(whole);
  const double allowed = relative * largest_finite(all.numbers);
  return all.numbers.size() > 1 && std::ranges::any_of(held, [&](const GlobalValue& value) {
           return same(part_of(value), all, allowed);
         });
}

bool is_extreme(ReduceOp op) { return op == ReduceOp::kMax || op == ReduceOp::kMin; }

const char* text_of(ReduceOp op) {
  return op == ReduceOp::kSum   ? "a sum"
         : op == ReduceOp::kAvg ? "an average"
         : op == ReduceOp::kMax ? "a maximum"
                                : "a minimum";
}

std::optional<Label> label_of(const std::vector<GlobalValue>& held, const GlobalValue& whole,
                              const MeshLayout& layout, double relative) {
  Parts parts;
  std::int64_t elements = 0;
  for (const GlobalValue& value : held) {
    elements += product(value.meta.shape);
    if (elements > kMostLabelled) return std::nullopt;
    parts.push_back(part_of(value));
  }
  if (whole.is_integral()) relative = 0;
  const Part alone = part_of(whole);
  LabelSearch search(alone, layout, relative);
  std::vector<std::size_t> cut_first;
  for (std::size_t dim = 0; dim < layout.ndim(); ++dim) cut_first.push_back(dim);
  do {  // in the mesh's order first; the last cut is put together first
    const std::vector<std::size_t> order(cut_first.rbegin(), cut_first.rend());
    if (auto found = search.run(parts, order)) return found;
  } while (layout.ndim() <= kMostOrdered && std::ranges::next_permutation(cut_first).found);
  return label_by_rows(held, parts, whole, layout, relative);
}

GlobalValue put_together(const std::vector<GlobalValue>& held, const Label& label,
                         const MeshLayout& layout) {
  Parts parts;
  for (const GlobalValue& value : held) parts.push_back(part_of(value));
  Dims sizes = layout.shape();
  for (const std::size_t mesh_dim : removal_of(label)) {
    const Placement& placement = label.placements[mesh_dim];
    const auto combine = [&](const Parts& line) -> std::optional<Part> {
      if (placement.is_shard()) return joined(line, static_cast<std::size_t>(placement.dim));
      return placement.is_partial() ? reduced(line, placement.op) : std::optional(line[0]);
    };
    auto less = along(parts, sizes, mesh_dim, combine);
    if (!less) return {};
    parts = std::move(*less);
    sizes[mesh_dim] = 1;
  }
  return value_from(std::move(parts[0]), held[0].meta.dtype);
}

std::optional<GlobalValue> joined(const std::vector<GlobalValue>& values, std::size_t dim) {
  const DType dtype = values[0].meta.dtype;
  const bool fits = dim < values[0].meta.shape.size() &&
                    std::ranges::all_of(values, [&](const GlobalValue& value) {
                      return value.meta.dtype == dtype;
                    });
  Parts parts;
  for (const GlobalValue& value : values) parts.push_back(part_of(value));
  auto whole = fits ? joined(parts, dim) : std::nullopt;
  return whole ? std::optional(value_from(std::move(*whole), dtype)) : std::nullopt;
}

static std::string arguments_of(const Placements& placements, const MeshLayout& layout) {
  std::string text;
  for (std::size_t dim = 0; dim < placements.size(); ++dim) {
    text += fmt::format("{}{}={}", dim == 0 ? "" : ", ", layout.names()[dim],
                        to_string(placements[dim]));
  }
  return text;
}

std::string arguments_of(const Label& label, const MeshLayout& layout) {
  return arguments_of(encode_strided(label.placements, label.order, layout.shape()), layout);
}

std::string arguments_of(const DTensorSpec& spec) {
  if (spec.has_strided()) return arguments_of(spec.placements(), *spec.layout());
  return arguments_of(Label{spec.placements(), spec.order()}, *spec.layout());
}

std::string text_of(const Label& label, const MeshLayout& layout) {
  std::string text;
  for (std::size_t dim = 0; dim < layout.ndim(); ++dim) {
    if (label.placements[dim].is_replicate()) continue;
    text += fmt::format("{}{}", text.empty() ? "" : " and ",
                        text_of(label.placements[dim], layout.names()[dim]));
  }
  if (text.empty()) return "all ranks hold the same";
  return "each rank holds " + text + (label.by_rows() ? ", in an order of its own" : "");
}

}  // namespace shardlab
