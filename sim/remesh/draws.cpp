// A program that draws its own numbers has others than PyTorch: masks and drawn tensors are inputs.
#include <algorithm>

#include "sim/remesh/reading.h"

namespace shardlab {

namespace {

constexpr std::string_view kAttention = "scaled_dot_product_attention";

// Attention is recorded as drawing, even with a dropout of 0.
bool attends_without_dropout(const Statement& statement) {
  return statement.bare() == kAttention && number_of(statement, "dropout_p") == 0;
}

// Without groups: as many heads of keys as of queries.
bool is_plain_attention(const Statement& statement) {
  return statement.bare() == kAttention && number_of(statement, "enable_gqa").value_or(0) == 0;
}

bool has_vectors(std::string_view op) {
  return bare_op(op) == "_linalg_eigh" || bare_op(op) == "_linalg_svd";
}

}  // namespace

RecordedDraws::Taken RecordedDraws::take(Statement& statement) {
  if (statement.takes.empty()) statement.kind = StatementKind::kFactory;
  const auto& ops = reading_.inside(*statement.event);
  const auto ties = [](const RecordedEvent* op) { return op->ties; };
  const auto is_given = [&](std::int32_t v) { return reading_.drawn.contains(v); };
  const bool all = std::ranges::all_of(statement.outs, is_given);
  if (std::ranges::any_of(ops, ties) && !choose(statement) && !reading_.recording.shapes_only) {
    return all && give(statement) ? Taken::kGiven : Taken::kLowered;  // argsort; msort
  }
  const auto vectors =
      std::ranges::find_if(ops, [](const RecordedEvent* op) { return has_vectors(op->op); });
  const bool whole = vectors != ops.end() && statement.outs == statement_of(**vectors).outs;
  if (statement.bare() == "svd") return Taken::kLowered;  // its V is a view
  if (whole && !reading_.recording.shapes_only) {
    add_signed(std::move(statement));
    return Taken::kGiven;
  }
  const auto drawn = std::ranges::find_if(ops, [](const RecordedEvent* op) { return op->random; });
  if (drawn == ops.end() || reading_.recording.shapes_only) return Taken::kStatement;
  if (attends_without_dropout(statement)) return Taken::kStatement;
  const std::string_view bare = statement.bare();
  if (bare == "dropout" || bare == "dropout_" || bare == "native_dropout" ||
      bare == "feature_dropout") {
    mask(statement, **drawn, "p");
    return Taken::kStatement;
  }
  if (is_plain_attention(statement)) {
    attention(statement, **drawn);
    return Taken::kStatement;
  }
  if (!all || statement.event->in_sequence) return Taken::kLowered;
  return give(statement) ? Taken::kGiven : (draw_in_place(statement), Taken::kStatement);
}

bool RecordedDraws::take_op(Statement& statement) {
  // The noise of rrelu is the factor of each element.
  if (statement.bare() == "native_dropout" || statement.bare().starts_with("rrelu_with_noise")) {
    mask(statement, *statement.event, "p");
    statement.outs.resize(1);
    return true;
  }
  for (const std::int32_t v : statement.outs) {
    if (!reading_.drawn.contains(v)) refuse(statement);
  }
  if (give(statement)) return false;
  draw_in_place(statement);
  return true;
}

// Results of an op that makes new tensors are inputs; others are written.
bool RecordedDraws::give(const Statement& statement) {
  if (statement.returns_first() && is_in_place(statement.op)) return false;
  for (const std::int32_t v : statement.outs) reading_.given.emplace(v, reading_.drawn.at(v));
  return true;
}

// x.normal_(): the tensor may be a part of another, and be drawn again.
void RecordedDraws::draw_in_place(Statement& statement) {
  const std::int32_t v = statement.takes[0];
  statement.kind = StatementKind::kDrawn;
  statement.takes = {v, as_input(v)};
}

std::int32_t RecordedDraws::as_input(std::int32_t drawn) {
  const std::int32_t numbers = reading_.fresh();
  GivenValue given = reading_.drawn.at(drawn);
  if (given.name.empty()) given.name = fmt::format("v{}", drawn);
  reading_.given.emplace(numbers, std::move(given));
  return numbers;
}

void RecordedDraws::refuse(const Statement& statement) const {
  reading_.refuse(*statement.event, "what " + statement.op + " draws", "record it with its values");
}

// Other indices of equal elements would be as right, but gradients would flow elsewhere.
bool RecordedDraws::choose(Statement& statement) {
  if (statement.outs.size() != 2 || !reading_.drawn.contains(statement.outs[1])) return false;
  statement.kind = StatementKind::kChosen;
  statement.mask = statement.outs[1];
  GivenValue indices = reading_.drawn.at(statement.mask);
  indices.stem = "chosen";
  reading_.given.emplace(statement.mask, std::move(indices));
  statement.takes = {statement.takes.at(0), statement.mask};
  statement.outs.resize(1);
  return true;
}

void RecordedDraws::add_signed(Statement statement) {
  const std::vector<Statement> behind = sign(statement);
  reading_.add(std::move(statement));
  for (const Statement& one : behind) reading_.add(one);
}

std::vector<Statement> RecordedDraws::sign(Statement& statement) {
  std::vector<Statement> behind;
  if (!has_vectors(statement.event->op) && !statement.bare().starts_with("linalg_")) return behind;
  for (std::size_t i = 0; i < statement.outs.size(); ++i) {
    const std::int32_t v = statement.outs[i];
    const auto drawn = reading_.drawn.find(v);
    if (drawn == reading_.drawn.end()) continue;
    statement.outs[i] = reading_.fresh();
    if (statement.no_grad) {
      reading_.given.emplace(v, drawn->second);
      continue;
    }
    const std::int32_t recorded = as_input(v);
    Statement one{.kind = StatementKind::kChosen, .event = statement.event, .op = statement.op};
    one.takes = {statement.outs[i], recorded};
    one.mask = recorded;
    one.scale = i == 2 ? -1 : -2;  // the dim along which a vector lies
    one.outs = {v};
    behind.push_back(std::move(one));
  }
  return behind;
}

void RecordedDraws::attention(Statement& statement, const RecordedEvent& draw) {
  const std::vector<std::int32_t> operands = statement.takes;
  mask(statement, draw, "dropout_p");
  statement.kind = StatementKind::kAttention;
  statement.takes = operands;
  statement.takes.push_back(statement.mask);
}

void RecordedDraws::mask(Statement& statement, const RecordedEvent& draw,
                         std::string_view probability) {
  statement.kind = StatementKind::kDropout;
  statement.scale = 1 / (1 - number_of(statement, probability).value_or(0));
  for_each_given(draw, [&](const EventValue& value) {
    // native_dropout has two results, of which it is the second.
    if (!value.elements.empty()) statement.mask = value.id.id;
  });
  if (!reading_.drawn.contains(statement.mask) || statement.takes.empty()) refuse(statement);
  if (reading_.made.contains(statement.mask)) {  // it is written into a tensor of the program
    statement.mask = as_input(statement.mask);
  } else {
    reading_.given.emplace(statement.mask, reading_.drawn.at(statement.mask));
  }
  statement.takes = {statement.takes[0], statement.mask};
}

}  // namespace shardlab
