// A gradient is scaled through a view of it as often as by its own name.
#include "sim/replay/writers.h"

#include "schema/op_row.h"

namespace shardlab {

namespace {

bool is_view_of_first(const RecordedEvent& event) {
  using enum RecordedKind;
  return event.kind == kAlias || event.kind == kFromLocal || event.kind == kToLocal ||
         (event.kind == kOp && event.row != nullptr && event.row->op.is_view());
}

}  // namespace

void Writers::meet(const RecordedProgram& program, std::size_t at) {
  const RecordedEvent& event = program.events[at];
  const auto write = [&](std::int32_t number) {
    const bool told = event.place >= 0 && event.pass != RecordedPass::kBackward;
    if (told) last_[root(number)] = at;
  };
  const bool in_place = is_in_place(event.op);
  if (is_view_of_first(event)) {
    std::int32_t first = -1;
    for_each_operand(event, event.first_rank(),
                     [&](std::int32_t number) { first = first < 0 ? number : first; });
    for (const EventValue& out : event.out) {
      if (out.id.id >= 0 && first >= 0 && out.id.id != first) roots_[out.id.id] = root(first);
    }
  } else if (in_place && event.kind == RecordedKind::kOp) {
    for (const EventValue& out : event.out) write(out.id.id);
  }
  for (const EventValue& one : event.written) write(one.id.id);
}

std::optional<std::size_t> Writers::last(std::int32_t number) const {
  const auto found = last_.find(root(number));
  return found == last_.end() ? std::nullopt : std::optional(found->second);
}

std::int32_t Writers::root(std::int32_t number) const {
  const auto found = roots_.find(number);
  return found == roots_.end() ? number : found->second;
}

}  // namespace shardlab
