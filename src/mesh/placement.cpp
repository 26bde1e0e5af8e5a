// Text, hash and the few questions about placements. Table shapes of mask partials are interned, so
// that a placement stays a small value without memory of its own.
#include "mesh/placement.h"

#include <fmt/format.h>

#include "base/text.h"
#include "mesh/placement_dims.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <concepts>
#include <deque>
#include <mutex>
#include <vector>

#include "base/read_real.h"

namespace shardlab {
namespace {

/// Shapes of tables behind mask partials. A handful per process: a scan is enough.
struct MaskShapes {
  std::mutex mutex;
  std::deque<Dims> shapes;
};

MaskShapes& mask_shapes() {
  static MaskShapes table;
  return table;
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

std::from_chars_result read_number(const char* first, const char* last, double& value) {
  return read_real(first, last, value);
}
std::from_chars_result read_number(const char* first, const char* last, std::integral auto& value) {
  return std::from_chars(first, last, value);
}

template <typename Number>
std::optional<Number> parse_number(std::string_view text) {
  text = trim(text);
  Number value{};
  const auto [end, error] = read_number(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t at = text.find(separator);
    parts.push_back(trim(text.substr(0, at)));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

std::optional<std::int32_t> parse_dim(std::string_view text) {
  return parse_number<std::int32_t>(text);
}

std::optional<Placement> parse_mask(std::span<const std::string_view> arguments) {
  if (arguments.size() != 3) return std::nullopt;
  const auto op = parse_reduce_op(arguments[0]);
  const auto dim = parse_dim(arguments[2]);
  if (!op || !dim) return std::nullopt;
  Dims shape;
  for (const std::string_view size : split(arguments[1], 'x')) {
    const auto value = parse_number<std::int64_t>(size);
    if (!value || *value < 0) return std::nullopt;
    shape.push_back(*value);
  }
  return Placement::mask_partial(*op, intern_mask_shape(shape), *dim);
}

// Names that PyTorch and its printed forms have, in addition to ours.
struct Alias {
  std::string_view name, means;
};
constexpr Alias kAliases[] = {
    {"Partial", "P"}, {"Shard", "S"}, {"_NormP", "NP"}, {"_S", "SS"}, {"_StridedShard", "SS"}};

std::optional<Placement> parse_call(std::string_view name,
                                    std::span<const std::string_view> arguments) {
  const auto alias = std::ranges::find(kAliases, name, &Alias::name);
  if (alias != std::end(kAliases)) name = alias->means;
  if (name == "MP") return parse_mask(arguments);
  if (name == "S" && arguments.size() == 1) {
    const auto dim = parse_dim(arguments[0]);
    return dim ? std::optional(Placement::shard(*dim)) : std::nullopt;
  }
  if (name == "SS" && arguments.size() == 2) {
    const auto dim = parse_dim(arguments[0]);
    const auto factor = parse_number<std::int64_t>(arguments[1]);
    if (!dim || !factor || *factor < 1) return std::nullopt;
    return Placement::strided_shard(*dim, *factor);
  }
  if (name == "P" && arguments.size() == 1) {
    const auto op = parse_reduce_op(arguments[0]);
    return op ? std::optional(Placement::partial(*op)) : std::nullopt;
  }
  if (name == "NP" && arguments.size() == 1) {
    const auto norm = parse_number<double>(arguments[0]);
    return norm ? std::optional(Placement::norm_partial(*norm)) : std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

MaskShapeId intern_mask_shape(std::span<const std::int64_t> shape) {
  MaskShapes& table = mask_shapes();
  const Dims wanted(shape);
  const std::lock_guard lock(table.mutex);
  for (std::size_t id = 0; id < table.shapes.size(); ++id) {
    if (table.shapes[id] == wanted) return static_cast<MaskShapeId>(id);
  }
  table.shapes.push_back(wanted);
  return static_cast<MaskShapeId>(table.shapes.size() - 1);
}

Dims mask_shape(MaskShapeId id) {
  if (id < 0) return {};
  MaskShapes& table = mask_shapes();
  const std::lock_guard lock(table.mutex);
  return table.shapes.at(static_cast<std::size_t>(id));
}

std::uint64_t hash_of(const Placement& placement) {
  const auto head = static_cast<std::uint64_t>(placement.kind) |
                    static_cast<std::uint64_t>(placement.op) << 8 |
                    static_cast<std::uint64_t>(static_cast<std::uint32_t>(placement.dim)) << 16;
  std::uint64_t hash = hash_mix(head, static_cast<std::uint64_t>(placement.split_factor));
  if (placement.kind >= PlacementKind::kNormPartial) {
    hash = hash_mix(hash, std::bit_cast<std::uint64_t>(placement.norm));
    hash = hash_mix(hash, static_cast<std::uint64_t>(placement.mask + 1));
  }
  return hash;
}

bool may_mix(const Placement& a, const Placement& b) {
  if (a == b) return true;
  const auto adds = [](const Placement& p) {
    return p.is_partial(ReduceOp::kSum) || p.is_partial(ReduceOp::kAvg);
  };
  return adds(a) && adds(b);
}

Placements without_partials(Placements placements) {
  for (Placement& placement : placements) {
    if (placement.is_partial()) placement = Placement::replicate();
  }
  return placements;
}

void normalize_dims(Placements& placements, std::size_t ndim) {
  const auto count = static_cast<std::int64_t>(ndim);
  for (Placement& placement : placements) {
    if (!placement.is_shard() || placement.dim >= 0) continue;
    if (placement.dim + count < 0) throw no_such_dim(placement, ndim);
    placement.dim += static_cast<std::int32_t>(count);
  }
}

Error no_such_dim(const Placement& placement, std::size_t ndim) {
  return Error(ErrorKind::kValue,
               fmt::format("placement {} shards a dim that a tensor of {} dims does not have",
                           to_string(placement), ndim))
      .with("fix", ndim == 0   ? std::string("a tensor without dims is R or partial")
                   : ndim == 1 ? "cut its only dim: S(0)"
                               : fmt::format("cut one of its dims: S(0) to S({})", ndim - 1));
}

std::string to_string(const Placement& placement) {
  switch (placement.kind) {
    case PlacementKind::kReplicate:
      return "R";
    case PlacementKind::kShard:
      return fmt::format("S({})", placement.dim);
    case PlacementKind::kStridedShard:
      return fmt::format("SS({},{})", placement.dim, placement.split_factor);
    case PlacementKind::kPartial:
      return fmt::format("P({})", to_string(placement.op));
    case PlacementKind::kNormPartial:
      return fmt::format("NP({})", placement.norm);
    case PlacementKind::kMaskPartial:
      if (placement.mask < 0) return "MP";
      return fmt::format("MP({},{},{})", to_string(placement.op),
                         text_of_list(mask_shape(placement.mask), "x"), placement.dim);
  }
  return "?";
}

std::string to_string(const Placements& placements) {
  std::string text;
  for (const Placement& placement : placements) text += to_string(placement);
  return text;
}

std::optional<Placement> parse_placement(std::string_view text) {
  text = trim(text);
  if (text == "R" || text == "Replicate()") return Placement::replicate();
  if (text == "Partial()") return Placement::partial();
  if (text == "MP") return Placement::mask_partial(ReduceOp::kSum, -1, 0);
  const std::size_t open = text.find('(');
  if (open == std::string_view::npos || text.back() != ')') return std::nullopt;
  const std::string_view inside = text.substr(open + 1, text.size() - open - 2);
  return parse_call(trim(text.substr(0, open)), split(inside, ','));
}

}  // namespace shardlab
