// The effect of a view on placements. In row-major order the elements of a group of dims are one
// sequence, which the input and the output only number differently. A cut of dim d in n pieces sees
// this sequence as [before, length, behind] and cuts the middle: `before` is the product of the
// dims of the group in front of d, times the split factor of a strided shard. The dim of the output
// where the same middle begins takes the same elements of the sequence, and so do later cuts of the
// rest, one mesh dim after another.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "ops/shape/view_map.h"

namespace shardlab {
namespace {

using Kind = DimSource::Kind;

std::size_t at(std::int64_t dim) { return static_cast<std::size_t>(dim); }

/// Dims of the input that become dims of the output, element by element in row-major order.
struct Group {
  Dims inputs;
  Dims outputs;
  Dims left_in;   ///< lengths on a rank after the cuts so far; 1 means that ranks disagree
  Dims left_out;  ///< likewise
  std::int64_t first_part = 1;        ///< length of the first of the outputs
  std::optional<std::int64_t> front;  ///< length before a middle that was cut in unequal pieces

  bool same_dim() const { return inputs.size() == 1 && outputs.size() == 1; }
  bool splits() const { return outputs.size() > 1; }
  bool flattens() const { return inputs.size() > 1; }
};

/// Groups in the order of the output; dims that appear, vanish or repeat belong to none.
std::vector<Group> groups_of(const ViewMap& map, std::span<const std::int64_t> shape) {
  std::vector<Group> groups;
  for (std::size_t output = 0; output < map.size(); ++output) {
    const DimSource& source = map[output];
    const bool further_part = source.kind == Kind::kSplit && source.part > 0;
    if (source.kind == Kind::kNew || source.kind == Kind::kBroadcast ||
        source.kind == Kind::kRepeat) {
      continue;
    }
    if (!further_part) {
      Group& group = groups.emplace_back();
      group.inputs = source.inputs;
      for (const std::int64_t dim : source.inputs) group.left_in.push_back(shape[at(dim)]);
    }
    Group& group = groups.back();
    group.outputs.push_back(static_cast<std::int64_t>(output));
    group.left_out.push_back(source.kind == Kind::kSplit ? source.group[source.part]
                                                         : product(group.left_in));
    group.first_part = group.left_out[0];
  }
  return groups;
}

/// A cut as the sequence of a group sees it, and its name in the output.
struct Carried {
  std::size_t input = 0;          ///< place in the group
  std::size_t output = 0;         ///< place in the group
  std::int64_t given_factor = 1;  ///< split factor in the input, 1 for a plain shard
  std::int64_t factor = 1;        ///< split factor in the output
  std::int64_t before = 1;        ///< elements of the sequence in front of the middle
  bool even = true;
};

class ViewPropagation {
 public:
  ViewPropagation(const Placements& placements, std::span<const std::int64_t> shape,
                  const ViewMap& map, std::span<const std::int64_t> mesh_sizes, ViewPolicy policy)
      : source_(placements),
        shape_(shape),
        map_(map),
        mesh_(mesh_sizes),
        strict_(policy == ViewPolicy::kStrict),
        groups_(groups_of(map, shape)) {}

  /// Shardings that a strict view refuses count as gathered; fault() then names the first of them.
  ViewPlacements run() {
    result_ = {source_, source_};
    for (std::size_t mesh_dim = 0; mesh_dim < source_.size(); ++mesh_dim) {
      if (!source_[mesh_dim].is_shard()) continue;
      const std::optional<Placement> name = carry(mesh_dim);
      if (!name) result_.inputs[mesh_dim] = Placement::replicate();
      result_.outputs[mesh_dim] = name.value_or(Placement::replicate());
    }
    return result_;
  }

  const std::string& fault() const { return fault_; }

 private:
  /// The name in the output of the cut by `mesh_dim`; none where the input is gathered first.
  std::optional<Placement> carry(std::size_t mesh_dim) {
    const Placement& placement = source_[mesh_dim];
    Group* group = group_with(placement.dim);
    if (group == nullptr) {
      require_no_broadcast(placement.dim);
      return gathered(
          fmt::format("the view removes or reshapes dim {}, which is sharded", placement.dim));
    }
    if (group->same_dim()) {
      Placement name = placement;
      name.dim = static_cast<decltype(name.dim)>(group->outputs[0]);
      return name;
    }
    if (gathers_anyway(*group, mesh_dim)) return std::nullopt;
    std::optional<Carried> cut = find(*group, mesh_dim);
    if (!cut && mesh_[mesh_dim] == 1) cut = whole(*group, placement);
    if (!cut) return gathered(reason(*group, mesh_dim));
    apply(*group, *cut, mesh_[mesh_dim]);
    const std::int64_t output = group->outputs[cut->output];
    // The reference writes a flattened shard behind the first dim, and a strided shard that is not
    // split, are written as a strided shard, also of factor 1.
    const bool behind = cut->input > 0 || placement.is_strided_shard();
    const bool plain = cut->factor == 1 && (group->splits() || !behind);
    return plain ? Placement::shard(output) : Placement::strided_shard(output, cut->factor);
  }

  Group* group_with(std::int64_t dim) {
    for (Group& group : groups_) {
      if (std::ranges::find(group.inputs, dim) != group.inputs.end()) return &group;
    }
    return nullptr;
  }

  void require_no_broadcast(std::int64_t dim) const {
    for (const DimSource& source : map_) {
      if (source.kind != Kind::kBroadcast || source.inputs[0] != dim) continue;
      fail(Fix{"redistribute the input before the view"},
           "dim {} is sharded and has no dim of its own in the view's result "
           "(a dim of size 1 is expanded)",
           dim);
    }
  }

  /// The reference keeps a shard behind the first of several flattened dims only in a view that
  /// only flattens; a strict view gathers it silently where it is even. And a flattened dim is
  /// always gathered whole.
  bool gathers_anyway(const Group& group, std::size_t mesh_dim) const {
    const Placement& placement = source_[mesh_dim];
    const bool first = placement.dim == group.inputs[0];
    if (!group.flattens()) return false;
    if (!strict_) return !first || (placement.is_plain_shard() && gathered_before(mesh_dim));
    return !first && placement.is_plain_shard() && group.splits() &&
           outermost_is_even(group, placement.dim);
  }

  bool gathered_before(std::size_t mesh_dim) const {
    for (std::size_t m = 0; m < mesh_dim; ++m) {
      if (source_[m].is_shard(source_[mesh_dim].dim) && result_.inputs[m].is_replicate()) {
        return true;
      }
    }
    return false;
  }

  /// Whether the first plain cut of `dim` divides it and, where it is the first dim of the group
  /// that is cut, the first dim of the output; the last dim of a group may be cut unevenly.
  bool outermost_is_even(const Group& group, std::int64_t dim) const {
    const auto outermost = [&](std::int64_t wanted) {
      return std::ranges::find(source_, Placement::shard(wanted)) - source_.begin();
    };
    const auto none = static_cast<std::ptrdiff_t>(source_.size());
    const std::int64_t pieces = mesh_[at(outermost(dim))];
    if (dim != group.inputs.back() && shape_[at(dim)] % pieces != 0) return false;
    for (const std::int64_t input : group.inputs) {
      if (input == dim) break;
      if (outermost(input) != none) return true;
    }
    return group.first_part % pieces == 0;
  }

  std::optional<Placement> gathered(std::string reason) {
    if (strict_ && fault_.empty()) fault_ = std::move(reason);
    return std::nullopt;
  }

  static std::size_t place(const Group& group, std::int64_t dim) {
    return at(std::ranges::find(group.inputs, dim) - group.inputs.begin());
  }

  /// The dim of the output where the same middle begins, and whether it ends there, too.
  std::optional<Carried> find(const Group& group, std::size_t mesh_dim) const {
    const Placement& placement = source_[mesh_dim];
    const std::size_t input = place(group, placement.dim);
    const std::int64_t factor = placement.is_strided_shard() ? placement.split_factor : 1;
    if (group.left_in[input] % factor != 0) return std::nullopt;
    const std::int64_t before = product(std::span(group.left_in.data(), input)) * factor;
    const std::int64_t length = group.left_in[input] / factor;
    // The number of elements behind unequal pieces differs between ranks.
    if (group.front && *group.front % (before * mesh_[mesh_dim]) != 0) return std::nullopt;
    std::int64_t in_front = 1;
    for (std::size_t output = 0; output < group.outputs.size(); ++output) {
      const std::int64_t left = group.left_out[output];
      if (before % in_front != 0) break;
      const std::int64_t own_factor = before / in_front;
      if (left % own_factor == 0) {
        const std::int64_t own_length = left / own_factor;
        const bool even = length % mesh_[mesh_dim] == 0 && own_length % mesh_[mesh_dim] == 0;
        const bool same = length == own_length && !group.front;
        if (even || (same && may_be_uneven(group, output, own_factor))) {
          return Carried{input, output, factor, own_factor, before, even};
        }
      }
      in_front *= left;
    }
    return std::nullopt;
  }

  /// Unequal pieces are the same only where the middle is; of the parts of a split, as in the
  /// reference, they stay in the last one only, as a plain shard.
  static bool may_be_uneven(const Group& group, std::size_t output, std::int64_t factor) {
    return !group.splits() || (output + 1 == group.outputs.size() && factor == 1);
  }

  /// A mesh dim of size 1 cuts nothing, so any name is right.
  static Carried whole(const Group& group, const Placement& placement) {
    const std::int64_t factor = placement.is_strided_shard() ? placement.split_factor : 1;
    return {place(group, placement.dim), 0, factor, factor, 1, true};
  }

  static void apply(Group& group, const Carried& cut, std::int64_t pieces) {
    if (cut.even) {
      group.left_in[cut.input] /= pieces;
      group.left_out[cut.output] /= pieces;
      if (group.front) *group.front /= pieces;
      return;
    }
    group.front = cut.before;
    group.left_in[cut.input] = cut.given_factor;
    group.left_out[cut.output] = cut.factor;
  }

  std::string reason(const Group& group, std::size_t mesh_dim) const {
    const Placement& placement = source_[mesh_dim];
    const std::int64_t left = group.left_in[place(group, placement.dim)];
    if (placement.is_strided_shard() && group.splits()) {
      return fmt::format("the view splits dim {}, whose split factor {} fits none of the parts",
                         placement.dim, placement.split_factor);
    }
    return fmt::format("cannot {} dim {}: its size {} is cut unevenly by mesh dim {} of size {}",
                       group.splits() ? "unflatten" : "flatten", placement.dim,
                       group.splits() ? group.left_out[0] : left, mesh_dim, mesh_[mesh_dim]);
  }

  const Placements& source_;
  const std::span<const std::int64_t> shape_;
  const ViewMap& map_;
  const std::span<const std::int64_t> mesh_;
  const bool strict_;
  std::vector<Group> groups_;
  ViewPlacements result_;
  std::string fault_;
};

}  // namespace

ViewPlacements propagate_view(const Placements& placements, std::span<const std::int64_t> shape,
                              const ViewMap& map, std::span<const std::int64_t> mesh_sizes,
                              ViewPolicy policy) {
  ViewPropagation view(placements, shape, map, mesh_sizes, policy);
  ViewPlacements result = view.run();
  if (view.fault().empty()) return result;
  fail(ErrorKind::kRuntime,
       Fix{fmt::format("redistribute the input to {} before the view", to_string(result.inputs))},
       "{}", view.fault());
}

}  // namespace shardlab
