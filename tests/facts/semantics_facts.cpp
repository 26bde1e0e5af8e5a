// A recorded case becomes a program in the scenario language, runs on simulated ranks, and each
// name that it sets is put into the form of the recorded field and compared.
#include "tests/facts/semantics_facts.h"

#include <cmath>

#include "autograd/autograd.h"
#include "comm/device_mesh.h"
#include "comm/observer.h"
#include "dispatch/all_ops.h"
#include "dispatch/dispatcher.h"
#include "kernels/cpu_kernels.h"
#include "plan/plan.h"
#include "propagate/propagator.h"
#include "sim/language/run/interpreter.h"
#include "sim/language/syntax/parser.h"
#include "sim/language/values/dict_entries.h"
#include "sim/scenario/scenario.h"
#include "sim/world/world.h"
#include "tensor/host.h"
#include "tests/facts/case_report.h"
#include "tests/facts/fact_json.h"
#include "tests/facts/fact_world.h"
#include "tests/facts/reference_rng.h"

namespace shardlab {
namespace {

/// Counts the collectives of each stretch of a program that a print() names.
class StretchObserver : public Observer, public ValueSink {
 public:
  void op_begins(const OpSchema&, const OutputSharding&) override {}
  void op_ends() override {}
  void redistribution(const RedistributionRecord&) override {}
  void collective(const CollectiveRecord& record) override {
    if (stretch_.empty()) return;
    // Sends and receives are recorded apart from collectives.
    if (record.kind == CollectiveKind::kBatch) {
      exchanges_[stretch_].push_back("exchange");
    } else {
      ++counts_[stretch_][recorded_collective(record.kind)];
    }
  }
  void assigned(const std::string&, std::int64_t, const Value&, const Where&) override {}
  void printed(const std::string& line) override {
    stretch_ = line;
    if (!line.empty()) counts_[line];
  }

  /// The recorded exchanges of a stretch that the program has.
  const Json* exchanges(const std::string& stretch) {
    if (counts(stretch) == nullptr) return nullptr;
    const auto found = exchanges_.try_emplace(stretch, Json::array()).first;
    return &found->second;
  }
  /// Null for a stretch that the program does not have.
  const FactCounts* counts(const std::string& stretch) const {
    const auto found = counts_.find(stretch);
    return found == counts_.end() ? nullptr : &found->second;
  }

 private:
  std::string stretch_;
  std::map<std::string, FactCounts> counts_;
  std::map<std::string, Json> exchanges_;
};

/// The recordings count the placing of inputs, which is not a collective here.
Json own_counts(const Json& recorded) {
  Json counts = Json::object();
  for (const auto& [name, count] : recorded.items()) {
    if (name == "broadcast_" || name == "scatter_") continue;
    counts[name == "allreduce_" ? "all_reduce" : name] = count;
  }
  return counts;
}

/// The class of the recorded exception; empty when there was none.
std::string recorded_error(const Json& recorded) {
  if (!recorded.contains("error") || recorded.at("error").is_null()) return "";
  return recorded.at("error").at("type").get<std::string>();
}

/// One rank's names after the program, or how it failed.
struct RankOutcome {
  std::map<std::string, Json> fields;
  std::optional<ErrorKind> error;
};

Json numbers_of(const Tensor& tensor) { return FactWorld::json_of(tensor); }

/// One placement in the spelling of its recording: norm and mask partials differ there.
std::string label_of(const Placement& placement, const Json& recorded) {
  const std::string ours = to_string(placement);
  if (!recorded.is_string()) return ours;
  const std::string& text = recorded.get_ref<const std::string&>();
  if (text == "MP" && placement.kind == PlacementKind::kMaskPartial) return text;
  const auto same = parse_placement(text);
  return same && *same == placement ? text : ours;
}

Json labels_of(std::span<const Placement> placements, const Json& recorded) {
  Json labels = Json::array();
  for (std::size_t dim = 0; dim < placements.size(); ++dim) {
    const bool has = recorded.is_array() && dim < recorded.size();
    labels.push_back(label_of(placements[dim], has ? recorded[dim] : Json()));
  }
  return labels;
}

/// Nested as the mesh's dims are.
Json ranks_of(const MeshLayout& layout) {
  const auto nested = [&](const auto& self, std::size_t dim, std::int64_t first) -> Json {
    if (dim == layout.ndim()) return layout.rank_at_index(first);
    std::int64_t step = 1;
    for (std::size_t d = dim + 1; d < layout.ndim(); ++d) step *= layout.size(d);
    Json list = Json::array();
    for (std::int64_t i = 0; i < layout.size(dim); ++i) {
      list.push_back(self(self, dim + 1, first + i * step));
    }
    return list;
  };
  return nested(nested, 0, 0);
}

/// A value in the form of the recording, which shows the property of a tensor that is meant.
Json recorded_form(const Value& value, const Json& recorded) {
  if (const auto* tensor = value.get<DTensor>()) {
    if (recorded.is_string() && !tensor->distributed())
      return recorded == "Tensor" ? "Tensor" : "plain";
    if (recorded.is_object() && tensor->distributed()) {
      return {{"placements",
               labels_of(tensor->spec()->placements(), recorded.value("placements", Json()))},
              {"global", json_of(tensor->shape())},
              {"local", numbers_of(tensor->local())}};
    }
    const bool labels = recorded.is_array() && !recorded.empty() && recorded[0].is_string();
    if (labels && tensor->distributed()) {
      return labels_of(tensor->spec()->placements(), recorded);
    }
    return numbers_of(tensor->local());
  }
  if (value.is_none()) return nullptr;
  if (const auto* flag = value.get<bool>()) return *flag;
  if (value.is_number()) {
    return std::visit([](auto number) { return Json(number); }, number_of(value));
  }
  if (const auto* placement = value.get<Placement>()) return label_of(*placement, recorded);
  if (const auto* text = value.get<std::string>()) return *text;
  if (const auto* mesh = value.get<MeshValue>()) return ranks_of(*mesh->layout);
  if (const auto* dict = value.get<DictValue>()) {
    Json object = Json::object();
    for (const auto& [key, item] : *dict->entries) {
      const bool has = recorded.is_object() && recorded.contains(str(key));
      object[str(key)] = recorded_form(item, has ? recorded.at(str(key)) : Json());
    }
    return object;
  }
  if (!value.is_sequence()) return std::string(kind_name(value));
  Json list = Json::array();
  for (std::size_t i = 0; i < items_of(value).size(); ++i) {
    const bool has = recorded.is_array() && i < recorded.size();
    list.push_back(recorded_form(items_of(value)[i], has ? recorded[i] : Json()));
  }
  return list;
}

/// Equal up to the six decimals that numbers were recorded with.
bool close(const Json& recorded, const Json& got) {
  if (recorded.is_number() && got.is_number()) {
    const double want = recorded.get<double>(), have = got.get<double>();
    // Recorded with six decimals, from f32.
    return std::abs(want - have) <= 2e-6 * std::max(1.0, std::abs(want));
  }
  if (recorded.type() != got.type()) return false;
  if (!recorded.is_structured()) return recorded == got;
  if (recorded.size() != got.size()) return false;
  for (auto item = recorded.begin(); item != recorded.end(); ++item) {
    if (recorded.is_object()) {
      if (!got.contains(item.key()) || !close(*item, got.at(item.key()))) return false;
    } else if (!close(*item, got.at(static_cast<std::size_t>(item - recorded.begin())))) {
      return false;
    }
  }
  return true;
}

class SemanticsChecker : public FactChecker {
 public:
  SemanticsChecker()
      : device_(make_cpu_device(cpu_kernel_table())), propagator_(all_ops(), PlanOptions{}) {}

  void check(const Json& fact, CaseReport& report) override {
    if (fact.value("asymmetric", false)) return report.skip(SkipReason::kReferenceHangs);
    if (fact.at("case") == "cpu_random") return report.skip(SkipReason::kStream);
    // Whether to gather the weight or to reduce x depends on shapes that are not recorded.
    const Json& params = fact.at("params");
    if (params.value("seq", "") == "linear_bias" && params.at("x") == Json{"P(sum)"} &&
        params.at("w") == Json{"S(0)"}) {
      return report.skip(SkipReason::kNoInput);
    }
    if (const auto reason = semantics_skip(fact)) return report.skip(*reason);
    const auto program = semantics_program(fact);
    if (!program) return report.skip(SkipReason::kLaterField);
    const Scenario scenario = scenario_of(*program, fact);
    if (!known(scenario)) {
      return report.skip(SkipReason::kNotRegistered);
    }
    const std::vector<RankOutcome> outcomes = run(scenario, *program, fact);
    for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
      const Json& recorded = fact.contains("all") ? fact.at("all") : fact.at("ranks").at(rank);
      if (lacks_kernel(recorded, outcomes[rank])) return report.skip(SkipReason::kExecution);
      if (!compare(recorded, outcomes[rank], report)) return;  // others differ likewise
    }
  }

 private:
  static bool lacks_kernel(const Json& recorded, const RankOutcome& outcome) {
    return outcome.error == ErrorKind::kUnsupported && recorded_error(recorded).empty();
  }

  static bool compare(const Json& recorded, const RankOutcome& outcome, CaseReport& report) {
    const std::size_t before = report.differences().size();
    const std::string wanted = recorded_error(recorded);
    if (!wanted.empty()) {
      if (!outcome.error) {
        report.differs("error", wanted, "no error");
      } else if (!same_error(wanted, *outcome.error)) {
        report.differs("error", wanted, std::string(to_string(*outcome.error)));
      }
      return report.differences().size() == before;
    }
    if (outcome.error) {
      report.differs("error", nullptr, std::string(to_string(*outcome.error)));
      return false;
    }
    for (const auto& [field, value] : recorded.items()) {
      const auto found = outcome.fields.find(field);
      if (found == outcome.fields.end()) {
        report.skip_field(value.is_string() ? SkipReason::kReferenceText : SkipReason::kNoField);
        continue;
      }
      const bool counts = field == "fwd" || field == "bwd" || field.ends_with("comms");
      const Json wanted = counts ? own_counts(value) : value;
      if (!close(wanted, found->second)) report.differs(field, wanted, found->second);
    }
    return report.differences().size() == before;
  }

  /// False when the program uses an op that has no row yet.
  bool known(const Scenario& scenario) {
    try {
      check_names(scenario, all_ops());
      return true;
    } catch (const ScenarioError&) {
      return false;
    }
  }

  static Scenario scenario_of(const SemanticsProgram& program, const Json& fact) {
    Scenario scenario;
    scenario.file = std::make_shared<SourceText>("program", program.text);
    scenario.program = std::make_shared<ast::Program>(parse_program(scenario.file));
    scenario.seed = 1;
    scenario.world = product(dims_of(fact.at("mesh")));
    return scenario;
  }

  std::vector<RankOutcome> run(const Scenario& scenario, const SemanticsProgram& program,
                               const Json& fact) {
    const MeshLayout* layout =
        arena_.layout({Dims(program.mesh.begin(), program.mesh.end()), {}, program.mesh_ranks});
    std::vector<RankOutcome> outcomes(static_cast<std::size_t>(scenario.world));
    WorldOptions options;
    options.ranks = scenario.world;
    options.device = [this](std::int64_t) -> Device& { return *device_; };
    options.propagator = &propagator_;
    options.plans = &propagator_.plans();
    const WorldResult result = run_world(options, [&](RankContext& context) {
      context.meshes->construct(layout);
      const auto rank = static_cast<std::size_t>(context.rank);
      const Json& recorded = fact.contains("all") ? fact.at("all") : fact.at("ranks").at(rank);
      context.mixed = program.mixed;
      run_on_rank(scenario, layout, context, recorded, outcomes[rank]);
    });
    for (const RankFailure& failure : result.failures) {
      outcomes[static_cast<std::size_t>(failure.rank)].error =
          failure.consequence ? result.merged().kind() : failure.error.kind();
    }
    return outcomes;
  }

  void run_on_rank(const Scenario& scenario, const MeshLayout* layout, RankContext& context,
                   const Json& recorded, RankOutcome& outcome) {
    StretchObserver observer;
    Interpreter interpreter({.program = scenario.program.get(),
                             .params = &scenario.params,
                             .registry = &all_ops(),
                             .layout = layout,
                             .reported = layout,
                             .rank = context.rank,
                             .world_size = scenario.world,
                             .sink = &observer});
    {
      const ObserverScope observed(observer);
      interpreter.run();
    }
    for (const auto& [field, value] : recorded.items()) {
      if (field.starts_with("exchange_")) {
        const Json* seen = observer.exchanges(field.substr(field.find('_') + 1) + "_comms");
        if (seen != nullptr) outcome.fields[field] = *seen;
      } else if (const FactCounts* counts = observer.counts(field)) {
        outcome.fields[field] = counts->empty() ? Json::object() : Json(*counts);
      } else if (const Value* found = value_of(interpreter, field)) {
        const bool identity = field == "is_self" || field == "is_out";
        outcome.fields[field] =
            identity ? Json(equal(*found, *interpreter.find(field == "is_self" ? "x" : "out")))
                     : recorded_form(*found, value);
      }
    }
  }

  /// The program's name for a field: `global` is not a name in its language.
  static const Value* value_of(const Interpreter& interpreter, const std::string& field) {
    return interpreter.find(field == "global" ? "global_" : field);
  }

  Arena arena_;
  std::unique_ptr<Device> device_;
  Propagator propagator_;
};

class RngOffsetsChecker : public FactChecker {
 public:
  void check(const Json& fact, CaseReport& report) override {
    const MeshLayout* layout = arena_.layout({dims_of(fact.at("mesh")), {}, {}});
    const DTensorSpec* spec = arena_.spec(layout, placements_of(fact.at("placements")),
                                          contiguous_meta(dims_of(fact.at("shape")), DType::kF32));
    const auto before = integer_of<std::uint64_t>(fact.at("offset_before"));
    Json starts = Json::array(), ends = Json::array();
    for (std::int64_t rank = 0; rank < layout->size(); ++rank) {
      const ReferenceOffsets offsets =
          reference_rng_offsets(*spec, layout->coordinate_at_index(rank), before);
      starts.push_back(offsets.start);
      ends.push_back(offsets.end);
    }
    report.expect("offset_in_op", fact.at("offset_in_op"), starts);
    report.expect("offset_after", fact.at("offset_after"), ends);
  }

 private:
  Arena arena_;
};

}  // namespace

std::unique_ptr<FactChecker> make_rng_offsets_checker(std::string_view) {
  return std::make_unique<RngOffsetsChecker>();
}

std::unique_ptr<FactChecker> make_semantics_checker(std::string_view) {
  return std::make_unique<SemanticsChecker>();
}

}  // namespace shardlab
