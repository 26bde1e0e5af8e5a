// The two passes of propagate_view: first which shards may stay, then what they are called in the
// output. Both walk the reference's steps, since later placements depend on their order.
#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "ops/view_map.h"

namespace shardlab {
namespace {

using Kind = DimSource::Kind;

std::size_t at(std::int64_t dim) { return static_cast<std::size_t>(dim); }

[[noreturn]] void refuse(std::string summary, ErrorKind kind = ErrorKind::kRuntime) {
  throw Error(kind, std::move(summary)).with("fix", "redistribute the input before the view");
}

class ViewPropagation {
 public:
  ViewPropagation(const Placements& placements, std::span<const std::int64_t> shape,
                  const ViewMap& map, std::span<const std::int64_t> mesh_sizes, ViewPolicy policy)
      : source_(placements),
        shape_(shape),
        map_(map),
        mesh_(mesh_sizes),
        strict_(policy == ViewPolicy::kStrict),
        allowed_(shape.size()),
        outputs_of_(shape.size()) {}

  ViewPlacements run() {
    for (auto& per_mesh_dim : allowed_) per_mesh_dim.assign(mesh_.size(), false);
    for (const DimSource& source : map_) {
      for (const std::int64_t dim : source.inputs) allow_all(dim, true);
    }
    for (std::size_t output = 0; output < map_.size(); ++output) analyze(output);
    ViewPlacements result{input_targets(), {}};
    result.outputs = rewrite(result.inputs);
    return result;
  }

 private:
  void allow_all(std::int64_t dim, bool value) { std::ranges::fill(allowed_[at(dim)], value); }
  bool divides(std::int64_t size, std::size_t mesh_dim) const {
    return size % mesh_[mesh_dim] == 0;
  }

  // First pass: allowed_ and outputs_of_.
  void analyze(std::size_t output) {
    const DimSource& source = map_[output];
    const auto dim = static_cast<std::int64_t>(output);
    switch (source.kind) {
      case Kind::kNew:
      case Kind::kBroadcast:
        return;
      case Kind::kRepeat:
        return allow_all(source.inputs[0], false);
      case Kind::kInput:
        return outputs_of_[at(source.inputs[0])].push_back(dim);
      case Kind::kFlatten:
        for (const std::int64_t input : analyze_flatten(source)) {
          outputs_of_[at(input)].push_back(dim);
        }
        return;
      case Kind::kSplit: {
        const std::int64_t input = analyze_split(source);
        if (source.part == 0) {
          outputs_of_[at(input)].push_back(dim);
        } else if (!outputs_of_[at(source.inputs[0])].empty()) {
          outputs_of_[at(source.inputs[0])].push_back(dim);
        }
        return;
      }
    }
  }

  bool is_plain(std::size_t mesh_dim, std::int64_t dim) const {
    return source_[mesh_dim].is_plain_shard() && source_[mesh_dim].dim == dim;
  }

  /// The first mesh dim that shards `dim` plainly; the number of mesh dims when none does.
  std::size_t outermost(std::int64_t dim) const {
    std::size_t m = 0;
    while (m < source_.size() && !is_plain(m, dim)) ++m;
    return m;
  }

  /// Per mesh dim: whether it divides what the earlier plain shards of input dim `dim`, where they
  /// divide, leave of `size`.
  std::vector<char> even_cuts(std::int64_t dim, std::int64_t size) const {
    std::vector<char> even(mesh_.size());
    for (std::size_t m = 0; m < mesh_.size(); ++m) {
      even[m] = divides(size, m);
      if (even[m] && is_plain(m, dim)) size /= mesh_[m];
    }
    return even;
  }

  /// Mesh dims before `end` must cut `size` evenly where they shard `dim`.
  void require_even(const char* what, std::int64_t dim, std::int64_t size, std::size_t end) const {
    const std::vector<char> even = even_cuts(dim, size);
    for (std::size_t m = 0; m < end; ++m) {
      if (is_plain(m, dim) && !even[m]) refuse_uneven(what, dim, size, m);
    }
  }

  /// How many mesh dims must cut `dim` evenly. A split behind the first flattened dim gathers, so
  /// there only the outermost cut is looked at, as in the reference.
  std::size_t checked(std::int64_t dim, bool all_stay) const {
    return all_stay ? mesh_.size() : std::min(outermost(dim) + 1, mesh_.size());
  }

  /// The input dims whose shards survive, or the first one when none is sharded.
  Dims analyze_flatten(const DimSource& source) {
    Dims sharded;
    for (std::size_t i = 0; i < source.inputs.size(); ++i) {
      const std::int64_t dim = source.inputs[i];
      if (outermost(dim) == mesh_.size()) continue;
      const bool last = i + 1 == source.inputs.size();
      const bool all_stay = source.kind == Kind::kFlatten || i == 0;
      if (strict_ && !last) require_even("flatten", dim, shape_[at(dim)], checked(dim, all_stay));
      if (strict_ || i == 0) sharded.push_back(dim);
      allow_all(dim, strict_);
      if (!strict_ && i == 0) allow_until_uneven(dim);
    }
    if (sharded.empty()) sharded.push_back(source.inputs[0]);
    return sharded;
  }

  /// Mesh dims before the first uneven cut may keep their shards of `dim`, if one of them cuts it.
  void allow_until_uneven(std::int64_t dim) {
    const std::vector<char> even = even_cuts(dim, shape_[at(dim)]);
    bool cut = false;
    std::size_t end = 0;
    for (; end < mesh_.size() && (even[end] || !is_plain(end, dim)); ++end) {
      cut = cut || is_plain(end, dim);
    }
    if (cut) std::fill_n(allowed_[at(dim)].begin(), end, true);
  }

  std::int64_t analyze_split(const DimSource& source) {
    // Once per group: the reference asks again for each part, which forgets that the first part
    // could not be cut evenly.
    if (source.part == 0) {
      split_input_ = source.inputs.size() > 1 ? analyze_flatten(source)[0] : source.inputs[0];
    }
    const std::int64_t input = split_input_;
    // A shard behind the first flattened dim would need a strided shard between the flatten and the
    // split: that mesh dim is gathered even by strict views.
    for (std::size_t i = 1; i < source.inputs.size(); ++i) {
      for (std::size_t m = 0; m < source_.size(); ++m) {
        if (!is_plain(m, source.inputs[i])) continue;
        allowed_[at(source.inputs[i])][m] = false;
        gathered_anyway_.insert({source.inputs[i], m});
      }
    }
    const std::optional<std::size_t> shard = find_shard_for_split(source, input);
    if (source.part == 0) allow_first_part(source, input);
    if (shard && source_[*shard].is_strided_shard()) accept_strided(source, input, *shard);
    return input;
  }

  void allow_first_part(const DimSource& source, std::int64_t input) {
    const std::int64_t size = source.group[0];
    if (strict_) {
      require_even("unflatten", input, size, checked(input, input == source.inputs[0]));
    }
    const std::vector<char> even = even_cuts(input, size);
    for (std::size_t m = 0; m < mesh_.size(); ++m) allowed_[at(input)][m] &= even[m];
  }

  /// The last part may be cut unevenly: its local size follows from the others.
  void accept_strided(const DimSource& source, std::int64_t input, std::size_t mesh_dim) {
    const std::int64_t size = source.group[source.part];
    const bool last = source.part + 1 == source.group.size();
    const bool fits = last || divides(size, mesh_dim);
    if (strict_ && !fits) refuse_uneven("unflatten", input, size, mesh_dim);
    matched_.insert(mesh_dim);
    allowed_[at(input)][mesh_dim] = fits;
  }

  std::optional<std::size_t> find_shard_for_split(const DimSource& source, std::int64_t dim) const {
    for (std::size_t mesh_dim = 0; mesh_dim < source_.size(); ++mesh_dim) {
      const Placement& placement = source_[mesh_dim];
      if (!placement.is_shard(dim) || matched_.contains(mesh_dim)) continue;
      if (placement.is_plain_shard()) return mesh_dim;
      if (expected_factor(source, dim, mesh_dim, source_) == placement.split_factor)
        return mesh_dim;
    }
    return std::nullopt;
  }

  /// The length left of the part, as left over by the earlier mesh dims; none when it does not
  /// divide.
  std::optional<std::int64_t> expected_factor(const DimSource& source, std::int64_t dim,
                                              std::size_t mesh_dim,
                                              const Placements& placements) const {
    std::int64_t factor = product(std::span(source.group.data(), source.part));
    for (std::size_t m = 0; m < mesh_dim; ++m) {
      if (!placements[m].is_shard(dim)) continue;
      if (!divides(factor, m)) return std::nullopt;
      factor /= mesh_[m];
    }
    return factor;
  }

  Placements input_targets() const {
    Placements targets = source_;
    for (std::size_t mesh_dim = 0; mesh_dim < source_.size(); ++mesh_dim) {
      const Placement& placement = source_[mesh_dim];
      if (!placement.is_shard() || allowed_[at(placement.dim)][mesh_dim]) continue;
      if (strict_ && !gathered_anyway_.contains({placement.dim, mesh_dim})) {
        refuse(fmt::format("the view removes or reshapes dim {}, which is sharded", placement.dim));
      }
      targets[mesh_dim] = Placement::replicate();
    }
    return targets;
  }

  // Second pass.
  Placements rewrite(const Placements& targets) {
    left_over_ = Dims(shape_);
    Placements outputs = targets;
    for (std::size_t mesh_dim = 0; mesh_dim < targets.size(); ++mesh_dim) {
      const Placement& placement = targets[mesh_dim];
      if (!placement.is_shard()) continue;
      const Dims candidates = unclaimed_outputs(placement.dim);
      outputs[mesh_dim] = placement.is_plain_shard()
                              ? rewrite_plain(targets, mesh_dim, candidates)
                              : rewrite_strided(targets, mesh_dim, candidates);
      left_over_[at(placement.dim)] /= mesh_[mesh_dim];
    }
    return outputs;
  }

  Dims unclaimed_outputs(std::int64_t dim) const {
    if (outputs_of_[at(dim)].empty()) {
      refuse(fmt::format("dim {} is sharded and has no dim of its own in the view's result "
                         "(a dim of size 1 is expanded)",
                         dim),
             ErrorKind::kValue);
    }
    Dims result;
    for (const std::int64_t output : outputs_of_[at(dim)]) {
      if (!claimed_.contains({dim, output})) result.push_back(output);
    }
    if (result.empty()) {
      refuse(
          fmt::format("every dim of the view's result that dim {} maps to is already sharded by "
                      "an earlier mesh dim",
                      dim));
    }
    return result;
  }

  Placement rewrite_plain(const Placements& targets, std::size_t mesh_dim, const Dims& candidates) {
    const std::int64_t dim = targets[mesh_dim].dim;
    std::int64_t output = candidates[0];
    if (candidates.size() > 1) output = first_part(candidates, dim);
    const DimSource& source = map_[at(output)];
    if (source.kind != Kind::kFlatten) return Placement::shard(output);
    const std::int64_t first = source.inputs.front(), last = source.inputs.back();
    // An uneven cut leaves the ranks with different numbers of groups, so no split factor would fit
    // them all; only the last cut of the flattened dims may differ between ranks.
    if (!divides(left_over_[at(dim)], mesh_dim) && cut_again_behind(targets, mesh_dim, last)) {
      refuse_uneven("flatten", dim, left_over_[at(dim)], mesh_dim);
    }
    if (dim == first) return Placement::shard(output);
    const auto left = std::span(left_over_.data() + first, at(dim - first));
    return Placement::strided_shard(output, product(left));
  }

  std::int64_t first_part(const Dims& candidates, std::int64_t dim) const {
    for (const std::int64_t output : candidates) {
      const DimSource& source = map_[at(output)];
      if (source.kind == Kind::kSplit && source.part == 0) return output;
    }
    refuse(fmt::format("the first part of dim {} is already sharded by an earlier mesh dim", dim));
  }

  /// Whether a later mesh dim cuts this dim again, or one behind it up to `last`.
  static bool cut_again_behind(const Placements& targets, std::size_t mesh_dim, std::int64_t last) {
    for (std::size_t later = mesh_dim + 1; later < targets.size(); ++later) {
      const Placement& other = targets[later];
      if (other.is_shard() && other.dim >= targets[mesh_dim].dim && other.dim <= last) return true;
    }
    return false;
  }

  /// A strided shard turns plain where a split undoes the flatten that made it.
  Placement rewrite_strided(const Placements& targets, std::size_t mesh_dim,
                            const Dims& candidates) {
    const Placement& placement = targets[mesh_dim];
    bool splits = false;
    for (const std::int64_t output : candidates) {
      const DimSource& source = map_[at(output)];
      if (source.kind != Kind::kSplit) continue;
      splits = true;
      if (expected_factor(source, placement.dim, mesh_dim, targets) != placement.split_factor) {
        continue;
      }
      claimed_.insert({placement.dim, output});
      return Placement::shard(output);
    }
    for (const std::int64_t output : candidates) {
      if (keeps_stride(map_[at(output)], placement, mesh_dim)) {
        return Placement::strided_shard(output, placement.split_factor);
      }
    }
    if (strict_ && splits) {
      refuse(fmt::format("the view splits dim {}, whose split factor {} fits none of the parts",
                         placement.dim, placement.split_factor));
    }
    return Placement::strided_shard(candidates[0], placement.split_factor);
  }

  /// Whether whole pieces of the strided shard fill whole rows of the part.
  bool keeps_stride(const DimSource& source, const Placement& placement,
                    std::size_t mesh_dim) const {
    const std::int64_t pieces = mesh_[mesh_dim] * placement.split_factor;
    if (source.kind != Kind::kSplit || shape_[at(placement.dim)] % pieces != 0) return false;
    std::int64_t piece = shape_[at(placement.dim)] / pieces;
    for (const std::int64_t dim : source.inputs) {
      if (dim > placement.dim) piece *= shape_[at(dim)];
    }
    const std::size_t behind = source.part + 1;
    const std::int64_t row =
        product(std::span(source.group.data() + behind, source.group.size() - behind));
    return row > 0 && piece >= row && piece % row == 0;
  }

  [[noreturn]] void refuse_uneven(const char* what, std::int64_t dim, std::int64_t size,
                                  std::size_t mesh_dim) const {
    refuse(fmt::format("cannot {} dim {}: its size {} is cut unevenly by mesh dim {} of size {}",
                       what, dim, size, mesh_dim, mesh_[mesh_dim]));
  }

  const Placements& source_;
  std::span<const std::int64_t> shape_;
  const ViewMap& map_;
  std::span<const std::int64_t> mesh_;
  const bool strict_;
  std::vector<std::vector<char>> allowed_;  // [input dim][mesh dim]: may stay sharded
  std::vector<Dims> outputs_of_;            // per input dim
  std::int64_t split_input_ = 0;            // the input dim that the current split is sharded by
  std::set<std::size_t> matched_;           // mesh dims whose strided shard found its part
  std::set<std::pair<std::int64_t, std::size_t>> gathered_anyway_;
  std::set<std::pair<std::int64_t, std::int64_t>> claimed_;  // (input dim, output dim)
  Dims left_over_;  // global shape, divided by the mesh dims done so far
};

}  // namespace

ViewPlacements propagate_view(const Placements& placements, std::span<const std::int64_t> shape,
                              const ViewMap& map, std::span<const std::int64_t> mesh_sizes,
                              ViewPolicy policy) {
  return ViewPropagation(placements, shape, map, mesh_sizes, policy).run();
}

}  // namespace shardlab
