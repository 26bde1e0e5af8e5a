// A value is as exact as its operands, unless floats were added up on the way: by an op that adds,
// or because a pending reduction was carried out. Either depends on the cuts of the value. Only the
// observed calls of the ranks decide, so there is one place that explains why a value was compared
// as it was.
#include "sim/log/marks.h"

#include <algorithm>
#include <iterator>
#include <span>

#include "comm/device_mesh.h"
#include "schema/call_record.h"
#include "schema/op_row.h"

namespace shardlab {

namespace {

// A note: one bit, then the mesh dims of either kind, then one bit.
constexpr std::uint32_t kAddedUp = 1u << 0;
constexpr std::uint32_t kWritten = 1u << 31;  // by an op that was given this very tensor
constexpr int kVariesAt = 1, kOverAt = kVariesAt + kMarkedDims;
constexpr MeshDims kAllDims = (1u << kMarkedDims) - 1;

constexpr std::uint32_t varies_note(MeshDims dims) { return dims << kVariesAt; }
constexpr std::uint32_t over_note(MeshDims dims) { return dims << kOverAt; }

std::uint32_t exactness(const DTensor& x) { return x.impl()->note & kAddedUp; }
// The note without the bits for exactness and for the writing op.
std::uint32_t exchange_note(const DTensor& x) { return x.impl()->note & ~(kAddedUp | kWritten); }

bool adds_up(const DTensor& from, const DTensor& to) {
  if (from.spec() == to.spec() || is_integral(from.dtype())) return false;
  return from.distributed() && from.spec()->has_partial();
}

bool gives_all_one(CollectiveKind kind) {
  return kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kAllGather ||
         kind == CollectiveKind::kBroadcast;
}

// The first argument is written and not read.
bool overwrites(const OpRow& row) {
  const std::string& base = row.op.base;
  return base == "aten::copy_" || base == "aten::zero_" || base == "aten::fill_";
}

}  // namespace

bool is_exact(const DTensor& x) { return exactness(x) == 0; }

void note_change(const DTensor& x) {
  const bool by_itself = (x.impl()->note & kWritten) != 0;
  if (!by_itself && !is_integral(x.dtype())) x.impl()->note |= kAddedUp;
}

MeshDims varies_along(const DTensor& x) { return (x.impl()->note >> kVariesAt) & kAllDims; }
void note_terms(const DTensor& x) { x.impl()->note |= varies_note(kAllDims); }
MeshDims collected_along(const DTensor& x) { return (x.impl()->note >> kOverAt) & kAllDims; }

// A part of the program's mesh has some of its dims, by name.
MeshDims Marks::dims_of(const MeshLayout& layout, std::size_t mesh_dim) const {
  std::size_t dim = mesh_dim;
  if (mesh_ != nullptr && mesh_ != &layout) {
    const auto& names = mesh_->names();
    const auto found = std::find(names.begin(), names.end(), layout.names()[mesh_dim]);
    dim = static_cast<std::size_t>(found - names.begin());
    if (found == names.end() || mesh_->size(dim) != layout.size(mesh_dim)) return 0;
  }
  return dim < static_cast<std::size_t>(kMarkedDims) ? 1u << dim : 0;
}

std::uint32_t Marks::note_of_local(const DTensor& from) const {
  const DTensorSpec& spec = *from.spec();
  const MeshLayout& layout = *spec.layout();
  MeshDims varies = device_mesh(&layout).participates() ? 0 : kAllDims;
  for (std::size_t dim = 0; dim < layout.ndim(); ++dim) {
    if (spec.placement(dim).is_replicate() || varies == kAllDims) continue;
    const MeshDims own = dims_of(layout, dim);
    varies |= own == 0 ? kAllDims : own;
  }
  return exactness(from) | varies_note(varies);
}

void Marks::call_begins(const CallRecord& call) {
  added_up_.push_back(false);
  ForwardingObserver::call_begins(call);
}

void Marks::call_ends(const CallRecord& call) {
  const OpRow& row = *call.row;
  bool any = false, exact = !added_up_.back(), in_integers = true;
  std::uint32_t exchanged = 0;
  added_up_.pop_back();
  const std::size_t count = row.op.positional_count();
  for (std::size_t i = 0; i < count; ++i) {
    const auto look_at = [&](const Argument& argument) {
      if (!argument.is_tensor() || !argument.tensor().defined()) return;
      const DTensor& x = argument.tensor();
      exact = exact && is_exact(x);
      any = true;
      in_integers = in_integers && is_integral(x.dtype());
      // A factor that all ranks have alike leaves terms what they are.
      const MeshDims varies = varies_along(x);
      const std::uint32_t note = varies_note(varies) | over_note(collected_along(x) & varies);
      if (i > 0 || !overwrites(row)) exchanged |= note;
    };
    const Argument& argument = (*call.args)[i];
    if (!argument.is_list()) {
      look_at(argument);
    } else {
      for (const Argument& element : argument.list()) look_at(element);
    }
  }
  // A value without tensor operands is made of the call's numbers, alike on every rank.
  const bool moves = !any || row.has(kExact);
  const auto mark_as = [&](const DTensor& result, std::uint32_t written) {
    if (!result.defined()) return;
    const bool same_bits = exact && (moves || (in_integers && is_integral(result.dtype())));
    result.impl()->note =
        (same_bits ? 0 : kAddedUp) | (result.distributed() ? 0 : exchanged) | written;
  };
  for_each_tensor(*call.results, [&](const DTensor& result) { mark_as(result, 0); });
  // Some ops write their arguments, and do not return them: lists, running statistics.
  for (std::size_t i = 0; i < call.args->size(); ++i) {
    if (!row.op.arguments[i].alias.write) continue;
    const std::span written(&(*call.args)[i], 1);
    for_each_tensor(written, [&](const DTensor& result) { mark_as(result, kWritten); });
  }
  ForwardingObserver::call_ends(call);
}

void Marks::call_fails() {
  added_up_.pop_back();
  ForwardingObserver::call_fails();
}

void Marks::placed(const PlacedRecord& record) {
  const DTensor& from = record.from;
  std::uint32_t& note = record.to.impl()->note;
  switch (record.kind) {
    case PlacedRecord::Kind::kRedistribute:
      note = exactness(from) | (adds_up(from, record.to) ? kAddedUp : 0);
      if (record.argument >= 0 && !added_up_.empty() && note != 0) added_up_.back() = true;
      break;
    case PlacedRecord::Kind::kDistribute:
    case PlacedRecord::Kind::kFromLocal:
      note = exactness(from);
      break;
    case PlacedRecord::Kind::kToLocal:
      note = note_of_local(from);
      break;
    case PlacedRecord::Kind::kCollected:
      note = note_of_collected(record);
      break;
  }
  ForwardingObserver::placed(record);
}

void Marks::collective_ends(const CollectiveCall& call) {
  ForwardingObserver::collective_ends(call);
  if (!call.result.defined()) return;
  const GroupIdentity& group = call.group->identity();
  Exchange exchange{.result = call.result.storage().get(), .all_get_one = gives_all_one(call.kind)};
  if (group.layout == nullptr) {
    exchange.known = mesh_ == nullptr || group.size == mesh_->size();
    exchange.over = exchange.known ? kAllDims : 0;
  }
  for (const std::size_t dim : group.mesh_dims) {
    const MeshDims own = dims_of(*group.layout, dim);
    exchange.known = exchange.known && own != 0;
    exchange.over |= own;
  }
  if (is_message(call.kind)) exchange.known = false;  // a message of one rank is no value of others
  constexpr std::size_t kMostOpen = 64;  // those of redistributions are never asked for
  if (exchanges_.size() == kMostOpen) exchanges_.erase(exchanges_.begin());
  exchanges_.push_back(exchange);
}

// Its bits depend on the number of ranks that took part.
std::uint32_t Marks::note_of_collected(const PlacedRecord& record) {
  const std::uint32_t before = exchange_note(record.from);
  const Storage* const result = record.to.local().storage().get();
  const auto found = std::find_if(exchanges_.rbegin(), exchanges_.rend(),
                                  [&](const Exchange& open) { return open.result == result; });
  // A group of one rank exchanges nothing.
  if (found == exchanges_.rend()) return kAddedUp | before;
  const Exchange exchange = *found;
  exchanges_.erase(std::next(found).base());
  MeshDims varies = varies_along(record.from);
  if (!exchange.known) {
    varies = kAllDims;
  } else if (exchange.all_get_one) {
    varies &= ~exchange.over;
  } else {
    varies |= exchange.over;
  }
  return kAddedUp | over_note(collected_along(record.from) | exchange.over) | varies_note(varies);
}

}  // namespace shardlab
