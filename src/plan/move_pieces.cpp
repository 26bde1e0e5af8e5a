// Pieces of one value are disjoint but for replicas, so a rank finds the overlap of its piece with
// each of those of the other side, run by run, and one holder of each.
#include "plan/move_pieces.h"

#include <algorithm>
#include <limits>

#include "mesh/mesh_views.h"

namespace shardlab {
namespace {

using Ranges = std::vector<std::size_t>;

std::vector<Shared> shared_runs(const DimMap& from, const DimMap& to) {
  std::vector<Shared> shared;
  std::int64_t before = 0;
  for (const IndexRun& a : from.runs) {
    std::int64_t behind = 0;
    for (const IndexRun& b : to.runs) {
      const std::int64_t begin = std::max(a.offset, b.offset);
      const std::int64_t end = std::min(a.offset + a.size, b.offset + b.size);
      if (begin < end) {
        shared.push_back({before + begin - a.offset, behind + begin - b.offset, end - begin});
      }
      behind += b.size;
    }
    before += a.size;
  }
  return shared;
}

/// Each list longer by each of the entries that follow in one dim.
template <typename Entry>
std::vector<std::vector<Entry>> longer_by(const std::vector<std::vector<Entry>>& lists,
                                          const std::vector<Entry>& entries) {
  std::vector<std::vector<Entry>> longer;
  for (const std::vector<Entry>& list : lists) {
    for (const Entry& entry : entries) longer.emplace_back(list).push_back(entry);
  }
  return longer;
}

}  // namespace

std::vector<Box> shared_boxes(const LocalView& from, const LocalView& to) {
  std::vector<Box> boxes{{}};
  for (std::size_t dim = 0; dim < from.dims.size(); ++dim) {
    boxes = longer_by(boxes, shared_runs(from.dims[dim], to.dims[dim]));
  }
  return boxes;
}

Holders::Holders(const DTensorSpec& spec) : ranges_(spec.ndim()) {
  const MeshLayout& layout = *spec.layout();
  const MeshView all = view_of(layout);
  for (std::int64_t i = 0; i < all.root->size(); ++i) {
    const std::int64_t rank = all.root->rank_at_index(i);
    const MeshLayout* part = layout.is_cut() ? part_of(all, rank) : &layout;
    const DTensorSpec* own =
        part == &layout
            ? &spec
            : spec.arena().spec(part, spec.placements(), spec.order(), spec.meta(), spec.strided());
    by_rank.emplace(rank, Holder{rank, own, local_view(*own, *part->coordinate_of(rank)), {}});
  }
  for (auto& [rank, holder] : by_rank) {  // ascending
    for (std::size_t dim = 0; dim < ranges_.size(); ++dim) {
      Runs runs;
      for (const IndexRun& run : holder.view.dims[dim].runs)
        runs.emplace_back(run.offset, run.size);
      several_ = several_ || runs.size() > 1;
      const auto range = ranges_[dim].try_emplace(std::move(runs), ranges_[dim].size()).first;
      holder.ranges.push_back(range->second);
    }
    ranks_[{nullptr, holder.ranges}].push_back(rank);
    ranks_[{holder.spec->layout(), holder.ranges}].push_back(rank);
  }
}

const Holder* Holders::at(std::int64_t rank) const {
  const auto found = by_rank.find(rank);
  return found == by_rank.end() ? nullptr : &found->second;
}

std::vector<Ranges> Holders::pieces_that_meet(const LocalView& wanted) const {
  std::vector<Ranges> pieces{{}};
  for (std::size_t dim = 0; dim < ranges_.size(); ++dim) {
    pieces = longer_by(pieces, ranges_that_meet(wanted.dims[dim], dim));
  }
  return pieces;
}

const std::vector<std::int64_t>* Holders::ranks_with(const Ranges& ranges,
                                                     const MeshLayout* part) const {
  const auto found = ranks_.find({part, ranges});
  return found == ranks_.end() ? nullptr : &found->second;
}

Ranges Holders::ranges_that_meet(const DimMap& wanted, std::size_t dim) const {
  Ranges numbers;
  if (wanted.runs.empty()) return numbers;
  const std::map<Runs, std::size_t>& ranges = ranges_[dim];
  auto at = ranges.begin();
  if (!several_) {  // ranges of one run each do not meet each other
    at = ranges.upper_bound({{wanted.runs[0].offset, std::numeric_limits<std::int64_t>::max()}});
    if (at != ranges.begin()) --at;
  }
  const std::int64_t end = wanted.runs.back().offset + wanted.runs.back().size;
  for (; at != ranges.end() && (at->first.empty() || at->first[0].first < end); ++at) {
    const auto meets = [&](const IndexRun& run) {
      return std::ranges::any_of(at->first, [&](const auto& held) {
        return held.first < run.offset + run.size && run.offset < held.first + held.second;
      });
    };
    if (std::ranges::any_of(wanted.runs, meets)) numbers.push_back(at->second);
  }
  return numbers;
}

MovePieces::MovePieces(const DTensorSpec& source, const DTensorSpec& target)
    : from(source), to(target) {
  const auto ranks = to.by_rank.size() + std::ranges::count_if(from.by_rank, [&](const auto& one) {
                       return to.at(one.first) == nullptr;
                     });
  for (const auto& [rank, receiver] : to.by_rank) {
    if (partners.size() == ranks) break;
    for (const Holder* holder : sources_of(receiver)) {
      if (holder->rank != rank) partners.insert({rank, holder->rank});
    }
  }
}

const std::int64_t* MovePieces::source_of(std::int64_t receiver, const Ranges& ranges) const {
  const Holder* own = from.at(receiver);
  const auto* ranks = from.ranks_with(ranges, own == nullptr ? nullptr : own->spec->layout());
  if (ranks == nullptr) return nullptr;
  const auto near = std::ranges::lower_bound(*ranks, receiver);
  const bool below = near != ranks->begin() &&
                     (near == ranks->end() || receiver - *std::prev(near) <= *near - receiver);
  return below ? &*std::prev(near) : &*near;
}

std::vector<const Holder*> MovePieces::sources_of(const Holder& receiver) const {
  std::vector<const Holder*> sources;
  for (const Ranges& ranges : from.pieces_that_meet(receiver.view)) {
    const std::int64_t* source = source_of(receiver.rank, ranges);
    if (source != nullptr) sources.push_back(from.at(*source));
  }
  return sources;
}

std::vector<const Holder*> MovePieces::receivers_of(const Holder& sender) const {
  std::map<std::int64_t, const Holder*> receivers;
  for (const Ranges& ranges : to.pieces_that_meet(sender.view)) {
    const std::vector<std::int64_t>* ranks = to.ranks_with(ranges, nullptr);
    for (const std::int64_t rank : ranks == nullptr ? std::vector<std::int64_t>() : *ranks) {
      const std::int64_t* source = source_of(rank, sender.ranges);
      if (source != nullptr && *source == sender.rank) receivers.emplace(rank, to.at(rank));
    }
  }
  std::vector<const Holder*> ascending;
  for (const auto& [rank, holder] : receivers) ascending.push_back(holder);
  return ascending;
}

}  // namespace shardlab
