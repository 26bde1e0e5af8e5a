// Runs a program once for each class, and merges classes whose runs were the same. Classes are
// split before the run at every possible difference of pieces, which is sometimes finer than
// needed; two classes are reported as one when everything a report shows of them is equal:
// decisions, collectives, printed lines, shapes and memory.
#include "sim/run/class_run.h"

#include "backends/fake/shape_device.h"
#include "base/text_of_list.h"
#include "propagate/propagator.h"
#include "sim/log/event_log.h"
#include "sim/world/world.h"

namespace shardlab {

namespace {

bool passes_messages(const Trace& trace) {
  const CollectiveCounts& counts = trace.counts();
  return counts.total(CollectiveKind::kSend) + counts.total(CollectiveKind::kRecv) > 0;
}

// Everything that a report shows of one class. Classes with equal texts did the same: they were
// separate before the run only because their pieces might have differed.
std::string seen_by(const ProgramRun& run, std::size_t index) {
  const Trace& trace = run.traces[index];
  // Partners are not in the log: classes that pass messages are never merged.
  if (passes_messages(run.traces.front()) || passes_messages(trace)) {
    return fmt::format("class {}\n", index);
  }
  const PeakReport peak = peak_of(run.accounts[index]);
  std::string text =
      fmt::format("{} B for {} at {}\n", peak.bytes, text_of_list(peak.held, ", "), peak.line);
  text += decision_log(trace.events()) + collective_log(trace.events());
  for (const PrintedLine& line : run.recordings[index].lines()) text += line.text + "\n";
  for (const RecordedValue& value : run.recordings[index].values()) {
    text += fmt::format("{} [{}]\n", value.key(), text_of_list(value.value.local().shape(), ","));
  }
  return text;
}

// The entries of the classes that the result has. Classes that did the same became one: its entry
// is that of the first.
template <typename T>
std::vector<T> picked(std::vector<T>& all, const std::vector<RankClass>& classes) {
  std::vector<T> kept;
  kept.reserve(classes.size());
  for (const RankClass& ranks : classes) kept.push_back(std::move(all[ranks.index]));
  return kept;
}

}  // namespace

void execute_classes(ProgramRun& run, Propagator& propagator, std::int64_t ranks,
                     const ScenarioOptions& options) {
  run.device = make_shape_device();
  WorldOptions world = world_of(run, propagator, ranks, options);
  world.device = [&](std::int64_t) -> Device& { return *run.device; };
  world.seen_by = [&](std::size_t index) { return seen_by(run, index); };
  // Values point to their account, recordings to their trace. A class runs at most twice.
  run.accounts.reserve(2 * world.most_classes);
  run.traces.reserve(2 * world.most_classes);
  run.recordings.reserve(2 * world.most_classes);
  std::int64_t reporter = -1;
  const auto body = [&](RankContext& rank, const RunsFor& runs) {
    if (reporter < 0) reporter = rank.rank;
    // Events that are neither compared nor reported.
    const bool alone = rank.rank != reporter && passes_messages(run.traces.front());
    run.accounts.emplace_back();
    run.recordings.emplace_back(
        &run.traces.emplace_back(alone ? options.other_ranks : TraceDetail::kEvents));
    run.traces.back().tell(options.progress);
    if (options.memory) run.recordings.back().keep_at_most(options.memory->available_bytes);
    run_on_rank(run, rank, runs);
  };
  const WorldResult seen = run_world(std::move(world), RankBody(body));
  take_outcome(run, seen);
  for (const RankClass& ranks : seen.classes) {
    run.classes.push_back({.first_rank = ranks.first_rank,
                           .size = ranks.size,
                           .where = ranks.where,
                           .peak = peak_of(run.accounts[ranks.index]),
                           .sent_bytes = run.traces[ranks.index].counts().bytes()});
    run.memory.peaks.push_back(run.classes.back().peak);
  }
  run.class_of = seen.class_of;
  run.traces = picked(run.traces, seen.classes);
  run.recordings = picked(run.recordings, seen.classes);
}

}  // namespace shardlab
