// A value is as exact as what it was made of, unless floats were added up on the way: by an op that
// does, or because a pending reduction was carried out. Either depends on how the value is cut.
// Nothing but what the ranks are seen to do decides, so there is one place to look at for why a
// value was compared as it was.
#include "sim/record/marks.h"

#include <span>

#include "comm/device_mesh.h"
#include "schema/call_record.h"

namespace shardlab {

namespace {

constexpr std::uint32_t kAddedUp = 1u << 0;
constexpr std::uint32_t kRankLocal = 1u << 1;

std::uint32_t exactness(const DTensor& x) { return x.impl()->note & kAddedUp; }

bool adds_up(const DTensor& from, const DTensor& to) {
  if (from.spec() == to.spec() || is_integral(from.dtype())) return false;
  return from.distributed() && from.spec()->has_partial();
}

std::uint32_t note_of_local(const DTensor& from) {
  const DTensorSpec& spec = *from.spec();
  const bool whole = spec.is_replicated() && device_mesh(spec.layout()).participates();
  return exactness(from) | (whole ? 0 : kRankLocal);
}

}  // namespace

bool is_exact(const DTensor& x) { return exactness(x) == 0; }

bool is_rank_local(const DTensor& x) { return (x.impl()->note & kRankLocal) != 0; }

void Marks::call_begins(const CallRecord& call) {
  added_up_.push_back(false);
  ForwardingObserver::call_begins(call);
}

void Marks::call_ends(const CallRecord& call) {
  const OpRow& row = *call.row;
  bool any = false, exact = !added_up_.back(), in_integers = true, rank_local = false;
  added_up_.pop_back();
  for (std::size_t i = 0; i < row.op.positional_count(); ++i) {
    const auto look_at = [&](const Argument& argument) {
      if (!argument.is_tensor() || !argument.tensor().defined()) return;
      const DTensor& x = argument.tensor();
      exact = exact && is_exact(x);
      any = true;
      in_integers = in_integers && is_integral(x.dtype());
      rank_local = rank_local || is_rank_local(x);
    };
    const Argument& argument = (*call.args)[i];
    if (!argument.is_list()) {
      look_at(argument);
    } else {
      for (const Argument& element : argument.list()) look_at(element);
    }
  }
  // What is made of no tensor is made of the call's numbers, on every rank alike.
  const bool moves = !any || row.has(kExact);
  const auto mark = [&](const DTensor& result) {
    if (!result.defined()) return;
    const bool same_bits = exact && (moves || (in_integers && is_integral(result.dtype())));
    const bool local = rank_local && !result.distributed();
    result.impl()->note = (same_bits ? 0 : kAddedUp) | (local ? kRankLocal : 0);
  };
  for_each_tensor(*call.results, mark);
  // Some ops write what they are given, and do not give it back: lists, running statistics.
  for (std::size_t i = 0; i < call.args->size(); ++i) {
    if (!row.op.arguments[i].alias.write) continue;
    const std::span written(&(*call.args)[i], 1);
    for_each_tensor(written, mark);
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
      // It depends on how many ranks took part, which the single-device run cannot.
      note = kAddedUp | kRankLocal;
      break;
  }
  ForwardingObserver::placed(record);
}

}  // namespace shardlab
