// The two states give the pieces that each rank holds before and after a step, and these give how
// much it moves: a ring passes on everything but one piece, an exchange everything outside of the
// intersection of the old piece with the new. Nothing is sent, so that figures of a plan cost
// O(ranks) and are the same everywhere.
#include "plan/measure.h"

#include <algorithm>

#include "plan/bytes_space.h"
#include "plan/cost.h"
#include "plan/predicted_time.h"
#include "plan/state.h"

namespace shardlab {
namespace {

std::int64_t numel(const LocalView& view) {
  std::int64_t elements = 1;
  for (const DimMap& dim : view.dims) elements *= dim.local_size();
  return elements;
}

/// Elements that a rank holds in both states.
std::int64_t kept(const LocalView& before, const LocalView& after) {
  std::int64_t elements = 1;
  for (std::size_t dim = 0; dim < before.dims.size(); ++dim) {
    std::int64_t along = 0;
    for (const IndexRun& a : before.dims[dim].runs) {
      for (const IndexRun& b : after.dims[dim].runs) {
        const std::int64_t start = std::max(a.offset, b.offset);
        const std::int64_t end = std::min(a.offset + a.size, b.offset + b.size);
        along += std::max<std::int64_t>(0, end - start);
      }
    }
    elements *= along;
  }
  return elements;
}

class StepMeasure {
 public:
  StepMeasure(const Plan& plan, std::size_t index, const Topology& topology)
      : plan_(plan),
        step_(plan.steps[index]),
        layout_(*plan.source->layout()),
        topology_(topology) {
    const PlanState before = state_before(plan, index);
    const PlanState after{step_.after, step_.order_after};
    for (std::int64_t rank = 0; rank < layout_.size(); ++rank) {
      const Coordinate coordinate = layout_.coordinate_at_index(rank);
      before_.push_back(state_view(*plan.source, before, coordinate));
      after_.push_back(state_view(*plan.source, after, coordinate));
    }
    mesh_dims_.assign(step_.mesh_dims.begin(), step_.mesh_dims.end());
    std::ranges::sort(mesh_dims_);
    for (const std::size_t dim : mesh_dims_) count_ *= layout_.size(dim);
    const bool permutes = step_.kind == StepKind::kPermute;
    link_ = topology.slowest(layout_, permutes ? crossed_dims() : mesh_dims_);
  }

  StepFigures figures() {
    StepFigures figures;
    const auto item = static_cast<std::int64_t>(item_bytes(plan_.source->dtype()));
    figures.sent_least = layout_.size() > 0 ? sent(0) * item : 0;
    for (std::int64_t rank = 0; rank < layout_.size(); ++rank) {
      figures.sent_least = std::min(figures.sent_least, sent(rank) * item);
      figures.sent_most = std::max(figures.sent_most, sent(rank) * item);
      figures.received_most = std::max(figures.received_most, received(rank) * item);
      const bool same = step_.from == step_.to && step_.kind != StepKind::kPermute;
      const std::int64_t held = size_before(rank) + (same ? 0 : size_after(rank));
      figures.peak = std::max(figures.peak, held * item);
    }
    figures.us = predicted(item);
    if (moves()) figures.gbps = link_.gbps;
    return figures;
  }

 private:
  bool moves() const {
    if (step_.kind == StepKind::kPermute) return !step_.senders.empty();
    return step_.communicates() && count_ > 1;
  }
  std::int64_t size_before(std::int64_t rank) const { return numel(at(before_, rank)); }
  std::int64_t size_after(std::int64_t rank) const { return numel(at(after_, rank)); }
  static const LocalView& at(const std::vector<LocalView>& views, std::int64_t rank) {
    return views[static_cast<std::size_t>(rank)];
  }

  /// The next rank of the ring.
  std::int64_t next(std::int64_t rank) const {
    Coordinate coordinate = layout_.coordinate_at_index(rank);
    for (std::size_t at = mesh_dims_.size(); at-- > 0;) {
      std::int64_t& place = coordinate[mesh_dims_[at]];
      place = (place + 1) % layout_.size(mesh_dims_[at]);
      if (place != 0) break;
    }
    return layout_.index_of(coordinate);
  }
  std::int64_t reduced(std::int64_t rank) const {
    return (2 * (count_ - 1) * size_before(rank) + count_ - 1) / count_;
  }

  std::int64_t sent(std::int64_t rank) const {
    if (!moves()) return 0;
    switch (step_.kind) {
      case StepKind::kAllReduce:
        return reduced(rank);
      case StepKind::kAllGather:
        return size_after(rank) - size_before(next(rank));
      case StepKind::kReduceScatter:
        return size_before(rank) - size_after(rank);
      case StepKind::kPermute:
        return sender(rank) == rank ? 0 : size_before(rank);
      default:
        return size_before(rank) - kept(at(before_, rank), at(after_, rank));
    }
  }
  std::int64_t received(std::int64_t rank) const {
    if (!moves()) return 0;
    switch (step_.kind) {
      case StepKind::kAllReduce:
        return reduced(rank);
      case StepKind::kReduceScatter:
        return size_before(rank) - size_after(next(rank));
      case StepKind::kPermute:
        return sender(rank) == rank ? 0 : size_after(rank);
      default:
        return size_after(rank) - kept(at(before_, rank), at(after_, rank));
    }
  }
  std::int64_t sender(std::int64_t rank) const {
    return step_.senders[static_cast<std::size_t>(rank)];
  }

  InlineVector<std::size_t, 4> crossed_dims() const {
    InlineVector<std::size_t, 4> crossed;
    for (std::size_t dim = 0; dim < layout_.ndim(); ++dim) {
      for (std::size_t rank = 0; rank < step_.senders.size(); ++rank) {
        const auto here = layout_.coordinate_at_index(static_cast<std::int64_t>(rank));
        const auto there = layout_.coordinate_at_index(step_.senders[rank]);
        if (here[dim] == there[dim]) continue;
        crossed.push_back(dim);
        break;
      }
    }
    return crossed;
  }

  double predicted(std::int64_t item) const {
    if (!moves()) return 0;
    // In the order of StepKind.
    constexpr CollectiveKind kKinds[] = {CollectiveKind::kAllReduce, CollectiveKind::kAllGather,
                                         CollectiveKind::kReduceScatter, CollectiveKind::kAllToAll,
                                         CollectiveKind::kPermute};
    const bool permutes = step_.kind == StepKind::kPermute;
    std::int64_t most = 0;
    for (const LocalView& view :
         permutes || step_.kind == StepKind::kAllGather ? after_ : before_) {
      most = std::max(most, numel(view));
    }
    return predicted_us(topology_, kKinds[static_cast<std::size_t>(step_.kind)],
                        static_cast<double>(most * item) / kBytesPerGib,
                        permutes ? layout_.size() : count_, link_);
  }

  const Plan& plan_;
  const PlanStep& step_;
  const MeshLayout& layout_;
  std::vector<LocalView> before_, after_;  ///< by mesh index
  InlineVector<std::size_t, 4> mesh_dims_;
  std::int64_t count_ = 1;
  const Topology& topology_;
  Link link_;
};

}  // namespace

std::vector<StepFigures> measure_steps(const Plan& plan, const Topology& topology) {
  std::vector<StepFigures> figures;
  for (std::size_t index = 0; index < plan.steps.size(); ++index) {
    figures.push_back(StepMeasure(plan, index, topology).figures());
  }
  return figures;
}

PlanFigures sum_up(const std::vector<StepFigures>& steps, const MeshLayout& layout,
                   const Topology& topology) {
  InlineVector<std::size_t, 4> all;
  for (std::size_t dim = 0; dim < layout.ndim(); ++dim) all.push_back(dim);
  const double slowest = topology.slowest(layout, all).gbps;
  PlanFigures sum;
  for (const StepFigures& step : steps) {
    if (step.gbps == slowest) sum.received += step.received_most;
    sum.peak = std::max(sum.peak, step.peak);
    sum.us += step.us;
  }
  return sum;
}

std::optional<std::int64_t> received_bound(const DTensorSpec& source, const DTensorSpec& target,
                                           const PlanOptions& options) {
  if (!decodable(source) || !decodable(target) || !BytesSpace::fits(source)) return std::nullopt;
  BytesSpace space(source, target, options);
  const std::int64_t elements = space.bound(space.state_of(ordered_state(source)));
  return elements * static_cast<std::int64_t>(item_bytes(source.dtype()));
}

}  // namespace shardlab
