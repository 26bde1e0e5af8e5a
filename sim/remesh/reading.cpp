// Values are looked up by number; gradients by the name that a backward leaves them under.
#include "sim/remesh/reading.h"

#include <algorithm>

#include "base/error.h"
#include "schema/op_row.h"

namespace shardlab {

Reading::Reading(const RecordedProgram& of) : recording(of) {
  program.recording = &of;
  program.values = of.values;
  for (const RecordedEvent& event : of.events) {
    const bool end = event.kind == RecordedKind::kCheck && event.pass != RecordedPass::kBackward;
    if (end) ends_.emplace(event.name, event.out[0].id.id);
  }
}

std::string Reading::told_place(const RecordedEvent& event) const {
  const std::string place = place_of(recording, event);
  return place.empty() ? fmt::format("event {}", event.line) : place;
}

void Reading::refuse(const RecordedEvent& event, const std::string& what,
                     const std::string& fix) const {
  fail(ErrorKind::kUnsupported, Fix{fix}, "{}: {} at {} is not taken to another mesh yet",
       recording.path, what, told_place(event));
}

void Reading::refuse_missing(const RecordedEvent& event) const {
  fail(ErrorKind::kUnsupported, Fix{without_op(event.op)}, "{}: {} at {} does not exist here",
       recording.path, event.op, place_of(recording, event));
}

void Reading::add(Statement statement) {
  made.insert(statement.outs.begin(), statement.outs.end());
  program.statements.push_back(std::move(statement));
}

void Reading::note_given(const RecordedEvent& event) {
  const EventValue& value = event.out[0];
  given[value.id.id] = {.event = &event, .value = &value, .name = event.name};
  if (!value.elements.empty()) ++times_[value.id.id];
}

void Reading::note_drawn(const RecordedEvent& event) {
  for_each_given(event, [&](const EventValue& value) {
    if (value.elements.empty()) return;
    const int time = ++times_[value.id.id];
    GivenValue& known = drawn[value.id.id];
    known = {.value = &value};
    if (time > 1) known.name = fmt::format("v{}:{}", value.id.id, time);
  });
}

void Reading::note_accumulation(const RecordedEvent& op) {
  if (op.node == "AccumulateGrad") adds_up_ = bare_op(op.op).starts_with("add");
}

// To set a gradient to None is no op: it shows in a later backward that does not add to it.
void Reading::note_gradient(const RecordedEvent& check) {
  const std::optional<std::int32_t> parameter = parameter_of(check.name);
  const auto backward = std::ranges::find(program.statements.rbegin(), program.statements.rend(),
                                          StatementKind::kBackward, &Statement::kind);
  if (!parameter || backward == program.statements.rend()) return;
  if (!fresh_gradients_.insert(check.name).second && !adds_up_) {
    backward->resets.push_back(*parameter);
  }
  if (given.contains(check.out[0].id.id)) {
    refuse(check, "a gradient that the program has before it is recorded",
           "call optimizer.zero_grad() before record(), or replay the step as it is");
  }
  gradient_checks_[check.out[0].id.id] = &check;
  adds_up_ = false;
}

std::optional<std::int32_t> Reading::parameter_of(const std::string& gradient) const {
  if (!gradient.ends_with(".grad")) return std::nullopt;
  const std::string name = gradient.substr(0, gradient.size() - 5);
  if (const auto leaf = leaves_.find(name); leaf != leaves_.end()) return leaf->second;
  for (const auto& [number, input] : given) {
    if (input.name == name && input.requires_grad()) return number;
  }
  // A parameter that a function took before the model was known has no name in the beginning.
  const auto end = ends_.find(name);
  const auto known = end == ends_.end() ? given.end() : given.find(end->second);
  if (known == given.end() || !known->second.requires_grad()) return std::nullopt;
  return known->first;
}

void Reading::make_gradient(std::int32_t value) {
  const auto check = gradient_checks_.find(value);
  if (check == gradient_checks_.end() || given.contains(value) || made.contains(value)) return;
  add(gradient_of(*check->second, *parameter_of(check->second->name), value));
}

bool is_same_value(const Statement& statement) {
  const bool same = statement.outs.size() == 1 && statement.outs == statement.takes;
  const std::string_view bare = statement.bare();
  return same && (bare == "detach" || bare == "alias" || bare == "lift_fresh");
}

bool returns_operands(const Statement& statement) {
  const OpRow* row = statement.row;
  if (row == nullptr || row->op.is_inplace() || row->op.is_out_variant()) return false;
  return std::ranges::all_of(statement.outs, [&](std::int32_t v) {
    return std::ranges::find(statement.takes, v) != statement.takes.end();
  });
}

bool is_lstm_layer(std::string_view op) { return bare_op(op) == "mkldnn_rnn_layer"; }

bool is_cast(std::string_view op) { return bare_op(op) == "_to_copy" || bare_op(op) == "to"; }

}  // namespace shardlab
