// bytes_space.h - the states that the planner `bytes` searches, and the cost of moves between them.
// Mesh dims of size 1 move nothing and are left out. Everything is counted in elements. Pure; one
// object per search.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "plan/state.h"

namespace shardlab {

/// The cost of a plan, compared in this order: elements that the rank which receives most receives,
/// per step, over the slowest links, then over faster ones; steps; elements held at once.
struct BytesCost {
  static constexpr std::size_t kLinkClasses = 3;
  std::array<std::int64_t, kLinkClasses> received{};  ///< slowest links first
  std::int64_t steps = 0;
  std::int64_t peak = 0;  ///< largest over the steps; all others add up
  auto operator<=>(const BytesCost&) const = default;
};
BytesCost operator+(const BytesCost& a, const BytesCost& b);

/// A sequence of mesh dims that cut one tensor dim.
struct CutSequence {
  static constexpr std::size_t kMostMeshDims = 5;  ///< without those of size 1
  std::int16_t parent = -1;
  std::uint8_t last = 0, mask = 0;
  std::int64_t pieces = 1;
  std::array<std::int16_t, kMostMeshDims> child{};
  InlineVector<std::size_t, kMostMeshDims> dims;
};
/// All sequences of mesh dims of these sizes, as a tree; the first is empty.
std::vector<CutSequence> cut_sequences(std::span<const std::int64_t> sizes);

/// The graph that is searched: states are nodes, collectives and exchanges are edges.
class BytesSpace {
 public:
  static constexpr std::size_t kMostMeshDims = CutSequence::kMostMeshDims;
  static constexpr std::size_t kMostTensorDims = 6;
  static constexpr std::int64_t kMostRanks = 1024;

  /// One code per mesh dim: replicated, a partial of the table, or a shard and its place.
  using Codes = std::array<std::uint8_t, 8>;
  /// A state, and for every tensor dim the mesh dims that cut it, first cut first.
  struct State {
    Codes codes{};
    std::array<std::int16_t, kMostTensorDims> cuts{};
    bool operator==(const State& other) const { return codes == other.codes; }
  };

  /// False where the search would be too large: its tables hold every sequence of mesh dims.
  static bool fits(const DTensorSpec& source);
  BytesSpace(const DTensorSpec& source, const DTensorSpec& target, const PlanOptions& options);

  /// The state without mesh dims of size 1.
  State state_of(const PlanState& state) const;
  /// With the dims of size 1, which get the placements of the target.
  PlanState plan_state(const State& state) const;
  std::span<const std::size_t> mesh_dims() const { return mesh_dims_; }

  /// Calls visit(next, cost) for every state that one collective or local step leads to.
  template <typename Visit>
  void each_step(const State& from, Visit&& visit);
  /// Calls visit(next) for the states whose pieces are the same but are on other ranks.
  template <typename Visit>
  void each_exchange(const State& from, Visit&& visit);

  /// The cost of changing one mesh dim.
  BytesCost step_cost(const State& from, std::size_t dim, const State& to);
  /// `from_keys`: piece_keys(from), for callers that try many exchanges from one state.
  BytesCost exchange_cost(const State& from, const std::vector<std::uint64_t>& from_keys,
                          const State& to);
  /// The piece of every rank: equal numbers for equal pieces of states that an exchange leads to.
  void piece_keys(const State& state, std::vector<std::uint64_t>& keys);
  /// The owner of the piece that each rank gets, by mesh index; empty if all keep their own.
  std::vector<std::int32_t> senders(const State& from, const State& to);

  /// Elements that some rank must still receive over the slowest links, whatever the plan: those
  /// that its island (ranks that faster links or terms of the target join) needs and does not hold,
  /// shared by the island's ranks; with terms to reduce, (terms + holders - 2) receptions for every
  /// element.
  std::int64_t bound(const State& state);

 private:
  struct Interval {
    std::int64_t start, size;
    bool operator==(const Interval&) const = default;
  };
  /// The pieces of one tensor dim under a sequence.
  struct Cuts {
    bool ready = false;
    std::int64_t largest = 0;
    std::vector<Interval> pieces;         ///< by piece, first cut outermost
    InlineVector<std::int64_t, 4> sizes;  ///< the different ones
    std::vector<std::int64_t> held;       ///< of the target's part, by island
    std::vector<std::int16_t> alike;      ///< sequences that make the same pieces
    std::vector<std::uint32_t>
        number;  ///< by rank: its piece among the filled ones, from 1; else 0
    bool alike_ready = false;
  };

  static constexpr std::uint8_t kReplicated = 0, kFirstPartial = 1, kFirstShard = 16;
  static constexpr std::uint8_t kPlaces = 8;
  static bool is_shard(std::uint8_t code) { return code >= kFirstShard; }
  static bool is_partial(std::uint8_t code) { return code >= kFirstPartial && code < kFirstShard; }
  static std::size_t tensor_dim(std::uint8_t code) { return (code - kFirstShard) / kPlaces; }
  static std::size_t place(std::uint8_t code) { return (code - kFirstShard) % kPlaces; }

  void collect_partials(const DTensorSpec& source, const DTensorSpec& target);
  void find_link_classes(const DTensorSpec& source, const PlanOptions& options);
  void find_islands(const DTensorSpec& target);

  Cuts& cuts(std::size_t dim, std::int16_t sequence);
  const std::vector<std::int64_t>& held(std::size_t dim, std::int16_t sequence);
  const std::vector<std::int16_t>& alike(std::size_t dim, std::int16_t sequence);
  const std::vector<std::uint32_t>& numbers(std::size_t dim, std::int16_t sequence);
  bool between_islands(std::size_t dim) const;
  std::size_t piece_of(std::int16_t sequence, std::size_t rank) const;
  std::int64_t largest_piece(const State& state);
  bool is_last(const State& state, std::size_t dim) const;
  bool may_become(const State& state, std::size_t dim, std::size_t partial) const;

  State without(const State& state, std::size_t dim) const;
  State with_shard(const State& state, std::size_t dim, std::size_t tensor_dim) const;
  std::int64_t received(const State& from, std::size_t dim, const State& to);
  std::int64_t exchanged_pieces(const State& from, std::size_t dim, std::size_t a, std::size_t b);
  std::size_t slowest_crossed(const State& from, const State& to);
  template <typename Visit>
  void fill_exchange(const State& from, State& next, std::size_t dim, std::uint32_t used,
                     Visit&& visit);
  template <typename Visit>
  void fill_uncut(const State& from, State& next, std::size_t dim, Visit&& visit);
  bool same_terms(const State& a, const State& b) const;

  const MeshLayout& layout_;
  Dims shape_;
  const DTensorSpec& target_;
  bool integral_;
  InlineVector<std::size_t, kMostMeshDims> mesh_dims_;
  std::array<std::int64_t, kMostMeshDims> sizes_{};
  std::array<std::size_t, kMostMeshDims> link_class_{};
  std::vector<Placement> partials_;      ///< of source and target
  InlineVector<std::size_t, 4> wanted_;  ///< partials of the target
  std::size_t ranks_ = 1;
  std::vector<std::array<std::uint8_t, kMostMeshDims>> coordinates_;  ///< by stripped mesh index
  std::vector<CutSequence> sequences_;
  std::vector<Cuts> cuts_;  ///< tensor dim * sequences + sequence
  State goal_;
  bool one_link_class_ = true;
  std::vector<std::vector<std::size_t>> islands_;  ///< ranks of each
  std::vector<std::int64_t> wanted_by_;            ///< elements that an island must hold
  std::int64_t numel_ = 1, slow_holders_ = 1;
};

template <typename Visit>
void BytesSpace::each_step(const State& from, Visit&& visit) {
  const std::size_t tensor_dims = shape_.size();
  const auto offer = [&](std::size_t dim, const State& to) { visit(to, step_cost(from, dim, to)); };
  for (std::size_t dim = 0; dim < mesh_dims_.size(); ++dim) {
    const std::uint8_t code = from.codes[dim];
    if (is_shard(code) && !is_last(from, dim)) continue;
    const State whole = without(from, dim);
    if (code != kReplicated) offer(dim, whole);
    for (std::size_t to = 0; to < tensor_dims; ++to) {
      if (!is_shard(code) || tensor_dim(code) != to) offer(dim, with_shard(whole, dim, to));
    }
    for (const std::size_t partial : wanted_) {
      if (is_partial(code) || !may_become(from, dim, partial)) continue;
      State next = whole;
      next.codes[dim] = static_cast<std::uint8_t>(kFirstPartial + partial);
      offer(dim, next);
    }
  }
}

template <typename Visit>
void BytesSpace::each_exchange(const State& from, Visit&& visit) {
  State next;
  fill_exchange(from, next, 0, 0, visit);
}

// Tensor dims first, each with a sequence that makes the same pieces; the mesh dims left over then
// hold replicas and terms as before.
template <typename Visit>
void BytesSpace::fill_exchange(const State& from, State& next, std::size_t dim, std::uint32_t used,
                               Visit&& visit) {
  if (dim == shape_.size()) return fill_uncut(from, next, 0, visit);
  for (const std::int16_t sequence : alike(dim, from.cuts[dim])) {
    const CutSequence& chosen = sequences_[static_cast<std::size_t>(sequence)];
    if (chosen.mask & used) continue;
    next.cuts[dim] = sequence;
    for (std::size_t at = 0; at < chosen.dims.size(); ++at) {
      next.codes[chosen.dims[at]] = static_cast<std::uint8_t>(kFirstShard + dim * kPlaces + at);
    }
    fill_exchange(from, next, dim + 1, used | chosen.mask, visit);
    for (const std::size_t cut : chosen.dims) next.codes[cut] = kReplicated;
  }
}

template <typename Visit>
void BytesSpace::fill_uncut(const State& from, State& next, std::size_t dim, Visit&& visit) {
  if (dim == mesh_dims_.size()) {
    if (!(next == from) && same_terms(next, from)) visit(static_cast<const State&>(next));
    return;
  }
  if (is_shard(next.codes[dim])) return fill_uncut(from, next, dim + 1, visit);
  fill_uncut(from, next, dim + 1, visit);
  for (std::size_t partial = 0; partial < partials_.size(); ++partial) {
    const auto code = static_cast<std::uint8_t>(kFirstPartial + partial);
    if (std::find(from.codes.begin(), from.codes.end(), code) == from.codes.end()) continue;
    next.codes[dim] = code;
    fill_uncut(from, next, dim + 1, visit);
    next.codes[dim] = kReplicated;
  }
}

}  // namespace shardlab
