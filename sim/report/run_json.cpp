// The facts of a run under stable keys. Numbers that JSON cannot hold (NaN, infinities) become
// text.
#include "sim/report/run_json.h"

#include <algorithm>

#include "base/text.h"
#include "kernels/matmul.h"
#include "mesh/type_string.h"
#include "schema/op_row.h"
#include "sim/files/json_value.h"
#include "sim/report/collective_sums.h"
#include "sim/report/decision_text.h"
#include "sim/report/line_reports.h"
#include "sim/report/memory_text.h"
#include "sim/report/overview_text.h"
#include "sim/report/printed_text.h"
#include "sim/report/rank_work.h"
#include "sim/report/repeats.h"
#include "sim/report/run_specs.h"
#include "sim/report/run_text.h"
#include "sim/report/spec_json.h"
#include "sim/run/mesh_names.h"

namespace shardlab {

namespace {

std::string_view text_of(Pass pass) { return pass == Pass::kForward ? "forward" : "backward"; }

Json printed_json(const Run& run) {
  Json lines = Json::array();
  for (const PrintedBy& printed : merged_prints(run.printed)) {
    const bool all = printed.who.size() == run.printed.size();
    lines.push_back({{"line", printed.line},
                     {"text", printed.text},
                     {"by", all ? "all" : printers_text(run, printed.who)}});
  }
  return lines;
}

Json specs_json(const std::vector<const DTensorSpec*>& specs, const TypeWriter& type) {
  return json_list(specs, [&](const DTensorSpec* spec) {
    return spec == nullptr ? Json(nullptr) : Json(type(*spec));
  });
}

std::string placements_text(const std::vector<const DTensorSpec*>& specs) {
  std::vector<std::string> texts;
  for (const DTensorSpec* spec : specs) {
    texts.push_back(spec == nullptr ? "-" : to_string(spec->placements()));
  }
  return fmt::format("({})", text_of_list(texts, ", "));
}

Json steps_json(const Plan& plan) {
  Json steps = Json::array();
  for (const PlanStep& step : plan.steps) {
    const auto name = [&](std::size_t dim) { return plan.source->layout()->names()[dim]; };
    steps.push_back({{"mesh_dims", json_list(step.mesh_dims, name)},
                     {"from", to_string(step.from)},
                     {"to", to_string(step.to)},
                     {"communicates", step.communicates()}});
  }
  return steps;
}

Json collective_json(const CollectiveRecord& record) {
  return {{"kind", to_string(record.kind)},
          {"group", record.group.name},
          {"ranks", record.group.size},
          {"dtype", to_string(record.dtype)},
          {"input_shape",
           std::vector<std::int64_t>(record.input_shape.begin(), record.input_shape.end())},
          {"sent_bytes", record.sent_bytes}};
}

Json event_json(const TraceEvent& event, const TypeWriter& type) {
  const auto meta_type = [](const TensorMeta& meta) { return type_string(meta); };
  Json json = {
      {"pass", text_of(event.pass)}, {"line", event.position.line}, {"depth", event.depth}};
  switch (event.kind) {
    case TraceEvent::Kind::kOp:
      json["op"] = event.schema.row->name();
      json["row"] = fmt::format("{} -> {}", placements_text(event.decision->inputs),
                                placements_text(event.decision->outputs));
      json["given"] = specs_json(event.schema.tensor_specs(), type);
      json["inputs"] = specs_json(event.decision->inputs, type);
      json["outputs"] = specs_json(event.decision->outputs, type);
      break;
    case TraceEvent::Kind::kLocal:
      json["local_op"] = event.local->row->name();
      json["inputs"] = json_list(event.local->inputs, meta_type);
      json["outputs"] = json_list(event.local->outputs, meta_type);
      break;
    case TraceEvent::Kind::kRedistribution:
      json["redistribute"] = {{"source", type(*event.redistribution.source)},
                              {"target", type(*event.redistribution.target)},
                              {"argument", event.redistribution.argument}};
      if (event.redistribution.plan != nullptr) {
        json["redistribute"]["plan"] = event.redistribution.plan->text();
        json["redistribute"]["steps"] = steps_json(*event.redistribution.plan);
      }
      break;
    case TraceEvent::Kind::kCollective:
      json["collective"] = collective_json(event.collective);
      if (!event.completed) json["collective"]["completed"] = false;
      break;
    case TraceEvent::Kind::kWait:
      json["wait"] = collective_json(event.collective);
      break;
  }
  return json;
}

Json counts_json(const std::vector<CollectiveCounts>& counts) {
  Json json = Json::object();
  double bytes = 0;
  for (const CollectiveCounts& rank : counts) {
    bytes = std::max(bytes, rank.bytes());
    for (std::size_t i = 0; i < kCollectiveKinds; ++i) {
      const auto kind = static_cast<CollectiveKind>(i);
      if (rank.total(kind) == 0) continue;
      Json& slot = json[std::string(to_string(kind))];
      if (slot.is_null()) slot = Json::object();
      slot["forward"] =
          std::max<std::int64_t>(integer_or<std::int64_t>(slot, "forward", 0), rank.forward[i]);
      slot["backward"] =
          std::max<std::int64_t>(integer_or<std::int64_t>(slot, "backward", 0), rank.backward[i]);
    }
  }
  return {{"largest_rank", json}, {"sent_bytes", bytes}};
}

Json kept_json(const KeptValue& kept) {
  Json elements = Json::array();
  for (const double value : kept.first.reals) elements.push_back(json_number(value));
  for (const std::int64_t value : kept.first.integers) elements.push_back(value);
  const Dims& shape = kept.first.meta.shape;
  return {{"rank", kept.rank},
          {"dtype", to_string(kept.first.meta.dtype)},
          {"shape", std::vector<std::int64_t>(shape.begin(), shape.end())},
          {"elements", std::move(elements)},
          {"count", kept.count},
          {"largest", json_number(kept.largest)},
          {"hash", fmt::format("{:016x}", kept.hash)}};
}

TypeWriter writer_of(const Run& run) {
  return [&run](const DTensorSpec& spec) { return shown_type(run, spec); };
}

// A part of another mesh has the number of that mesh.
Json meshes_json(const Run& run, const std::vector<const MeshLayout*>& meshes) {
  constexpr std::int64_t kMostMembers = 4096;
  Json list = Json::array();
  for (const MeshLayout* layout : meshes) {
    Json json = {{"id", list.size()},
                 {"name", mesh_name(run, *layout)},
                 {"dims", json_of_dims(*layout)},
                 {"ranks", layout->size()}};
    const bool listed = !layout->is_iota() && layout->size() <= kMostMembers;
    for (std::int64_t i = 0; i < layout->size() && listed; ++i) {
      json["members"].push_back(layout->rank_at_index(i));
    }
    const auto parent = std::ranges::find_if(meshes, [&](const MeshLayout* other) {
      return layout->is_cut() && !other->is_cut() && other->root() == layout->root();
    });
    if (parent != meshes.end()) json["parent"] = parent - meshes.begin();
    list.push_back(std::move(json));
  }
  return list;
}

Json value_json(const ValueReport& value) {
  Json json = {{"name", value.name},
               {"occurrence", value.occurrence},
               {"type", value.type},
               {"event", value.event}};
  if (value.where.source) json["at"] = value.where.at();
  if (value.at_end) json["at_end"] = true;
  for (const KeptValue& kept : value.kept) json["whole"].push_back(kept_json(kept));
  if (value.outcome() != Outcome::kPartOfCause) json["outcome"] = id_of(value.outcome());
  json["row"] = std::string(1, value.row->letter);
  if (!value.reason.empty()) json["reason"] = value.reason;
  if (value.row->fails_strictly && !value.row->fails) json["not_verified"] = value.reason;
  if (!value.cause.empty()) {
    json["cause"] = value.cause.text;
    json["cause_id"] = value.cause.id;
    json["cause_line"] = line_of_cause(value);
  }
  if (value.passes > 1) json["backward_passes"] = value.passes;
  if (!is_verified(value) && !is_wrong(value)) return json;
  json["verdict"] = to_string(is_wrong(value) ? Agreement::kWrong : value.comparison.agreement);
  json["error"] = json_number(value.comparison.error);
  json["allowed"] = json_number(value.comparison.allowed);
  if (!value.comparison.what.empty()) json["what"] = value.comparison.what;
  if (!value.holders.empty()) json["held_by"] = value.holders;
  return json;
}

Json sums_json(const Run& run) {
  return json_list(collective_sums(run), [](const CollectiveSum& sum) -> Json {
    return {{"kind", to_string(sum.kind)},
            {"group", sum.group.name},
            {"ranks", sum.group.size},
            {"forward", sum.forward},
            {"backward", sum.backward},
            {"sent_bytes", sum.forward_bytes + sum.backward_bytes},
            {"predicted_us", json_number(sum.predicted_us)}};
  });
}

Json links_json(const Run& run) {
  Json links = Json::object();
  for (const LinkUsed& used : links_used(run)) {
    links[used.mesh_dim] = {{"gbps", used.link.gbps}, {"us", used.link.us}, {"given", used.given}};
  }
  return links;
}

Json lines_json(const ScenarioResult& result, const std::vector<LineVisit>& visits) {
  Json lines = Json::array();
  for (const LineReport& report : line_reports(result, visits)) {
    Json json = {{"line", report.line},       {"source", source_line(result.run, report.line)},
                 {"forward", report.forward}, {"backward", report.backward},
                 {"ops", report.ops},         {"inputs", report.inputs},
                 {"outputs", report.outputs}, {"ways", report.kinds}};
    json["flops"] = {{"forward", report.forward_flops}, {"backward", report.backward_flops}};
    json["op_bytes"] = report.bytes;
    json["collectives"] = Json::array();
    for (const LineMove& move : report.moves) {
      json["collectives"].push_back({{"pass", text_of(move.pass)},
                                     {"kind", to_string(move.kind)},
                                     {"group", move.group},
                                     {"ranks", move.ranks},
                                     {"origin", to_string(move.origin.origin)},
                                     {"times", move.count},
                                     {"sent_bytes", move.sent_bytes},
                                     {"predicted_us", json_number(move.predicted_us)}});
      if (!move.completed) json["collectives"].back()["completed"] = false;
      if (!move.origin.op.empty()) json["collectives"].back()["op"] = move.origin.op;
      if (move.origin.argument.empty()) continue;
      json["collectives"].back()["argument"] = move.origin.argument;
    }
    if (const std::string verdict = worst_verdict(result.run, report.values); !verdict.empty()) {
      json["verdict"] = verdict;
    }
    lines.push_back(std::move(json));
  }
  return lines;
}

Json order_json(const std::vector<LineVisit>& visits, const std::vector<Repeat>& repeats) {
  Json order = Json::array();
  for (const Repeat& repeat : repeats) {
    if (!repeat.parts.empty()) {
      order.push_back({{"times", repeat.times}, {"parts", order_json(visits, repeat.parts)}});
      continue;
    }
    const LineVisit& visit = visits[repeat.first];
    order.push_back({{"line", visit.line}, {"pass", text_of(visit.pass)}, {"event", visit.begin}});
  }
  return order;
}

Json order_json(const std::vector<LineVisit>& visits) {
  std::vector<int> kinds;
  for (const LineVisit& visit : visits) kinds.push_back(visit.kind);
  return order_json(visits, folded(kinds));
}

void add_lines(const ScenarioResult& result, Json& json) {
  const std::vector<LineVisit> visits = line_visits(result.run.events);
  json["lines"] = lines_json(result, visits);
  json["order"] = order_json(visits);
  json["work"] = json_list(rank_works(result.run, visits), [](const RankWork& work) -> Json {
    return {{"ranks", work.ranks}, {"flops", work.flops}, {"op_bytes", work.bytes}};
  });
}

Json place_json(const StepPlace& place) {
  return {{"op", place.op},
          {"operands", place.operands},
          {"pass", text_of(place.pass)},
          {"line", place.position.line}};
}

Json calls_json(const StepVerdict& steps) {
  if (!steps.judged) return {{"not_judged", steps.not_judged}};
  Json json = {
      {"bitwise", steps.bitwise},           {"bounded", steps.bounded},
      {"undecided", steps.undecided_calls}, {"undecided_elements", steps.undecided_elements},
      {"wrong", steps.wrong_calls},         {"skipped", Json(steps.skipped)}};
  if (steps.wrong) {
    json["first_wrong"] = place_json(steps.wrong->place);
    json["first_wrong"]["what"] = steps.wrong->text();
  }
  if (steps.non_finite) json["first_non_finite"] = place_json(*steps.non_finite);
  return json;
}

Json memory_json(const Run& run) {
  const PeakReport largest = run.memory.largest();
  Json json = {{"logical_rank_bytes", largest.bytes},
               {"peak", peak_json(largest)},
               {"most", held_json(largest.most)},
               {"physical_bytes", run.memory.physical_bytes}};
  if (run.options.memory_timeline) json["timeline"] = timeline_json(run.memory_timeline);
  return json;
}

// Parts that only some runs have.
void add_asked(const ScenarioResult& result, Json& json) {
  const Run& run = result.run;
  if (!result.judgement.promise.empty()) json["promise"] = result.judgement.promise;
  if (!run.live_microbatches.empty()) json["live_microbatches"] = run.live_microbatches;
  if (!result.met()) json["again"] = replay_command(run);
  if (run.options.reporting_rank) json["rank"] = run.reporting_rank;
  if (run.options.schedule.kind == SchedulerKind::kSeeded) {
    json["schedule_seed"] = run.options.schedule.seed;
  }
}

Json cache_json(const CacheUse& use) { return {{"asked", use.asked}, {"made", use.made}}; }

Json value_counts_json(const ValueCounts& counts) {
  return {{"verified", counts[Outcome::kVerified]},
          {"wrong", counts[Outcome::kWrong]},
          {"not_verified", counts.not_verified}};
}

Json expectations_json(const std::vector<ExpectationReport>& expectations) {
  return json_list(expectations, [](const ExpectationReport& one) -> Json {
    return {{"what", one.what}, {"met", one.met}, {"text", one.text}};
  });
}

Json outcomes_json(const ValueCounts& counts) {
  Json json = Json::object();
  for (std::size_t i = 0; i < kOutcomes; ++i) {
    const auto outcome = static_cast<Outcome>(i);
    if (outcome != Outcome::kPartOfCause) json[key_of(outcome)] = counts.of[i];
  }
  return json;
}

void add_values(const ScenarioResult& result, Json& json) {
  json["values"] = Json::array();
  const std::vector<const MeshLayout*> meshes = meshes_of(result);
  if (meshes.size() > 1) json["meshes"] = meshes_json(result.run, meshes);
  for (const ValueReport& value : result.judgement.values) {
    json["values"].push_back(value_json(value));
    if (meshes.size() == 1 || value.spec == nullptr) continue;
    const auto mesh = std::ranges::find(meshes, value.spec->layout());
    json["values"].back()["mesh"] = mesh - meshes.begin();
  }
}

}  // namespace

Json facts_of_run(const ScenarioResult& result) {
  const Run& run = result.run;
  const ScenarioJudgement& judgement = result.judgement;
  const Scenario& scenario = run.scenario;
  Json json = {{"file", scenario.file->file()},
               {"title", scenario.title},
               {"point", scenario.point},
               {"mesh", run.layout->text()},
               {"mesh_dims", json_of_dims(*run.layout)},
               {"ranks", scenario.world},
               {"backend", run.options.backend},
               {"scheduler", scheduler_name(run.options)},
               {"seed", scenario.seed},
               {"ok", result.met()},
               {"implicit_redistributions", run.implicit_count},
               {"printed", printed_json(run)},
               {"warnings", warnings_of(result)},
               {"device", run.options.device.name},
               {"ran_on_host", run.ran_on_host},
               {"collectives", counts_json(run.counts)},
               {"memory", memory_json(run)}};
  if (run.options.device.name == "cpu" && !run.shapes_only()) json["products"] = product_level();
  if (run.kernels) {
    json["kernels"] = {{"run", run.kernels->run}, {"shared", run.kernels->shared}};
  }
  json["caches"] = {{"decisions", cache_json(run.decisions)}, {"plans", cache_json(run.plans)}};
  add_asked(result, json);
  json["collectives"]["by_group"] = sums_json(run);
  json["collectives"]["links"] = links_json(run);
  json["inputs"] = Json::object();
  for (const InputReport& input : run.inputs) json["inputs"][input.name] = input.type;
  add_lines(result, json);
  const ValueCounts counts = count_values(judgement.values);
  json["value_counts"] = value_counts_json(counts);
  json["outcomes"] = outcomes_json(counts);
  add_values(result, json);
  for (const ClassReport& ranks : run.classes) {
    json["classes"].push_back({{"first_rank", ranks.first_rank},
                               {"ranks", ranks.size},
                               {"where", ranks.where},
                               {"logical_bytes", ranks.peak.bytes},
                               {"peak", peak_json(ranks.peak)},
                               {"sent_bytes", ranks.sent_bytes}});
  }
  const bool calls = judgement.steps.judged || !judgement.steps.not_judged.empty();
  if (calls) json["calls"] = calls_json(judgement.steps);
  if (!judgement.not_verified.empty()) json["not_verified"] = judgement.not_verified;
  json["expectations"] = expectations_json(judgement.expectations);
  if (run.error) {
    json["error"] = {{"kind", to_string(run.error->kind())}, {"text", run.error->text()}};
  }
  if (run.verdict) json["verdict"] = to_string(run.verdict->kind);
  if (!run.lost.empty()) json["lost"] = run.lost;
  return json;
}

std::string run_json(const ScenarioResult& result) {
  Json json = facts_of_run(result);
  const TypeWriter type = writer_of(result.run);
  const auto written = [&](const TraceEvent& event) { return event_json(event, type); };
  json["events"] = json_list(result.run.events, written);
  return json.dump();
}

namespace {

Json decision_of(const OpSchema& schema, const DecisionRecord& record, const TypeWriter& type) {
  Json json = {{"op", schema.row->name()},
               {"given", specs_json(schema.tensor_specs(), type)},
               {"inputs", specs_json(record.sharding.inputs, type)},
               {"outputs", specs_json(record.sharding.outputs, type)},
               {"choice", record.choice}};
  json["candidates"] = Json::array();
  for (std::size_t i = 0; i < record.strategies.size(); ++i) {
    const auto& candidates = record.strategies[i].candidates;
    for (std::size_t c = 0; c < candidates.size(); ++c) {
      json["candidates"].push_back({{"text", candidates[c].text()},
                                    {"cost_us", json_number(candidates[c].cost())},
                                    {"selected", record.selected[i] == static_cast<int>(c)}});
    }
  }
  json["rejected"] = json_list(record.rejected, [](const RejectedRow& row) -> Json {
    return {{"row", row.row}, {"reason", row.reason}};
  });
  return json;
}

}  // namespace

std::string decision_json(const OpSchema& schema, const DecisionRecord& record) {
  return decision_of(schema, record, bare_type).dump();
}

std::string calls_json(const ScenarioResult& result, const std::string& name) {
  Json json = {{"op", name}, {"outputs", Json::array()}, {"calls", Json::array()}};
  const TypeWriter type = writer_of(result.run);
  for (const ValueReport& value : result.judgement.values) json["outputs"].push_back(value.type);
  for (const TraceEvent& event : result.run.events) {
    const bool decided = event.kind == TraceEvent::Kind::kOp && is_decided(*event.schema.row);
    json["calls"].push_back(
        decided ? decision_of(event.schema, result.run.propagator->explain(event.schema), type)
                : event_json(event, type));
    json["calls"].back()["depth"] = event.depth;
  }
  return json.dump();
}

}  // namespace shardlab
