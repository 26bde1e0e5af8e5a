// Terms over a mesh dim that no later reduction has accuse the group; then what its ranks hold.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "sim/verify/labels/accused.h"

namespace shardlab {

namespace {

bool reduces(const LoggedCall& call) {
  return call.kind == LoggedCall::Kind::kCollective &&
         (call.collective == CollectiveKind::kAllReduce ||
          call.collective == CollectiveKind::kReduce ||
          call.collective == CollectiveKind::kReduceScatter);
}

std::string group_of(const LoggedCall& call) {
  return call.group.empty() ? std::string("all ranks") : text_of_list(call.group, " and ");
}

// Another reduction than that of the terms that it was given, or pieces.
std::optional<Cause> of_reduction(const MatchedCall& call, const MeshLayout& layout) {
  const LoggedCall& own = call.own();
  const Placements& given = call.operands[0]->placements;
  for (std::size_t dim = 0; dim < layout.ndim(); ++dim) {
    if (layout.size(dim) < 2 || !in_group(own, layout, dim)) continue;
    if (given[dim].is_shard()) {
      return found(call, causes::kOnPieces,
                   fmt::format("{} reduces over {} pieces of dim {}, which {} cuts", at(call),
                               group_of(own), given[dim].dim, layout.names()[dim]));
    }
    if (!given[dim].is_partial() || given[dim].op == own.reduction) continue;
    const std::string taken =
        fmt::format("{} takes the {} over {} of terms of {}: ", at(call), to_string(own.reduction),
                    group_of(own), shardlab::text_of(given[dim].op));
    if (is_extreme(given[dim].op) || is_extreme(own.reduction)) {
      return found(call, causes::kOtherReduction,
                   fmt::format("{}reduce them with {}", taken, to_string(given[dim].op)));
    }
    return found(call, causes::kFactor,
                 fmt::format("{}it is {}{}", taken,
                             own.reduction == ReduceOp::kAvg ? "1/" : "times ", own.group_size));
  }
  return std::nullopt;
}

}  // namespace

std::optional<Cause> accused_collective(const StepsOnPath& of, const MatchedCall& call) {
  const LoggedCall& own = call.own();
  const MeshLayout& layout = *of.layout;
  const std::string group = group_of(own);
  if (!call.operands[0]) return std::nullopt;
  const Placements& given = call.operands[0]->placements;
  const auto step = static_cast<std::size_t>(&call - of.calls.data());
  std::vector<std::string> left, copies;
  for (std::size_t dim = 0; dim < layout.ndim() && reduces(own); ++dim) {
    if (layout.size(dim) < 2) continue;
    const bool inside = in_group(own, layout, dim);
    auto& names = inside ? copies : left;
    const bool named = inside ? given[dim].is_replicate()
                              : given[dim].is_partial() && !reduced_behind(of, step, dim);
    if (named) names.push_back(layout.names()[dim]);
  }
  if (!left.empty()) {
    return found(call, causes::kWrongGroup,
                 fmt::format("{} reduces over {}, and ranks hold terms over {}", at(call), group,
                             text_of_list(left, " and ")));
  }
  if (auto other = reduces(own) ? of_reduction(call, layout) : std::nullopt) return other;
  if (!copies.empty()) {
    return found(call, causes::kFactor,
                 fmt::format("{} adds up over {} what its ranks hold alike: it counts {} times",
                             at(call), text_of_list(copies, " and "), own.group_size));
  }
  if (own.collective == CollectiveKind::kReduce) {
    return found(
        call, causes::kMissingSum,
        fmt::format("{} gives the {} over {} to one rank, and others go on with their own: "
                    "all_reduce gives it to all",
                    at(call), to_string(own.reduction), group));
  }
  if (own.collective == CollectiveKind::kBroadcast) {
    return found(call, causes::kOtherChunk,
                 fmt::format("{} gives each of {} what one of them has", at(call),
                             own.group.empty() ? group : "the ranks of " + group));
  }
  return found(
      call, causes::kOtherLabel,
      fmt::format("{} over {} puts pieces together that are cut in another way", at(call), group));
}

bool reduced_behind(const StepsOnPath& of, std::size_t step, std::size_t mesh_dim) {
  std::set<int> made = {static_cast<int>(step)};
  for (std::size_t i = step + 1; i < of.calls.size(); ++i) {
    const bool follows = std::ranges::any_of(of.calls[i].producers,
                                             [&](int producer) { return made.contains(producer); });
    if (!follows) continue;
    made.insert(static_cast<int>(i));
    if (reduces(of.calls[i].own()) && in_group(of.calls[i].own(), *of.layout, mesh_dim))
      return true;
  }
  return false;
}

std::string at(const MatchedCall& call) {
  std::string text = call.own().name();
  const bool gradient = call.own().kind == LoggedCall::Kind::kGradient;
  if (call.own().pass == Pass::kBackward) text = gradient ? "backward" : "the backward of " + text;
  return fmt::format("{} in line {}", text, call.own().position.line);
}

Cause found(const MatchedCall& call, std::string_view id, std::string text) {
  return {id, std::move(text), call.own().position.line};
}

bool in_group(const LoggedCall& call, const MeshLayout& layout, std::size_t mesh_dim) {
  if (call.group_size == layout.size()) return true;
  return std::ranges::count(call.group, layout.names()[mesh_dim]) > 0;
}

Cause terms_of(const MeshLayout& layout, const MatchedCall& call) {
  std::string terms, missing;
  for (std::size_t dim = 0; dim < layout.ndim(); ++dim) {
    const Placement& placement = call.results[0]->placements[dim];
    if (!placement.is_partial()) continue;
    const std::string& name = layout.names()[dim];
    terms += fmt::format("{} a term of {} over {}", terms.empty() ? "" : " and",
                         shardlab::text_of(placement.op), name);
    missing +=
        fmt::format("{}{} over {}", missing.empty() ? "" : " and ", to_string(placement.op), name);
  }
  return found(call, causes::kMissingSum,
               fmt::format("{} gives each rank{}, and nothing reduces it: an all_reduce with {} is "
                           "missing behind it",
                           at(call), terms, missing));
}

}  // namespace shardlab
