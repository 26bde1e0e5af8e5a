// Ops for which the reference has no rule. It tries their decomposition on every combination of
// placements and offers those in which no inner op moves anything; a call here is propagated
// through the ops that it is made of, which move their operands. The first of several cheapest
// combinations depends there on the hash of strings (README, Determinism), so any answer with the
// recorded price is accepted.
#include <algorithm>

#include "dispatch/all_ops.h"
#include "schema/op_registry.h"
#include "schema/op_row.h"
#include "sim/proof/placings.h"
#include "tests/facts/fact_json.h"
#include "tests/facts/known_row.h"
#include "tests/facts/propagate_checkers.h"
#include "tests/facts/propagate_facts.h"
#include "tests/facts/shape_call.h"

namespace shardlab {
namespace {

/// The call that a line records, or why there is none.
ShapeCall recorded_call(Arena& arena, const Json& fact) {
  try {
    const OpRow& row = all_ops().at(fact.at("op").get<std::string>());
    return call_on_shapes(fact_call(row, fact_layout(arena, fact), fact));
  } catch (const Error& refusal) {
    ShapeCall call;
    call.error = refusal;
    return call;
  }
}

/// Outputs without their placements.
Json metadata(Json outputs) {
  for (Json& output : outputs) {
    if (!output.is_null()) output.erase("placements");
  }
  return outputs;
}

Json recorded_outputs(const Json& expect) {
  Json outputs = Json::array();
  if (expect.at("outputs").is_null()) return outputs;
  for (const Json& output : expect.at("outputs")) outputs.push_back(expected_output(output));
  return outputs;
}

Json our_outputs(const ShapeCall& call) {
  Json outputs = Json::array();
  for (const DTensorSpec* spec : call.outputs) outputs.push_back(output_json(spec));
  return outputs;
}

/// Ours keeps the written tensors where they are, or refuses.
void check_written(const Json& fact, const ShapeCall& call, CaseReport& report) {
  const bool refused = call.error && call.error->kind() == ErrorKind::kRuntime;
  if (call.error && !refused) {
    return report.differs("error", nullptr, to_string(call.error->kind()));
  }
  const OpRow& row = all_ops().at(fact.at("op").get<std::string>());
  const Json& given = fact.at("args").at(0).at("t").at("placements");
  if (!refused && row.inplace() && texts_of(call.outputs.at(0)->placements()) != given) {
    return report.differs("outputs", given, our_outputs(call));
  }
  report.differs("outputs.written_to_a_copy", true, false);
}

/// A recorded mean of the means of pieces that have not one size.
bool averages_uneven_pieces(const Json& fact) {
  const Json& expect = fact.at("expect");
  const Json& first = expect.at("outputs").is_null() ? Json() : expect.at("outputs").at(0);
  if (first.is_null() || !first.at("shape").empty()) return false;
  const Json &placements = first.at("placements"), &inputs = expect.at("inputs");
  if (std::ranges::find(placements, "P(avg)") == placements.end()) return false;
  std::size_t next = 0;
  for (const Json& argument : fact.at("args")) {
    if (!argument.is_object() || !argument.contains("t")) continue;
    const Json& shape = argument.at("t").at("shape");
    const Placements placed = placements_of(inputs.at(next++));
    if (!cuts_evenly(dims_of(shape), placed, dims_of(fact.at("mesh")))) return true;
  }
  return false;
}

/// K-14: an operand of integers that is pending as a mean.
bool takes_mean_of_integers(const Json& fact) {
  const auto is_one = [](const Json& tensor) {
    return tensor.is_object() && is_integral(dtype_of(tensor.at("dtype"))) &&
           has_item(tensor.at("placements"), "P(avg)");
  };
  return std::ranges::any_of(fact.at("args"), [&](const Json& argument) {
    return argument.is_object() &&
           (is_one(argument.value("t", Json())) ||
            std::ranges::any_of(argument.value("tl", Json::array()), is_one));
  });
}

/// Less, or more, than the recorded price.
void compare_prices(const Json& recorded, const ShapeCall& call, CaseReport& report) {
  const double price = number_of(recorded.at(0));
  if (same_costs(recorded, {call.cost()})) return;
  if (call.cost() < price) return report.differs("cost.less", false, true);
  const bool once = call.cost_once() < price || same_costs(recorded, {call.cost_once()});
  report.differs(once ? "cost.more_by_moving_again" : "cost.more", false, true);
}

}  // namespace

void check_decomposed(const Json& fact, CaseReport& report) {
  const Json& expect = fact.at("expect");
  Arena arena;
  const ShapeCall call = recorded_call(arena, fact);
  const Json& error = expect.at("error");
  const bool refuses_values = call.error && call.error->kind() == ErrorKind::kValue;
  const bool as_recorded =
      !error.is_null() && same_error(error.at("kind").get<std::string>(), ErrorKind::kValue);
  if (refuses_values && !as_recorded && takes_mean_of_integers(fact)) {
    return report.differs("error.mean_of_integers", error, "Value");
  }
  if (!error.is_null()) {
    return report.expect_error("error", error.at("kind"), [&] {
      if (call.error) throw Error(*call.error);
    });
  }
  if (moves_what_is_written(fact)) return check_written(fact, call, report);
  if (call.error) return report.differs("error", nullptr, to_string(call.error->kind()));
  report.expect("outputs", metadata(recorded_outputs(expect)), metadata(our_outputs(call)));
  if (averages_uneven_pieces(fact)) return report.differs("outputs.mean_of_uneven", true, false);
  compare_prices(expect.at("cost"), call, report);
}

}  // namespace shardlab
