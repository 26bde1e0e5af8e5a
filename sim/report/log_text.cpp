// Redistributions come before the collectives that carry them out; the plan gives their number, and
// so the collectives below it.
#include "sim/report/log_text.h"

#include "base/text.h"
#include "mesh/type_string.h"
#include "sim/report/collective_sums.h"
#include "sim/report/decision_text.h"
#include "sim/run/mesh_names.h"

namespace shardlab {

namespace {

std::string results_text(const Run& run, const OutputSharding& decision) {
  std::string text;
  for (const DTensorSpec* spec : decision.outputs) {
    text += (text.empty() ? " -> " : ", ") + (spec == nullptr ? "None" : shown_type(run, *spec));
  }
  return text;
}

// Operands with their meshes.
std::string call_text(const Run& run, const OpSchema& schema) {
  std::string text = schema.text();
  std::size_t at = 0;
  for (const DTensorSpec* spec : schema.tensor_specs()) {
    const std::string type = spec == nullptr ? "None" : type_string(*spec);
    at = text.find(type, at);
    if (at == std::string::npos) break;
    at += type.size();
    const std::string mesh = on_mesh(run, spec);
    text.insert(at, mesh);
    at += mesh.size();
  }
  return text;
}

std::string collective_text(const CollectiveRecord& record) {
  return fmt::format("{} over {} ({} ranks): {}, sends {}", to_string(record.kind),
                     record.group.name, record.group.size,
                     type_string(contiguous_meta(record.input_shape, record.dtype)),
                     bytes_text(record.sent_bytes));
}

std::string wait_text(const CollectiveRecord& record) {
  return fmt::format("wait for {} {} over {}", to_string(record.kind), record.sequence,
                     record.group.name);
}

struct Log {
  std::string build() {
    const std::size_t others = run_.events_of_others.size();
    const auto reporter = static_cast<std::size_t>(run_.reporting_rank);
    if (others == 0) show_rank(reporter, run_.events);
    for (std::size_t rank = 0; rank < others; ++rank) {
      show_rank(rank, rank == reporter ? run_.events : run_.events_of_others[rank]);
    }
    totals();
    if (run_.error) line(0, "error: " + run_.error->text());
    return std::move(out_);
  }

  void line(int depth, const std::string& text) {
    out_ += std::string(static_cast<std::size_t>(depth) * 2, ' ') + text + "\n";
  }

  void show_rank(std::size_t rank, const std::vector<TraceEvent>& events) {
    line(0, fmt::format("rank {} of {}", rank, run_.scenario.world));
    pass_ = Pass::kForward;
    op_ = nullptr;
    owed_ = 0;
    for (const TraceEvent& event : events) show(event);
  }

  void show(const TraceEvent& event) {
    if (event.pass != pass_) {
      pass_ = event.pass;
      line(0, pass_ == Pass::kBackward ? "backward" : "forward");
    }
    switch (event.kind) {
      case TraceEvent::Kind::kOp:
        op_ = &event.schema;
        line(event.depth,
             call_text(run_, event.schema) + results_text(run_, *event.decision) + place(event));
        break;
      case TraceEvent::Kind::kLocal:
        line(event.depth, "local " + local_op_text(*event.local) + place(event));
        break;
      case TraceEvent::Kind::kRedistribution:
        show_redistribution(event);
        break;
      case TraceEvent::Kind::kCollective:
        // A redistribution's collectives follow its record.
        line(event.depth + (owed_ > 0 ? 1 : 0),
             collective_text(event.collective) + (event.completed ? "" : kNeverCompleted));
        if (owed_ > 0) --owed_;
        break;
      case TraceEvent::Kind::kWait:
        line(event.depth, wait_text(event.collective) + place(event));
        break;
    }
  }

  void show_redistribution(const TraceEvent& event) {
    const RedistributionRecord& record = event.redistribution;
    // Without a plan it is a number of another mesh, and its op comes next.
    const bool asked = record.argument >= 0 && op_ != nullptr && record.plan != nullptr;
    const std::string what = asked ? fmt::format("argument {} ({})", record.argument,
                                                 argument_name(*op_, record.argument))
                                   : shown_type(run_, *record.source);
    const std::string how =
        record.plan != nullptr ? record.plan->text() : "to " + shown_type(run_, *record.target);
    line(event.depth, fmt::format("redistribute {}: {}{}", what, how, asked ? "" : place(event)));
    owed_ = record.plan != nullptr ? moving_steps(*record.plan) : 0;
  }

  static std::string place(const TraceEvent& event) {
    return event.position.line > 0 ? fmt::format("   line {}", event.position.line) : "";
  }

  void totals() {
    std::string text;
    for (std::size_t kind = 0; kind < kCollectiveKinds; ++kind) {
      std::int64_t count = 0;
      for (const CollectiveCounts& rank : run_.counts) {
        count += rank.total(static_cast<CollectiveKind>(kind));
      }
      if (count == 0) continue;
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ",
                          to_string(static_cast<CollectiveKind>(kind)), count);
    }
    line(0, "collectives entered, all ranks: " + (text.empty() ? "none" : text));
  }

  const Run& run_;
  std::string out_;
  Pass pass_ = Pass::kForward;
  const OpSchema* op_ = nullptr;
  int owed_ = 0;  ///< collectives of the redistribution just shown
};

}  // namespace

std::string log_text(const Run& run) { return Log{run}.build(); }

}  // namespace shardlab
