// Pieces are snapshots, which share memory with the rank's own values until it writes to them, and
// live only until the last rank has come.
#include "sim/replay/seen.h"

#include <algorithm>

#include "base/text.h"
#include "mesh/local_shape.h"
#include "mesh/type_string.h"
#include "sim/verify/held_numbers.h"
#include "tensor/device.h"

namespace shardlab {

namespace {

// No other rank has elements of the piece.
bool is_alone(const DTensorSpec& spec) {
  for (std::size_t dim = 0; dim < spec.layout()->ndim(); ++dim) {
    if (spec.layout()->shape()[dim] > 1 && !spec.placement(dim).is_shard()) return false;
  }
  return !spec.has_partial();
}

FingerprintSum sum_of_piece(const DTensor& value, std::size_t rank, std::string& fault) {
  const DTensorSpec& spec = *value.spec();
  FingerprintSum sum;
  const auto here = spec.layout()->coordinate_of(static_cast<std::int64_t>(rank));
  if (!here) return sum;
  const Dims expected = local_shape(spec, *here);
  if (value.local().shape() == expected) {
    sum.add_piece(value.local(), local_view(spec, *here));
  } else {
    fault = fmt::format("rank {} holds {}, but its piece has shape [{}]", rank,
                        type_string(value.local().meta()), text_of_list(expected, ", "));
  }
  return sum;
}

// For a value on a part of the mesh, the part that holds rank 0.
void put_together(SeenValue& seen, const std::vector<DTensor>& pieces,
                  const std::vector<FingerprintSum>& sums) {
  const DTensorSpec& spec = *pieces[0].spec();
  const MeshLayout& layout = *spec.layout();
  const std::vector<DTensor> own = pieces_of(layout, pieces);
  std::vector<AssemblyFault> faults;
  seen.terms = spec.has_partial();
  if (!sums.empty()) {
    FingerprintSum sum;
    for (std::int64_t i = 0; i < layout.size(); ++i) {
      sum.add(sums.at(static_cast<std::size_t>(layout.rank_at_index(i))));
    }
    seen.whole = sum.print();
  } else if (seen.terms) {
    seen.whole = Fingerprint(in_reals(assemble(spec, own, faults)).reals);
  } else {
    FingerprintSum sum;
    for (const std::int64_t index : pieces_to_read(spec, own, faults)) {
      const LocalView view = local_view(spec, layout.coordinate_at_index(index));
      sum.add_piece(own[static_cast<std::size_t>(index)].local(), view);
    }
    seen.whole = sum.print();
  }
  if (!faults.empty()) seen.fault = faults[0].what;
}

}  // namespace

std::vector<Given> given_by(const RecordedEvent& event) {
  std::vector<Given> all;
  for (const auto& [list, values] :
       {std::pair{"out", &event.out}, std::pair{"mut", &event.written}}) {
    for (std::size_t i = 0; i < values->size(); ++i) {
      if ((*values)[i].id.id >= 0) all.push_back({&(*values)[i], list, i});
    }
  }
  return all;
}

SeenTable::SeenTable(const RecordedProgram& program, std::size_t ranks)
    : program_(program), ranks_(ranks), events_(program.events.size()) {
  for (std::size_t event = 0; event < events_.size(); ++event) {
    const auto [first, end] = ranks_of(event);
    events_[event].ranks.resize(end - first);
    events_[event].values.resize(given_by(program.events[event]).size());
    for (SeenValue& value : events_[event].values) value.parts.resize(end - first);
  }
}

std::pair<std::size_t, std::size_t> SeenTable::ranks_of(std::size_t event) const {
  const std::int32_t rank = program_.events[event].rank;
  if (rank < 0) return {0, ranks_};
  const auto first = static_cast<std::size_t>(rank);
  return first < ranks_ ? std::pair{first, first + 1} : std::pair<std::size_t, std::size_t>{0, 0};
}

SeenOnRank& SeenTable::on_rank(std::size_t event, std::size_t rank) {
  return events_[event].ranks[rank - ranks_of(event).first];
}

void SeenTable::came_to(std::size_t event, bool sends) {
  const std::lock_guard lock(mutex_);
  std::uint64_t& order = events_[event].order;
  if (order == 0 || !sends) order = ++order_;
}

void SeenValues::add(SeenValue& seen, std::size_t first, std::size_t rank, std::size_t ranks,
                     const DTensor& value) {
  SeenPart& part = seen.parts[rank - first];
  part.there = true;
  part.shape = value.shape();
  part.dtype = value.dtype();
  part.memory = value.local().storage().get();
  if (value.local().device()->shape_only()) return;
  if (!value.distributed() || value.spec()->has_partial()) {
    part.print = Fingerprint(value.local());
  }
  if (!value.distributed()) return;
  std::optional<FingerprintSum> sum;
  std::string fault;
  if (is_alone(*value.spec())) sum = sum_of_piece(value, rank, fault);
  Open all;
  {
    const std::lock_guard lock(mutex_);
    auto open = std::ranges::find(open_, &seen, &Open::value);
    if (open == open_.end()) {
      open_.push_back({.value = &seen, .missing = seen.parts.size()});
      open = open_.end() - 1;
      open->pieces.resize(ranks);
      if (sum) open->sums.resize(ranks);
    }
    // Without its elements, which would be copied when the rank writes to them.
    const Tensor piece = sum ? Tensor() : value.local().snapshot();
    open->pieces[rank] = DTensor(piece, value.spec());
    if (sum) open->sums[rank] = *sum;
    if (open->fault.empty()) open->fault = fault;
    if (--open->missing > 0) return;
    all = std::move(*open);
    open_.erase(open);
  }
  put_together(seen, all.pieces, all.sums);
  if (seen.fault.empty()) seen.fault = all.fault;
}

}  // namespace shardlab
