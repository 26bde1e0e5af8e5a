// A DTensor is its whole, and a piece of it the same value. Placements are the plan's. Values that
// each rank has of its own, by a collective or as data, are none of one program.
#include <algorithm>
#include <variant>

#include "schema/op_row.h"
#include "sim/remesh/reading.h"

namespace shardlab {

namespace {

constexpr const char* kKeepWhole =
    "keep it a DTensor (output_layouts=Replicate(), use_local_output=False, distribute_tensor), or "
    "record the program on one process";

bool any_of(const Placements& placements, bool (Placement::*is)() const) {
  return std::ranges::any_of(placements, [&](const Placement& p) { return (p.*is)(); });
}

}  // namespace

void Wholes::note_given(const RecordedEvent& event) {
  const EventValue& value = event.out[0];
  if (value.whole()) {
    types_[value.id.id] = value.type;
  } else if (!value.of_ranks.empty() || value.elements.size() > 1 || value.prints.size() > 1) {
    own_[value.id.id] = &event;
  }
}

void Wholes::note_own(const RecordedEvent& event) {
  const std::vector<std::int32_t> operands = values_in(event.args);
  for_each_given(event, [&](const EventValue& value) {
    const auto cut =
        event.by_library && !operands.empty() ? cut_from_.find(operands.back()) : cut_from_.end();
    if (cut != cut_from_.end()) {
      cut_from_[value.id.id] = cut->second;
    } else {
      own_[value.id.id] = &event;
    }
  });
}

void Wholes::add_piece(std::int32_t value, const ValueType& whole) {
  types_[value] = whole;
  reading_.program.pieces.insert(value);
  reading_.program.metas[value] = contiguous_meta(whole.shape, whole.dtype);
}

void Wholes::check_label(const RecordedEvent& from_local, std::int32_t value) const {
  const auto refuse = [&](const std::string& what) {
    reading_.refuse(from_local, "from_local of " + what, kKeepWhole);
  };
  const auto own = own_.find(value);
  if (own != own_.end()) refuse("values that each rank has of its own");
  const ValueType& result = from_local.out[0].type;
  if (any_of(result.placements, &Placement::is_partial)) refuse("terms");
  if (is_piece(value)) {
    const ValueType& whole = types_.at(value);
    const bool same = whole.mesh == result.mesh && whole.placements == result.placements;
    if (!same) refuse("pieces that were cut otherwise");
  } else if (any_of(result.placements, &Placement::is_shard)) {
    refuse("equal values, as pieces");
  }
}

void Wholes::read_move(const RecordedEvent& move) {
  if (move.pass == RecordedPass::kBackward) return;
  std::int32_t in = move.takes[0];
  const EventValue& result = move.out[0];
  const std::int32_t out = result.id.id;
  const bool several = reading_.recording.ranks > 1;
  if (move.kind == RecordedKind::kToLocal && several) {
    const auto whole = types_.find(in);
    const Placements& cut = whole == types_.end() ? move.from : whole->second.placements;
    if (whole == types_.end() || any_of(cut, &Placement::is_partial)) {
      own_[out] = &move;
      return;
    }
    if (any_of(cut, &Placement::is_shard)) add_piece(out, ValueType(whole->second));
  }
  if (move.kind == RecordedKind::kFromLocal) {
    const auto cut = cut_from_.find(in);
    if (cut != cut_from_.end()) in = cut->second;
    if (cut == cut_from_.end() && several) check_label(move, in);
  }
  if (result.whole()) types_[out] = result.type;
  if (in == out || reading_.made.contains(out) || reading_.given.contains(out)) return;
  reading_.make_gradient(in);
  reading_.add(same_whole(move, in));
}

void Wholes::check_call(const RecordedEvent& call) {
  const std::vector<std::int32_t> operands = values_in(call.args);
  for (const std::int32_t v : operands) {
    const auto own = own_.find(v);
    if (own == own_.end()) continue;
    const RecordedEvent& from = *own->second;
    const std::string_view name = !from.op.empty()     ? from.op
                                  : !from.name.empty() ? from.name
                                                       : to_string(from.kind);
    reading_.refuse(call,
                    fmt::format("{} of what each rank has of its own ({} at {})", call.op, name,
                                reading_.told_place(from)),
                    kKeepWhole);
  }
  const auto first = std::ranges::find_if(operands, [&](std::int32_t v) { return is_piece(v); });
  for (const EventValue& out : call.out) {
    if (out.whole()) types_[out.id.id] = out.type;
    if (call.by_library && !out.whole() && !operands.empty()) {
      const auto cut = cut_from_.find(operands[0]);
      cut_from_[out.id.id] = cut == cut_from_.end() ? operands[0] : cut->second;
    }
  }
  if (first == operands.end()) return;
  const ValueType whole = types_.at(*first);
  const bool alike = std::ranges::all_of(operands, [&](std::int32_t v) {
    return is_piece(v) && types_.at(v).mesh == whole.mesh &&
           types_.at(v).placements == whole.placements && types_.at(v).shape == whole.shape;
  });
  // Elements that meet those of the same place are the same on pieces.
  const bool by_place =
      call.row != nullptr &&
      (std::holds_alternative<PointwiseRule>(call.row->rule) || bare_op(call.op) == "detach");
  if (!alike || !by_place) {
    reading_.refuse(call,
                    fmt::format("{} of pieces {}, which ranks call with sizes of their own",
                                call.op, to_string(whole.placements)),
                    kKeepWhole);
  }
  for (const EventValue& out : call.out) {
    ValueType type = whole;
    type.dtype = out.type.dtype;
    add_piece(out.id.id, type);
  }
}

}  // namespace shardlab
