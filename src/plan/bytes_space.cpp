// The search space of the planner `bytes`, and the bound that makes its search exact.
//
// A state gives for every mesh dim whether it replicates, holds terms of one kind, or cuts a tensor
// dim, and in which place of that dim's cutting order. An edge changes one mesh dim (of the cuts of
// a tensor dim only the last, since later cuts divide the pieces of earlier ones), or exchanges
// whole pieces between ranks: different sequences of mesh dims can make the same intervals of a
// tensor dim and deal them to other ranks. Every sequence of mesh dims is made once as a node of a
// tree, and its pieces of a tensor dim once per pair; a state is then a few indices, and a step is
// priced from tables in O(tensor dims), an exchange in O(ranks).
//
// The cost of a plan compares the elements received over the slowest class of links first: per step
// those of the rank that receives most, added over the steps. bound() never exceeds the rest of
// that first number, and is 0 in the others, so that A* with it as its estimate finds a plan of
// least cost, unless its budget of states ends first. For ranks joined by faster links (an island),
// elements that the target needs on the island and none of its ranks holds must cross slow links
// whatever the plan is. The most that one rank receives in a step is at least the mean over the
// island's ranks, hence the sum over all steps is at least the missing elements divided by the
// number of its ranks. The missing elements are a product over tensor dims, because different mesh
// dims cut different tensor dims. While terms are pending across islands no held element is final,
// so that all needed elements are missing; moreover, to join t terms takes t - 1 receptions of
// every element and to give the result to h holders h - 1 more, spread over all ranks at best.
#include "plan/bytes_space.h"

#include <algorithm>

namespace shardlab {
namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace

BytesCost operator+(const BytesCost& a, const BytesCost& b) {
  BytesCost sum = a;
  for (std::size_t i = 0; i < sum.received.size(); ++i) sum.received[i] += b.received[i];
  sum.steps += b.steps;
  sum.peak = std::max(a.peak, b.peak);
  return sum;
}

bool BytesSpace::fits(const DTensorSpec& source) {
  std::size_t dims = 0;
  for (const std::int64_t size : source.layout()->shape()) dims += size > 1 ? 1 : 0;
  return dims <= kMostMeshDims && source.ndim() <= kMostTensorDims &&
         source.layout()->size() <= kMostRanks;
}

std::vector<CutSequence> cut_sequences(std::span<const std::int64_t> sizes) {
  std::vector<CutSequence> sequences(1);
  sequences[0].child.fill(-1);
  for (std::size_t at = 0; at < sequences.size(); ++at) {
    for (std::size_t dim = 0; dim < sizes.size(); ++dim) {
      if (sequences[at].mask & (1u << dim)) continue;
      CutSequence longer = sequences[at];
      longer.parent = static_cast<std::int16_t>(at);
      longer.last = static_cast<std::uint8_t>(dim);
      longer.mask = static_cast<std::uint8_t>(longer.mask | (1u << dim));
      longer.pieces *= sizes[dim];
      longer.dims.push_back(dim);
      longer.child.fill(-1);
      sequences[at].child[dim] = static_cast<std::int16_t>(sequences.size());
      sequences.push_back(longer);
    }
  }
  return sequences;
}

BytesSpace::BytesSpace(const DTensorSpec& source, const DTensorSpec& target,
                       const PlanOptions& options)
    : layout_(*source.layout()),
      shape_(source.shape()),
      target_(target),
      integral_(is_integral(source.dtype())),
      numel_(source.numel()) {
  for (std::size_t dim = 0; dim < layout_.ndim(); ++dim) {
    if (layout_.size(dim) == 1) continue;
    sizes_[mesh_dims_.size()] = layout_.size(dim);
    mesh_dims_.push_back(dim);
    ranks_ *= static_cast<std::size_t>(layout_.size(dim));
  }
  coordinates_.resize(ranks_);
  for (std::size_t rank = 0; rank < ranks_; ++rank) {
    std::size_t rest = rank;
    for (std::size_t dim = mesh_dims_.size(); dim-- > 0;) {
      const auto size = static_cast<std::size_t>(sizes_[dim]);
      coordinates_[rank][dim] = static_cast<std::uint8_t>(rest % size);
      rest /= size;
    }
  }
  collect_partials(source, target);
  sequences_ = cut_sequences(std::span(sizes_).first(mesh_dims_.size()));
  cuts_.resize(sequences_.size() * std::max<std::size_t>(1, shape_.size()));
  find_link_classes(source, options);
  goal_ = state_of(ordered_state(target));
  find_islands(target);
}

void BytesSpace::collect_partials(const DTensorSpec& source, const DTensorSpec& target) {
  for (const DTensorSpec* spec : {&source, &target}) {
    for (const std::size_t dim : mesh_dims_) {
      const Placement& placement = spec->placement(dim);
      if (!placement.is_partial()) continue;
      const auto found = std::ranges::find(partials_, placement);
      const auto index = static_cast<std::size_t>(found - partials_.begin());
      if (found == partials_.end()) partials_.push_back(placement);
      if (spec != &target) continue;
      if (std::ranges::find(wanted_, index) == wanted_.end()) wanted_.push_back(index);
    }
  }
}

void BytesSpace::find_link_classes(const DTensorSpec& source, const PlanOptions& options) {
  std::vector<double> speeds;
  for (const std::size_t dim : mesh_dims_) {
    speeds.push_back(options.topology.link(*source.layout(), dim).gbps);
  }
  std::vector<double> classes = speeds;
  std::ranges::sort(classes);
  classes.erase(std::unique(classes.begin(), classes.end()), classes.end());
  for (std::size_t dim = 0; dim < speeds.size(); ++dim) {
    const auto at = std::ranges::find(classes, speeds[dim]) - classes.begin();
    link_class_[dim] = std::min(static_cast<std::size_t>(at), BytesCost::kLinkClasses - 1);
    one_link_class_ &= at == 0;
  }
}

bool BytesSpace::between_islands(std::size_t dim) const {
  return link_class_[dim] == 0 && !target_.placement(mesh_dims_[dim]).is_partial();
}

void BytesSpace::find_islands(const DTensorSpec& target) {
  std::size_t count = 1;
  for (std::size_t dim = 0; dim < mesh_dims_.size(); ++dim) {
    if (!between_islands(dim)) continue;
    count *= static_cast<std::size_t>(sizes_[dim]);
    if (target.placement(mesh_dims_[dim]).is_replicate()) slow_holders_ *= sizes_[dim];
  }
  islands_.resize(count);
  for (std::size_t rank = 0; rank < ranks_; ++rank) {
    std::size_t island = 0;
    for (std::size_t dim = 0; dim < mesh_dims_.size(); ++dim) {
      if (!between_islands(dim)) continue;
      island = island * static_cast<std::size_t>(sizes_[dim]) + coordinates_[rank][dim];
    }
    islands_[island].push_back(rank);
  }
  wanted_by_.assign(count, 1);
  for (std::size_t dim = 0; dim < shape_.size(); ++dim) {
    const std::vector<std::int64_t>& wanted = held(dim, goal_.cuts[dim]);
    for (std::size_t island = 0; island < count; ++island) wanted_by_[island] *= wanted[island];
  }
}

BytesSpace::State BytesSpace::state_of(const PlanState& state) const {
  State result;
  for (std::size_t dim = 0; dim < mesh_dims_.size(); ++dim) {
    const Placement& placement = state.placements[mesh_dims_[dim]];
    if (!placement.is_partial()) continue;
    const auto found = std::ranges::find(partials_, placement);
    result.codes[dim] = static_cast<std::uint8_t>(kFirstPartial + (found - partials_.begin()));
  }
  for (std::size_t tensor_dim = 0; tensor_dim < shape_.size(); ++tensor_dim) {
    const auto order =
        cutting_order(state.placements, state.order, static_cast<std::int64_t>(tensor_dim));
    for (const std::size_t mesh_dim : order) {
      const auto found = std::ranges::find(mesh_dims_, mesh_dim);
      if (found == mesh_dims_.end()) continue;
      result = with_shard(result, static_cast<std::size_t>(found - mesh_dims_.begin()), tensor_dim);
    }
  }
  return result;
}

PlanState BytesSpace::plan_state(const State& state) const {
  PlanState result = ordered_state(target_);
  for (std::size_t dim = 0; dim < mesh_dims_.size(); ++dim) {
    const std::uint8_t code = state.codes[dim];
    Placement& placement = result.placements[mesh_dims_[dim]];
    result.order[mesh_dims_[dim]] = -1;
    placement = Placement::replicate();
    if (is_partial(code)) placement = partials_[static_cast<std::size_t>(code - kFirstPartial)];
    if (!is_shard(code)) continue;
    placement = Placement::shard(static_cast<std::int64_t>(tensor_dim(code)));
    result.order[mesh_dims_[dim]] = static_cast<std::int32_t>(place(code));
  }
  // Cuts of size 1 are placed after the others.
  InlineVector<std::int32_t, kMostTensorDims> places(shape_.size(), 0);
  for (std::size_t dim = 0; dim < shape_.size(); ++dim) {
    const auto cuts = static_cast<std::size_t>(state.cuts[dim]);
    places[dim] = static_cast<std::int32_t>(sequences_[cuts].dims.size());
  }
  for (std::size_t dim = 0; dim < layout_.ndim(); ++dim) {
    const Placement& placement = result.placements[dim];
    if (layout_.size(dim) > 1 || !placement.is_shard()) continue;
    result.order[dim] = places[static_cast<std::size_t>(placement.dim)]++;
  }
  return result;
}

BytesSpace::State BytesSpace::without(const State& state, std::size_t dim) const {
  State result = state;
  const std::uint8_t code = state.codes[dim];
  if (is_shard(code)) {
    std::int16_t& sequence = result.cuts[tensor_dim(code)];
    sequence = sequences_[static_cast<std::size_t>(sequence)].parent;
  }
  result.codes[dim] = kReplicated;
  return result;
}

BytesSpace::State BytesSpace::with_shard(const State& state, std::size_t dim,
                                         std::size_t tensor_dim) const {
  State result = state;
  std::int16_t& sequence = result.cuts[tensor_dim];
  const CutSequence& before = sequences_[static_cast<std::size_t>(sequence)];
  result.codes[dim] =
      static_cast<std::uint8_t>(kFirstShard + tensor_dim * kPlaces + before.dims.size());
  sequence = before.child[dim];
  return result;
}

bool BytesSpace::is_last(const State& state, std::size_t dim) const {
  const auto sequence = static_cast<std::size_t>(state.cuts[tensor_dim(state.codes[dim])]);
  return sequences_[sequence].last == dim;
}

// K-16, X-10, X-32, X-41: terms that reduce to the value again.
bool BytesSpace::may_become(const State& state, std::size_t dim, std::size_t partial) const {
  const Placement& to = partials_[partial];
  if (to.kind != PlacementKind::kPartial) return false;
  for (std::size_t other = 0; other < mesh_dims_.size(); ++other) {
    const std::uint8_t code = state.codes[other];
    if (!is_partial(code)) continue;
    if (!may_mix(partials_[static_cast<std::size_t>(code - kFirstPartial)], to)) return false;
  }
  if (is_shard(state.codes[dim])) return to.op == ReduceOp::kSum;
  if (to.op == ReduceOp::kSum || to.op == ReduceOp::kAvg) return !integral_;
  return to.op == ReduceOp::kMax || to.op == ReduceOp::kMin;
}

BytesSpace::Cuts& BytesSpace::cuts(std::size_t dim, std::int16_t sequence) {
  const auto index = static_cast<std::size_t>(sequence);
  Cuts& made = cuts_[dim * sequences_.size() + index];
  if (made.ready) return made;
  made.ready = true;
  const CutSequence& cut = sequences_[index];
  if (cut.parent < 0) {
    made.pieces = {{0, shape_[dim]}};
  } else {
    const std::int64_t count = sizes_[cut.last];
    for (const Interval& piece : cuts(dim, cut.parent).pieces) {
      for (std::int64_t part = 0; part < count; ++part) {
        const Chunk chunk = chunk_of(piece.size, count, part);
        made.pieces.push_back({piece.start + chunk.offset, chunk.size});
      }
    }
  }
  for (const Interval& piece : made.pieces) {
    made.largest = std::max(made.largest, piece.size);
    if (std::ranges::find(made.sizes, piece.size) == made.sizes.end()) {
      made.sizes.push_back(piece.size);
    }
  }
  return made;
}

const std::vector<std::int64_t>& BytesSpace::held(std::size_t dim, std::int16_t sequence) {
  Cuts& made = cuts(dim, sequence);
  if (!made.held.empty()) return made.held;
  const std::vector<Interval>& wanted = cuts(dim, goal_.cuts[dim]).pieces;
  made.held.assign(islands_.size(), 0);
  std::vector<char> here(made.pieces.size()), there(wanted.size());
  for (std::size_t island = 0; island < islands_.size(); ++island) {
    std::ranges::fill(here, 0);
    std::ranges::fill(there, 0);
    for (const std::size_t rank : islands_[island]) {
      here[piece_of(sequence, rank)] = 1;
      there[piece_of(goal_.cuts[dim], rank)] = 1;
    }
    for (std::size_t a = 0; a < here.size(); ++a) {
      for (std::size_t b = 0; here[a] && b < there.size(); ++b) {
        if (!there[b]) continue;
        const std::int64_t start = std::max(made.pieces[a].start, wanted[b].start);
        const std::int64_t end =
            std::min(made.pieces[a].start + made.pieces[a].size, wanted[b].start + wanted[b].size);
        made.held[island] += std::max<std::int64_t>(0, end - start);
      }
    }
  }
  return made.held;
}

const std::vector<std::int16_t>& BytesSpace::alike(std::size_t dim, std::int16_t sequence) {
  Cuts& made = cuts(dim, sequence);
  if (made.alike_ready) return made.alike;
  made.alike_ready = true;
  const auto filled = [](const Interval& piece) { return piece.size > 0; };
  std::vector<Interval> mine, theirs;
  std::ranges::copy_if(made.pieces, std::back_inserter(mine), filled);
  for (std::size_t other = 0; other < sequences_.size(); ++other) {
    if (sequences_[other].pieces != static_cast<std::int64_t>(made.pieces.size())) continue;
    theirs.clear();
    const auto& pieces_there = cuts(dim, static_cast<std::int16_t>(other)).pieces;
    std::ranges::copy_if(pieces_there, std::back_inserter(theirs), filled);
    if (mine == theirs) made.alike.push_back(static_cast<std::int16_t>(other));
  }
  return made.alike;
}

std::size_t BytesSpace::piece_of(std::int16_t sequence, std::size_t rank) const {
  std::size_t piece = 0;
  for (const std::size_t dim : sequences_[static_cast<std::size_t>(sequence)].dims) {
    piece = piece * static_cast<std::size_t>(sizes_[dim]) + coordinates_[rank][dim];
  }
  return piece;
}

std::int64_t BytesSpace::largest_piece(const State& state) {
  std::int64_t elements = 1;
  for (std::size_t dim = 0; dim < shape_.size(); ++dim) {
    elements *= cuts(dim, state.cuts[dim]).largest;
  }
  return elements;
}

BytesCost BytesSpace::step_cost(const State& from, std::size_t dim, const State& to) {
  BytesCost cost;
  cost.steps = 1;
  cost.received[link_class_[dim]] = received(from, dim, to);
  cost.peak = largest_piece(from) + largest_piece(to);
  return cost;
}

// The largest lengths meet on one rank, since different mesh dims cut different tensor dims.
std::int64_t BytesSpace::received(const State& from, std::size_t dim, const State& to) {
  const std::uint8_t before = from.codes[dim], after = to.codes[dim];
  const std::int64_t count = sizes_[dim];
  if (before == kReplicated) return 0;
  if (is_shard(before) && is_partial(after)) return 0;
  if (is_partial(before) && !is_shard(after)) {
    return ceil_div(2 * (count - 1) * largest_piece(from), count);
  }
  if (is_shard(before) && is_shard(after)) {
    return exchanged_pieces(from, dim, tensor_dim(before), tensor_dim(after));
  }
  // A ring: everything but the smallest piece.
  const State& whole = is_shard(before) ? to : from;
  const std::size_t cut = tensor_dim(is_shard(before) ? before : after);
  const std::int64_t length = cuts(cut, whole.cuts[cut]).largest;
  if (length == 0) return 0;
  const std::int64_t smallest = chunk_of(length, count, count - 1).size;
  return largest_piece(whole) / length * (length - smallest);
}

// S(a) -> S(b): a rank keeps the intersection of its old and its new piece.
std::int64_t BytesSpace::exchanged_pieces(const State& from, std::size_t dim, std::size_t a,
                                          std::size_t b) {
  const std::int64_t count = sizes_[dim];
  const auto whole = sequences_[static_cast<std::size_t>(from.cuts[a])].parent;
  std::int64_t most = 0;
  for (const std::int64_t gathered : cuts(a, whole).sizes) {
    for (const std::int64_t split : cuts(b, from.cuts[b]).sizes) {
      for (std::int64_t index = 0; index < count; ++index) {
        const std::int64_t others = gathered - chunk_of(gathered, count, index).size;
        most = std::max(most, others * chunk_of(split, count, index).size);
      }
    }
  }
  for (std::size_t other = 0; other < shape_.size(); ++other) {
    if (other != a && other != b) most *= cuts(other, from.cuts[other]).largest;
  }
  return most;
}

bool BytesSpace::same_terms(const State& a, const State& b) const {
  for (std::size_t partial = 0; partial < partials_.size(); ++partial) {
    const auto code = static_cast<std::uint8_t>(kFirstPartial + partial);
    std::int64_t here = 1, there = 1;
    for (std::size_t dim = 0; dim < mesh_dims_.size(); ++dim) {
      if (a.codes[dim] == code) here *= sizes_[dim];
      if (b.codes[dim] == code) there *= sizes_[dim];
    }
    if (here != there) return false;
  }
  return true;
}

const std::vector<std::uint32_t>& BytesSpace::numbers(std::size_t dim, std::int16_t sequence) {
  Cuts& made = cuts(dim, sequence);
  if (!made.number.empty()) return made.number;
  std::vector<std::uint32_t> of_piece(made.pieces.size(), 0);
  std::uint32_t filled = 0;
  for (std::size_t piece = 0; piece < of_piece.size(); ++piece) {
    if (made.pieces[piece].size > 0) of_piece[piece] = ++filled;
  }
  for (std::size_t rank = 0; rank < ranks_; ++rank) {
    made.number.push_back(of_piece[piece_of(sequence, rank)]);
  }
  return made.number;
}

// Pieces count by where they start among the filled ones (empty ones are interchangeable), terms by
// place.
void BytesSpace::piece_keys(const State& state, std::vector<std::uint64_t>& keys) {
  keys.assign(ranks_, 0);
  for (std::size_t dim = 0; dim < shape_.size(); ++dim) {
    const std::vector<std::uint32_t>& number = numbers(dim, state.cuts[dim]);
    const std::uint64_t base = cuts(dim, state.cuts[dim]).pieces.size() + 1;
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      keys[rank] = keys[rank] * base + number[rank];
    }
  }
  for (std::size_t partial = 0; partial < partials_.size(); ++partial) {
    for (std::size_t dim = 0; dim < mesh_dims_.size(); ++dim) {
      if (state.codes[dim] != kFirstPartial + partial) continue;
      for (std::size_t rank = 0; rank < ranks_; ++rank) {
        keys[rank] = keys[rank] * static_cast<std::uint64_t>(sizes_[dim]) + coordinates_[rank][dim];
      }
    }
  }
}

std::vector<std::int32_t> BytesSpace::senders(const State& from, const State& to) {
  std::vector<std::uint64_t> has, needs;
  piece_keys(from, has);
  piece_keys(to, needs);
  std::vector<std::int32_t> result(ranks_), givers, takers;
  for (std::size_t rank = 0; rank < ranks_; ++rank) {
    result[rank] = static_cast<std::int32_t>(rank);
    if (has[rank] == needs[rank]) continue;
    givers.push_back(result[rank]);
    takers.push_back(result[rank]);
  }
  if (givers.empty()) return {};
  const auto by = [](const std::vector<std::uint64_t>& keys) {
    return [&keys](std::int32_t rank) { return keys[static_cast<std::size_t>(rank)]; };
  };
  std::ranges::stable_sort(givers, {}, by(has));
  std::ranges::stable_sort(takers, {}, by(needs));
  for (std::size_t i = 0; i < takers.size(); ++i) {
    result[static_cast<std::size_t>(takers[i])] = givers[i];
  }
  return result;
}

BytesCost BytesSpace::exchange_cost(const State& from, const std::vector<std::uint64_t>& from_keys,
                                    const State& to) {
  BytesCost cost;
  cost.steps = 1;
  cost.peak = largest_piece(from) + largest_piece(to);
  std::vector<std::uint64_t> to_keys;
  piece_keys(to, to_keys);
  for (std::size_t rank = 0; rank < ranks_; ++rank) {
    if (from_keys[rank] == to_keys[rank]) continue;
    std::int64_t elements = 1;
    for (std::size_t dim = 0; dim < shape_.size(); ++dim) {
      elements *= cuts(dim, to.cuts[dim]).pieces[piece_of(to.cuts[dim], rank)].size;
    }
    cost.received[0] = std::max(cost.received[0], elements);
  }
  if (!one_link_class_) std::swap(cost.received[0], cost.received[slowest_crossed(from, to)]);
  return cost;
}

std::size_t BytesSpace::slowest_crossed(const State& from, const State& to) {
  const std::vector<std::int32_t> given = senders(from, to);
  std::size_t slowest = BytesCost::kLinkClasses - 1;
  for (std::size_t rank = 0; rank < given.size(); ++rank) {
    for (std::size_t dim = 0; dim < mesh_dims_.size(); ++dim) {
      const bool apart =
          coordinates_[rank][dim] != coordinates_[static_cast<std::size_t>(given[rank])][dim];
      if (apart) slowest = std::min(slowest, link_class_[dim]);
    }
  }
  return slowest;
}

std::int64_t BytesSpace::bound(const State& state) {
  std::int64_t terms = 1;
  for (std::size_t dim = 0; dim < mesh_dims_.size(); ++dim) {
    if (is_partial(state.codes[dim]) && between_islands(dim)) terms *= sizes_[dim];
  }
  std::array<const std::int64_t*, kMostTensorDims> here_by_dim{};
  for (std::size_t dim = 0; dim < shape_.size(); ++dim) {
    here_by_dim[dim] = held(dim, state.cuts[dim]).data();
  }
  std::int64_t most = 0;
  const auto island_size = static_cast<std::int64_t>(islands_[0].size());
  for (std::size_t island = 0; island < islands_.size(); ++island) {
    std::int64_t here = terms == 1 ? 1 : 0;
    for (std::size_t dim = 0; dim < shape_.size(); ++dim) here *= here_by_dim[dim][island];
    most = std::max(most, wanted_by_[island] - here);
  }
  most = ceil_div(most, island_size);
  if (terms == 1) return most;
  const std::int64_t receptions = numel_ * (terms + slow_holders_ - 2);
  return std::max(most, ceil_div(receptions, static_cast<std::int64_t>(ranks_)));
}

}  // namespace shardlab
