// Identities of tensors are not recorded: an operand whose type no earlier op of the same visit
// returned comes from elsewhere.
#include "sim/report/line_reports.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "mesh/type_string.h"
#include "sim/report/collective_sums.h"
#include "sim/report/decision_text.h"
#include "sim/report/op_work.h"
#include "sim/run/mesh_names.h"

namespace shardlab {

namespace {

std::vector<std::string> types_of(const Run& run, const std::vector<const DTensorSpec*>& specs) {
  std::vector<std::string> types;
  for (const DTensorSpec* spec : specs) {
    if (spec != nullptr) types.push_back(shown_type(run, *spec));
  }
  return types;
}

std::vector<std::string> types_of(const std::vector<TensorMeta>& metas) {
  std::vector<std::string> types;
  for (const TensorMeta& meta : metas) types.push_back(type_string(meta));
  return types;
}

void add_once(std::vector<std::string>& texts, const std::string& text) {
  if (std::ranges::find(texts, text) == texts.end()) texts.push_back(text);
}

// Operands and results of the ops of one visit.
struct Flow {
  void add(const TraceEvent& event) {
    if (event.depth > 0) return;  // part of an op
    switch (event.kind) {
      case TraceEvent::Kind::kOp:
        return step(std::string(short_name(*event.schema.row)),
                    types_of(run_, event.schema.tensor_specs()),
                    types_of(run_, event.decision->outputs));
      case TraceEvent::Kind::kLocal:
        return step("local " + std::string(short_name(*event.local->row)),
                    types_of(event.local->inputs), types_of(event.local->outputs));
      case TraceEvent::Kind::kRedistribution:
        return step("redistribute", {shown_type(run_, *event.redistribution.source)},
                    {shown_type(run_, *event.redistribution.target)});
      case TraceEvent::Kind::kCollective:
      case TraceEvent::Kind::kWait:
        return;
    }
  }

  void step(const std::string& name, const std::vector<std::string>& inputs,
            const std::vector<std::string>& outputs) {
    add_once(report_.ops, name);
    for (const std::string& type : inputs) {
      if (!made_.contains(type)) add_once(report_.inputs, type);
    }
    if (!outputs.empty()) report_.outputs.clear();
    for (const std::string& type : outputs) {
      made_.insert(type);
      add_once(report_.outputs, type);
    }
  }

  const Run& run_;
  LineReport& report_;
  std::set<std::string> made_;
};

// The arithmetic of visits, by their kind.
struct Works {
  const OpWork& of(const LineVisit& visit) {
    const auto [known, fresh] = works_.try_emplace(visit.kind);
    if (!fresh || !coordinate_) return known->second;
    const auto events = std::span(events_).subspan(visit.begin, visit.end - visit.begin);
    return known->second = work_of(events, {mesh_, *coordinate_});
  }

  const Run& run_;
  const std::vector<TraceEvent>& events_ = run_.events;
  const MeshLayout* mesh_ = run_.layout;
  std::optional<Coordinate> coordinate_ = mesh_->coordinate_of(run_.reporting_rank);
  std::map<int, OpWork> works_;
};

void add_move(const Run& run, const TraceEvent& event, const CollectiveOrigin& origin,
              std::vector<LineMove>& moves) {
  const CollectiveRecord& record = event.collective;
  LineMove move{.pass = event.pass,
                .kind = record.kind,
                .group = record.group.name,
                .ranks = record.group.size,
                .origin = origin,
                .completed = event.completed};
  const auto key = [](const LineMove& m) {
    return std::tie(m.pass, m.kind, m.group, m.ranks, m.origin.origin, m.origin.op,
                    m.origin.argument, m.completed);
  };
  auto same = std::ranges::find_if(moves, [&](const auto& m) { return key(m) == key(move); });
  if (same == moves.end()) same = moves.insert(moves.end(), move);
  ++same->count;
  same->sent_bytes += record.sent_bytes;
  same->predicted_us += predicted_us(run, event);
}

void add_values(const ScenarioResult& result, std::map<int, LineReport>& lines) {
  for (const ValueReport& value : result.judgement.values) {
    const int line = line_of(result.run, value);
    if (line == 0 || value.name.ends_with(".grad")) continue;
    LineReport& report = lines[line];
    // Named values replace the last op's result, which may come from inside of a def that the line
    // calls.
    if (report.values.empty()) report.outputs.clear();
    report.values.push_back(&value);
    add_once(report.outputs, value.type);
  }
}

}  // namespace

std::vector<LineReport> line_reports(const ScenarioResult& result,
                                     const std::vector<LineVisit>& visits) {
  const Run& run = result.run;
  const std::vector<CollectiveOrigin> origins = collective_origins(run.events);
  std::map<int, LineReport> lines;
  std::map<std::pair<int, Pass>, std::set<int>> kinds;
  std::map<int, Pass> first_pass;
  Works works{run};
  for (const LineVisit& visit : visits) {
    LineReport& report = lines[visit.line];
    const bool first = first_pass.emplace(visit.line, visit.pass).second;
    ++(visit.pass == Pass::kForward ? report.forward : report.backward);
    const OpWork& work = works.of(visit);
    (visit.pass == Pass::kForward ? report.forward_flops : report.backward_flops) += work.flops;
    report.bytes += work.bytes;
    kinds[{visit.line, visit.pass}].insert(visit.kind);
    Flow flow{run, report};
    for (std::size_t i = visit.begin; i < visit.end; ++i) {
      if (first) flow.add(run.events[i]);
      if (run.events[i].kind == TraceEvent::Kind::kCollective) {
        add_move(run, run.events[i], origins[i], report.moves);
      }
    }
  }
  add_values(result, lines);
  std::vector<LineReport> reports;
  for (auto& [number, report] : lines) {
    report.line = number;
    if (const auto pass = first_pass.find(number); pass != first_pass.end()) {
      report.kinds = static_cast<std::int64_t>(kinds[{number, pass->second}].size());
    }
    std::ranges::stable_sort(report.moves, {}, &LineMove::pass);
    reports.push_back(std::move(report));
  }
  return reports;
}

int line_of(const Run& run, const ValueReport& value) {
  const SourcePtr& source = value.where.source;
  if (!source || source->file() != run.scenario.program->source->file()) return 0;
  return source->place(value.where.span.begin).line;
}

std::string source_line(const Run& run, int number) {
  const std::string_view text = run.scenario.program->source->line(number);
  const std::size_t start = text.find_first_not_of(' ');
  return start == std::string_view::npos ? "" : std::string(text.substr(start));
}

}  // namespace shardlab
