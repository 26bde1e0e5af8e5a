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

bool Casts::take(Statement& statement) {
  if (is_cast(statement.op)) return true;
  bool all = true;
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
      all = all && to != nullptr &&
            std::ranges::find(statement.takes, given.takes[0]) != statement.takes.end();
      if (all) statement.casts[given.takes[0]] = *to;
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
