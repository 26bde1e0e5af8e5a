// An op is named as PyTorch prints it: its library, its name, its overload.
#include "sim/remesh/call_program.h"

#include <algorithm>

#include "dispatch/all_ops.h"
#include "schema/op_registry.h"
#include "schema/op_row.h"

namespace shardlab {

bool Statement::takes_detached(std::int32_t value, std::size_t index) const {
  const auto mark = std::ranges::find(event->marks, index, &OperandMark::operand);
  const bool taped = mark != event->marks.end() && mark->taped;
  return !taped && std::ranges::find(event->detached, value) != event->detached.end();
}

std::vector<std::int32_t> values_in(const std::vector<GraphArgument>& args) {
  std::vector<std::int32_t> values;
  for_each_value_in(args, [&](std::int32_t value) { values.push_back(value); });
  return values;
}

Statement statement_of(const RecordedEvent& event) {
  Statement statement{.event = &event, .op = event.op, .row = event.row, .args = event.args};
  statement.takes = values_in(event.args);
  for (const EventValue& out : event.out) {
    if (out.id.id >= 0) statement.outs.push_back(out.id.id);
  }
  return statement;
}

Statement same_whole(const RecordedEvent& move, std::int32_t value) {
  Statement same{.event = &move, .op = "aten.alias.default", .row = all_ops().find("aten::alias")};
  same.args = {{ValueRef{value}}};
  same.takes = {value};
  same.outs = {move.out[0].id.id};
  same.no_grad = move.no_grad;
  return same;
}

Statement gradient_of(const RecordedEvent& event, std::int32_t parameter, std::int32_t value) {
  return {.kind = StatementKind::kGradient,
          .event = &event,
          .op = "gradient",
          .takes = {parameter},
          .outs = {value},
          .no_grad = true};
}

const GraphArgument* argument_of(const Statement& statement, std::string_view name) {
  if (statement.row == nullptr || !statement.event->misfit.empty()) return nullptr;
  const auto at = statement.row->op.find_argument(name);
  return at && *at < statement.args.size() ? &statement.args[*at] : nullptr;
}

std::optional<double> number_of(const Statement& statement, std::string_view name) {
  const GraphArgument* argument = argument_of(statement, name);
  const auto* scalar = argument == nullptr ? nullptr : std::get_if<Scalar>(&argument->value);
  if (scalar == nullptr || scalar->category() == Category::kComplex) return std::nullopt;
  return scalar->to_double();
}

// Values are found by number.

const CallInput* CallProgram::input(std::int32_t value) const {
  const auto found = std::ranges::find(inputs, value, &CallInput::value);
  return found == inputs.end() ? nullptr : &*found;
}

Dims CallProgram::shape_of(std::int32_t value) const {
  const auto found = metas.find(value);
  return found == metas.end() ? Dims{} : found->second.shape;
}

}  // namespace shardlab
