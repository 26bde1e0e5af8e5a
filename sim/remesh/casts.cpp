// Below autograd autocast shows: as casts, each of which it may use for several calls.
#include <algorithm>

#include "sim/remesh/reading.h"

namespace shardlab {

void Casts::note(const RecordedEvent& op) {
  if (!is_cast(op.op) || !op.error.empty()) return;
  for (const EventValue& out : op.out) {
    if (out.id.id >= 0) casts_[out.id.id] = &op;
  }
}

// A view that is all of its memory has the number of an op's result there, and one of its own.
void Casts::note_results(const RecordedEvent& call) {
  const auto& ops = reading_.inside(call);
  if (ops.empty() || ops.back()->out.size() != call.out.size()) return;
  for (std::size_t i = 0; i < call.out.size(); ++i) {
    const std::int32_t below = ops.back()->out[i].id.id, own = call.out[i].id.id;
    if (below >= 0 && own >= 0) above_[below] = own;
  }
}

// The number of an op's operand in the program.
std::int32_t Casts::above(std::int32_t value) const {
  const auto found = above_.find(value);
  const bool known = reading_.made.contains(value) || reading_.given.contains(value);
  return known || found == above_.end() ? value : found->second;
}

bool Casts::take(Statement& statement) {
  if (is_cast(statement.op)) return true;
  bool all = true;
  const DType dtype_of_result = statement.event->out.at(0).type.dtype;
  for (const RecordedEvent* op : reading_.inside(*statement.event)) {
    if (is_cast(op->op)) continue;
    for (const std::int32_t v : values_in(op->args)) {
      const auto cast = casts_.find(v);
      const bool own = std::ranges::find(statement.takes, v) != statement.takes.end();
      if (cast == casts_.end() || own) continue;
      const Statement given = statement_of(*cast->second);
      if (given.takes.empty()) {
        refuse_event(reading_.recording, *cast->second, "a cast takes one tensor");
      }
      const GraphArgument* dtype = argument_of(given, "dtype");
      const auto* to = dtype == nullptr ? nullptr : std::get_if<DType>(&dtype->value);
      // Attention computes in f32 and rounds its result: a cast inside of the op.
      if (to != nullptr && unit_roundoff(*to) < unit_roundoff(dtype_of_result)) continue;
      const std::int32_t operand = above(given.takes[0]);
      all = all && to != nullptr &&
            std::ranges::find(statement.takes, operand) != statement.takes.end();
      if (all) statement.casts[operand] = *to;
    }
  }
  return all;
}

void Casts::lower(const RecordedEvent& call) {
  for (const RecordedEvent* op : reading_.inside(call)) lower_op(*op, call.no_grad);
}

void Casts::lower_op(const RecordedEvent& op, bool no_grad) {
  Statement statement = statement_of(op);
  statement.no_grad = no_grad;
  if (statement.outs.empty() || returns_operands(statement)) return;
  for (const std::int32_t v : statement.takes) make(v, no_grad);
  for (GraphArgument& argument : statement.args) {
    for_each_value(argument, [&](ValueRef& value) { value.id = above(value.id); });
  }
  statement.takes = values_in(statement.args);
  if (op.random) {
    reading_.made.insert(statement.outs.begin(), statement.outs.end());
    if (!draws_.take_op(statement)) return;
  } else if (statement.takes.empty()) {
    statement.kind = StatementKind::kFactory;
  }
  if (op.ties) draws_.choose(statement);
  draws_.add_signed(std::move(statement));
}

// A cast that an earlier call has made, of which the program has only the operand.
void Casts::make(std::int32_t value, bool no_grad) {
  const auto cast = casts_.find(value);
  if (cast == casts_.end() || reading_.made.contains(value)) return;
  Statement statement = statement_of(*cast->second);
  statement.no_grad = no_grad;
  statement.outs = {value};
  reading_.add(std::move(statement));
}

}  // namespace shardlab
