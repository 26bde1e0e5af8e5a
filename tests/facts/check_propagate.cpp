// Decisions and candidate lists of the propagator against the recorded ones.
#include <algorithm>
#include <set>
#include <string>

#include "base/tensor_dim.h"
#include "dispatch/all_ops.h"
#include "mesh/local_shape.h"
#include "schema/computation.h"
#include "schema/op_registry.h"
#include "schema/op_row.h"
#include "schema/sharding_rule.h"
#include "tests/facts/fact_json.h"
#include "tests/facts/propagate_checkers.h"
#include "tests/facts/propagate_facts.h"

namespace shardlab {
namespace {

/// Data that all lines of a file share.
class PropagateChecker : public FactChecker {
 public:
  PropagateChecker() : propagator_(all_ops(), PlanOptions{}) { propagator_.set_advice(false); }

 protected:
  /// The row of the line's op, or null with the reason reported.
  const OpRow* row_of(const Json& fact, CaseReport& report) const {
    const OpRow* row = all_ops().find(fact.at("op").get<std::string>());
    if (row == nullptr) report.skip(SkipReason::kNotRegistered);
    if (row != nullptr && std::holds_alternative<NoRule>(row->rule)) {
      report.skip(SkipReason::kNoRule);
      return nullptr;
    }
    return row;
  }

  Arena arena_;
  Propagator propagator_;
};

Json adapted_value(const OpSchema& schema, const OutputSharding& sharding,
                   const AdaptedArgument& adapted) {
  using Token = AdaptedArgument::Token;
  const Coordinate origin(schema.layout->ndim(), 0);
  switch (adapted.token) {
    case Token::kLocalShapeOfOutput:
      return json_of(local_shape(*sharding.outputs[adapted.index], origin));
    case Token::kLocalStrideOfOutput:
      return json_of(local_stride(*sharding.outputs[adapted.index], origin));
    case Token::kLocalOffsetOfInput:
      return nullptr;
    case Token::kValue:
      break;
  }
  if (adapted.value.is_ints()) return json_of(adapted.value.ints());
  return adapted.value.to_int();
}

/// Only adapted arguments are compared: the others are as recorded in "args".
Json local_arguments(const OpSchema& schema, const OutputSharding& sharding, const Json& recorded) {
  Json arguments = recorded;
  for (const AdaptedArgument& adapted : sharding.adapted) {
    if (adapted.argument >= arguments.size()) continue;
    const Json value = adapted_value(schema, sharding, adapted);
    const bool one = adapted.token == AdaptedArgument::Token::kLocalShapeOfOutput &&
                     !schema.row->op.arguments[adapted.argument].type.is_list;
    arguments[adapted.argument] = one ? value.at(adapted.dim) : value;
  }
  return arguments;
}

/// Numbers, within the whole tensor, of the elements of a rank, in its own order.
std::vector<std::int64_t> elements_of(const DTensorSpec& spec, const Coordinate& coordinate) {
  std::vector<std::int64_t> numbers{0};
  const LocalView view = local_view(spec, coordinate);
  for (std::size_t dim = 0; dim < spec.ndim(); ++dim) {
    std::vector<std::int64_t> next;
    for (const std::int64_t number : numbers) {
      for (const IndexRun& run : view.dims[dim].runs) {
        for (std::int64_t i = 0; i < run.size; ++i) {
          next.push_back(number * spec.shape()[dim] + run.offset + i);
        }
      }
    }
    numbers = std::move(next);
  }
  return numbers;
}

/// Whether every rank holds the same elements in the same order under both.
bool same_elements(const DTensorSpec& a, const DTensorSpec& b) {
  for (std::int64_t rank = 0; rank < a.layout()->size(); ++rank) {
    const Coordinate coordinate = a.layout()->coordinate_at_index(rank);
    if (elements_of(a, coordinate) != elements_of(b, coordinate)) return false;
  }
  return true;
}

/// True when these placements cut the target of gather along a dim of which the index is only a
/// front: their pieces are other rows.
bool cuts_a_front(const Json& fact, const Json& inputs) {
  if (!fact.at("op").get_ref<const std::string&>().starts_with("aten.gather.")) return false;
  const Json &args = fact.at("args"), &self = args[0].at("t").at("shape"),
             &index = args[2].at("t").at("shape");
  const auto ndim = static_cast<std::int64_t>(self.size());
  if (self.size() != index.size()) return false;
  const std::int64_t dim = wrap_dim(integer_of<std::int64_t>(args[1]), self.size());
  for (std::int64_t d = 0; d < ndim; ++d) {
    const auto at = static_cast<std::size_t>(d);
    const auto length = integer_of<std::int64_t>(self[at]);
    if (d == dim || integer_of<std::int64_t>(index[at]) >= length) continue;
    const std::string cut = fmt::format("S({})", d);
    for (const Json& placement : inputs[0]) {
      if (placement == cut) return true;
    }
  }
  return false;
}

class CaseChecker : public PropagateChecker {
 public:
  void check(const Json& fact, CaseReport& report) override {
    const Json& expect = fact.at("expect");
    const OpRow* row = all_ops().find(fact.at("op").get<std::string>());
    const bool made_of_others = row != nullptr && std::holds_alternative<NoRule>(row->rule) &&
                                std::holds_alternative<PartsFn>(row->compute);
    if (made_of_others || expect.at("path") == "decomp") return check_decomposed(fact, report);
    row = row_of(fact, report);
    if (row == nullptr) return;
    const MeshLayout* layout = fact_layout(arena_, fact);
    const Json& error = expect.at("error");
    if (!error.is_null()) {
      report.expect_error("error", error.at("kind"),
                          [&] { propagator_.propagate(fact_call(*row, layout, fact)); });
      return;
    }
    if (reshapes(fact) && mixes_up_elements(layout, fact)) {
      return check_reshape(fact_call(*row, layout, fact), report);
    }
    if (cuts_a_front(fact, expect.at("inputs"))) {
      return check_front(fact_call(*row, layout, fact), fact, report);
    }
    try {
      const OpSchema schema = fact_call(*row, layout, fact);
      if (impossible(fact)) {
        propagator_.propagate(schema);
        return report.differs("outputs.cut_missing_dim", true, false);
      }
      const OutputSharding got = *propagator_.propagate(schema);
      if (keeps_what_is_written(fact, got)) {
        return report.differs("outputs.written_to_a_copy", true, false);
      }
      if (mixes_kinds(expect.at("outputs"))) {
        return report.differs("outputs.mixes_kinds", true, false);
      }
      compare(schema, got, expect, report);
      if (!report.differences().empty()) {
        add_candidates(propagator_.explain(schema), given_placements(fact), report);
      }
    } catch (const Error& refusal) {
      report.differs("error", nullptr, to_string(refusal.kind()));
    }
  }

 private:
  /// An op that numbers the elements of its input anew, in row-major order.
  static bool reshapes(const Json& fact) {
    constexpr std::string_view kOps[] = {"aten._unsafe_view.default", "aten.reshape.default",
                                         "aten.view.default", "aten.view_copy.default"};
    return std::ranges::find(kOps, fact.at("op").get_ref<const std::string&>()) != std::end(kOps);
  }

  /// Whether the recorded output gives some rank other elements than the recorded input does.
  static bool mixes_up_elements(const MeshLayout* layout, const Json& fact) {
    const Json& output = fact.at("expect").at("outputs").at(0);
    const DTensorSpec* given = fact_argument(layout, fact.at("args").at(0)).spec();
    const DTensorSpec* made = fact_argument(layout, {{"t", output}}).spec();
    return !same_elements(*given->with(placements_of(fact.at("expect").at("inputs").at(0))), *made);
  }

  /// A reshape whose recorded answer mixes up elements: ours may refuse, or must keep them.
  void check_reshape(const OpSchema& schema, CaseReport& report) const {
    try {
      const DecisionRecord got = propagator_.explain(schema);
      const OutputSharding& ours = got.sharding;
      if (!same_elements(*ours.inputs[0], *ours.outputs[0])) {
        return report.differs("outputs", "the elements of the input", output_json(ours.outputs[0]));
      }
    } catch (const Error& refusal) {
      if (refusal.kind() != ErrorKind::kRuntime) throw;
    }
    report.differs("outputs.mixes_up_elements", true, false);
  }

  /// A gather whose recorded answer cuts such a dim: ours may be refused, or must not.
  void check_front(const OpSchema& schema, const Json& fact, CaseReport& report) const {
    try {
      Json inputs = Json::array();
      for (const DTensorSpec* spec : propagator_.explain(schema).sharding.inputs) {
        inputs.push_back(texts_of(spec->placements()));
      }
      if (cuts_a_front(fact, inputs)) return report.differs("inputs", "pieces of one row", inputs);
    } catch (const Error& refusal) {
      if (refusal.kind() != ErrorKind::kRuntime) throw;
    }
    report.differs("inputs.of_other_rows", true, false);
  }

  /// Whether the recorded decision moves a tensor that is written, and ours keeps it.
  static bool keeps_what_is_written(const Json& fact, const OutputSharding& ours) {
    Json inputs = Json::array();
    for (const DTensorSpec* spec : ours.inputs) inputs.push_back(texts_of(spec->placements()));
    return moves_what_is_written(fact) && !moves_what_is_written(fact, inputs);
  }

  /// Recorded placements of one tensor that are pending reductions of several kinds, which no spec
  /// of ours can express: a sum and a mean make one.
  static bool mixes_kinds(const Json& outputs) {
    return std::ranges::any_of(outputs, [](const Json& output) {
      std::set<std::string> kinds;
      if (output.is_null()) return false;
      for (const Json& text : output.at("placements")) {
        const auto& placement = text.get_ref<const std::string&>();
        if (placement.starts_with("P(")) kinds.insert(placement == "P(avg)" ? "P(sum)" : placement);
      }
      return kinds.size() > 1;
    });
  }

  /// True for an op that writes a tensor which its schema does not name as written.
  static bool writes_unnamed(const OpRow& row) {
    return std::ranges::any_of(row.op.arguments, [](const SchemaArgument& argument) {
      return argument.is_out && !argument.name.starts_with("out");
    });
  }

  /// Placements of the positional tensors, lists flattened.
  static Json given_placements(const Json& fact) {
    Json given = Json::array();
    for (const Json& argument : fact.at("args")) {
      if (!argument.is_object()) continue;
      if (argument.contains("t")) given.push_back(argument.at("t").at("placements"));
      for (const Json& one : argument.value("tl", Json::array())) {
        if (!one.is_null()) given.push_back(one.at("placements"));
      }
    }
    return given;
  }

  // Candidates of a call on lists: those of each element.
  static void add_candidates(const DecisionRecord& record, const Json& given, CaseReport& report) {
    const std::size_t elements = record.strategies.size();
    if (elements == 0 || given.size() % elements != 0) return;
    for (std::size_t element = 0; element < elements; ++element) {
      Json own = Json::array();
      for (std::size_t i = element; i < given.size(); i += elements) own.push_back(given[i]);
      for (const OpSpec& candidate : record.strategies[element].candidates) {
        Json outputs = Json::array(), inputs = Json::array();
        for (std::size_t i = 0; i < candidate.outputs.size(); ++i) {
          const std::size_t place = i * elements + element;
          if (place >= record.sharding.outputs.size()) break;  // the op gives nothing
          outputs.push_back(output_json(record.sharding.outputs[place]));
          if (candidate.outputs[i] == nullptr) continue;
          outputs.back()["placements"] = texts_of(candidate.outputs[i]->placements());
        }
        for (std::size_t i = 0; i < own.size(); ++i) {
          inputs.push_back(texts_of(candidate.inputs.at(i)->placements()));
        }
        report.add_candidate({{"element", element},
                              {"given", own},
                              {"outputs", std::move(outputs)},
                              {"needs_redistribute", inputs != own},
                              {"inputs", std::move(inputs)},
                              {"cost", costs_json({candidate.cost()})}});
      }
    }
  }

  static void compare(const OpSchema& schema, const OutputSharding& got, const Json& expect,
                      CaseReport& report) {
    compare_outputs(got, expect.at("outputs"), report);
    Json inputs = Json::array();
    for (const DTensorSpec* spec : got.inputs) inputs.push_back(texts_of(spec->placements()));
    report.expect("inputs", expect.at("inputs"), inputs);
    const bool adapts = !got.adapted.empty();
    report.expect("needs_redistribute", expect.at("needs_redistribute"),
                  got.needs_redistribute || adapts);
    report.expect("use_val", expect.value("use_val", false), adapts);
    if (expect.contains("local_args")) {
      report.expect("local_args", expect.at("local_args"),
                    local_arguments(schema, got, expect.at("local_args")));
    }
    if (expect.contains("local_op")) {
      report.expect("local_op", expect.at("local_op"),
                    got.local_row == nullptr ? Json() : Json(recorded_name(*got.local_row)));
    }
    if (!expect.contains("cost")) return;
    if (!same_costs(expect.at("cost"), got.costs)) {
      if (writes_unnamed(*schema.row) && number_of(expect.at("cost").at(0)) > got.costs.at(0)) {
        report.differs("cost.of_what_is_written", true, false);
      } else {
        report.differs("cost", expect.at("cost"), costs_json(got.costs));
      }
    }
    report.expect("n_strategies", expect.at("n_strategies"), got.candidate_counts);
  }

  static void compare_outputs(const OutputSharding& got, const Json& expected, CaseReport& report) {
    Json outputs = Json::array();
    for (const DTensorSpec* spec : got.outputs) outputs.push_back(output_json(spec));
    Json wanted = Json::array();
    if (!expected.is_null()) {
      for (const Json& output : expected) wanted.push_back(expected_output(output));
    }
    report.expect("outputs", wanted, outputs);
  }

  /// True when a recorded output is cut along a dim it does not have, or has no more since an empty
  /// list of dims reduces all. No spec can express that, so nothing else of the decision is
  /// comparable.
  static bool impossible(const Json& fact) {
    const Json &outputs = fact.at("expect").at("outputs"), &args = fact.at("args");
    if (outputs.is_null()) return false;
    const bool all_dims = args.size() > 1 && args.at(1).is_array() && args.at(1).empty();
    const Json whole = all_dims ? args.at(0).at("t").at("shape") : Json::array();
    return std::ranges::any_of(outputs,
                               [&](const Json& output) { return cuts_missing_dim(output, whole); });
  }

  /// A recorded shard of a dim that the output does not have, or that is 1 where `whole` is not.
  static bool cuts_missing_dim(const Json& output, const Json& whole) {
    if (output.is_null()) return false;
    const Json& shape = output.at("shape");
    return std::ranges::any_of(output.at("placements"), [&](const Json& text) {
      const auto placement = parse_placement(text.get<std::string>());
      if (!placement || !placement->is_shard()) return false;
      const auto dim = static_cast<std::size_t>(placement->dim);
      if (dim >= shape.size()) return true;
      return dim < whole.size() && shape.at(dim) == 1 && whole.at(dim) != 1;
    });
  }
};

Json texts_of_specs(const std::vector<const DTensorSpec*>& specs) {
  Json texts = Json::array();
  for (const DTensorSpec* spec : specs) {
    texts.push_back(spec == nullptr ? Json() : texts_of(spec->placements()));
  }
  return texts;
}

class StrategyChecker : public PropagateChecker {
 public:
  void check(const Json& fact, CaseReport& report) override {
    const OpRow* row = row_of(fact, report);
    if (row == nullptr) return;
    const DecisionRecord record =
        propagator_.explain(fact_call(*row, fact_layout(arena_, fact), fact));
    const Json& expected = fact.at("strategies");
    report.expect("strategies", expected.size(), record.strategies.size());
    for (std::size_t i = 0; i < std::min(expected.size(), record.strategies.size()); ++i) {
      compare(fact, expected[i], record.strategies[i], record.selected[i], report);
    }
  }

 private:
  /// Recorded candidates that give wrong values are none of ours.
  static Json right_specs(const Json& fact, const Json& recorded, Json& selected) {
    Json right = Json::array();
    const auto chosen = integer_of<std::size_t>(selected);
    for (std::size_t i = 0; i < recorded.size(); ++i) {
      const bool wrong = cuts_a_front(fact, recorded[i].at("in"));
      if (i == chosen) selected = wrong ? Json() : Json(right.size());
      if (!wrong) right.push_back(recorded[i]);
    }
    return right;
  }

  static void compare(const Json& fact, const Json& expected, const OpStrategy& got, int selected,
                      CaseReport& report) {
    Json wanted_one = expected.at("selected");
    const Json specs = right_specs(fact, expected.at("specs"), wanted_one);
    if (specs.size() < expected.at("specs").size()) {
      report.differs("specs.of_other_rows", true, false);
    }
    if (!wanted_one.is_null()) report.expect("selected", wanted_one, selected);
    report.expect("count", specs.size(), got.candidates.size());
    bool masked = false;
    for (std::size_t i = 0; i < std::min(specs.size(), got.candidates.size()); ++i) {
      const OpSpec& candidate = got.candidates[i];
      const Json& wanted = specs[i];
      Json out = wanted.at("out");
      masked = without_masked(fact, candidate, out) || masked;
      if (!out.is_null()) report.expect("out", out, texts_of_specs(candidate.outputs));
      report.expect("in", wanted.at("in"), texts_of_specs(candidate.inputs));
      Json costs = Json::array();
      for (const Json& row : wanted.at("cost")) costs.push_back(row.at(0));
      if (!same_costs(costs, candidate.input_costs)) {
        report.differs("cost", costs, costs_json(candidate.input_costs));
      }
    }
    if (masked) report.differs("out.of_what_is_masked_off", true, false);
  }

  /// Recorded candidates name placements of results that output_mask leaves out, which have no spec
  /// here. True where there was one.
  static bool without_masked(const Json& fact, const OpSpec& candidate, Json& out) {
    const OpRow& row = all_ops().at(fact.at("op").get<std::string>());
    const auto mask = std::ranges::find(row.op.arguments, "output_mask", &SchemaArgument::name);
    const auto place = static_cast<std::size_t>(mask - row.op.arguments.begin());
    if (out.is_null() || place >= fact.at("args").size()) return false;
    bool masked = false;
    for (std::size_t i = 0; i < std::min(out.size(), candidate.outputs.size()); ++i) {
      if (candidate.outputs[i] != nullptr || out.at(i).is_null()) continue;
      if (fact.at("args")[place].at(i) != false) continue;
      out.at(i) = nullptr;
      masked = true;
    }
    return masked;
  }
};

}  // namespace

std::unique_ptr<FactChecker> make_propagate_checker(std::string_view) {
  return std::make_unique<CaseChecker>();
}

std::unique_ptr<FactChecker> make_strategy_checker(std::string_view) {
  return std::make_unique<StrategyChecker>();
}

}  // namespace shardlab
