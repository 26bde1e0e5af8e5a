// The run that is proven has buffers: it gets as far as any run can. If receives from any rank can
// meet several senders, each way is a run of its own; polls are tried in drawn orders of ranks.
#include "sim/judge/promise_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "sim/judge/posted_steps.h"
#include "sim/language/run/def_use.h"
#include "sim/run/program_run.h"
#include "sim/run/run.h"

namespace shardlab {

namespace {

class PromiseRun {
 public:
  PromiseRun(const Scenario& scenario, const OpRegistry& ops, const ScenarioOptions& options,
             const PromiseOptions& asked)
      : scenario_(scenario), ops_(ops), options_(options), asked_(asked) {}

  Promise run() {
    Heard heard = hear(Transport::kBuffered, {}, 0);
    Promise promise = std::move(heard.promise);
    promise.asked = asked_.asked.value_or(scenario_.expect.transports.value_or(kUsualTransports));
    const bool crossed = heard.verdict && heard.verdict->kind == VerdictKind::kMismatch;
    if (heard.error && !heard.hangs && promise.wrong.empty()) {
      promise.open.insert(promise.open.begin(),
                          crossed ? condition_of(*heard.verdict)
                                  : OpenCondition{"the program fails:", *heard.error});
      return promise;
    }
    if (crossed && !promise.wrong.empty()) return promise;  // its ranks go no further
    add_conditions_of_text(heard.log, promise);
    if (promise.open.empty()) {
      promise.run(asked_.lazy_groups);
    } else {
      const bool timed =
          std::ranges::find(promise.open, "C2", &OpenCondition::name) != promise.open.end();
      timed ? draw(promise) : meet(promise);
    }
    return promise;
  }

 private:
  // One run of the ranks.
  struct Heard {
    Promise promise;
    FabricLog log;
    bool hangs = false;
    std::optional<std::string> error;
    std::optional<Verdict> verdict;
    std::uint64_t steps = 0;
  };

  Heard hear(Transport transport, const std::vector<std::size_t>& way, std::uint64_t seed) const {
    Heard heard;
    heard.log.most = 20'000'000;
    heard.log.chooses = seed == 0;
    heard.log.way = way;
    ScenarioOptions options = options_;
    options.transport = transport;
    options.lazy_groups = asked_.lazy_groups;
    options.log = &heard.log;
    options.workers = 1;
    if (seed != 0) options.schedule = {.kind = SchedulerKind::kSeeded, .seed = seed};
    Run run = prepare_run(scenario_, ops_, options);
    ProgramRun program;
    run_on_ranks(run, nullptr, program);
    heard.hangs = run.verdict && run.verdict->kind == VerdictKind::kDeadlock;
    heard.verdict = run.verdict;
    if (run.error) heard.error = run.error->summary();
    heard.steps = run.steps;
    heard.promise = promise_of(heard.log, scenario_.world);
    return heard;
  }

  // A poll is seen when it happens; these ways to depend on timing, or on the order in which a
  // reduction adds, are seen in the program's text.
  void add_conditions_of_text(const FabricLog& log, Promise& promise) const {
    if (!scenario_.program) return;
    std::set<int> rounded;  // lines
    for (const FabricLog::Call& call : log.calls) {
      if (call.rounds && call.position.file != nullptr) rounded.insert(call.position.line);
    }
    const DefUse flow(*scenario_.program);
    std::set<int> known;
    for (DefUse::Id id = 0; id < flow.nodes().size(); ++id) {
      if (flow.nodes()[id].kind != DefUse::Kind::kDecides) continue;
      const int line = flow.line_of(id);
      const bool ends_early = flow.nodes()[id].name == "timeout";
      const DefUse::Ids by = flow.made_of({id});
      // Most loops follow from lengths alone.
      const bool read = flow.nodes()[id].name != "passes" || flow.any(by, DefUse::Kind::kRead);
      const bool follows = read && std::ranges::any_of(by, [&](DefUse::Id from) {
                             return from != id && rounded.contains(flow.line_of(from));
                           });
      if ((!ends_early && !follows) || !known.insert(line).second) continue;
      promise.open.push_back(
          {"C2", fmt::format("line {}: {}", line,
                             ends_early ? "a wait that may time out, and the program goes on"
                                        : "a condition follows from a sum of floats over more than "
                                          "two ranks, whose last digits depend on the order of "
                                          "its terms")});
    }
  }

  StepsOutcome outcome_of(const Heard& heard, Transport transport) const {
    if (!heard.hangs) return {};
    return run_steps(heard.promise.steps, {.transport = transport});
  }

  void meet(Promise& promise) const {
    promise.meet(asked_.runs, [&](Transport transport, const std::vector<std::size_t>& way) {
      Heard heard = hear(transport, way, 0);
      MetRun run{.ways = heard.log.ways, .way = heard.log.way};
      for (const FabricLog::Call& call : heard.log.calls) {
        if (call.any) run.met.emplace_back(call.rank, call.what.peer);
      }
      run.outcome = outcome_of(heard, transport);
      run.steps = std::move(heard.promise.steps);
      return run;
    });
  }

  // Orders of PCT.
  void draw(Promise& promise) const {
    std::uint64_t steps = 1;
    promise.tried.emplace();
    for (const Transport transport : promise.asked) {
      for (std::int64_t i = 0; i < asked_.runs && !promise.outcomes.contains(transport); ++i) {
        const auto number = static_cast<std::uint64_t>(i) + 1;
        Heard heard = hear(transport, {}, i == 0 ? number : pct_seed(steps, number));
        steps = std::max(steps, heard.steps);
        StepsOutcome outcome = outcome_of(heard, transport);
        promise.add_tried(transport, std::move(outcome), std::move(heard.promise.steps));
      }
      promise.outcomes.try_emplace(transport);
    }
    promise.tried->bound = pct_bound(scenario_.world, steps);
  }

  const Scenario& scenario_;
  const OpRegistry& ops_;
  const ScenarioOptions& options_;
  const PromiseOptions& asked_;
};

}  // namespace

Promise promise_of(const Scenario& scenario, const OpRegistry& all_ops,
                   const ScenarioOptions& options, const PromiseOptions& asked) {
  if (options.backend != "threads") {
    fail(ErrorKind::kUnsupported, Fix{"--backend threads"},
         "a promise follows from the steps of all ranks, which backend {} does not run here",
         options.backend);
  }
  return PromiseRun(scenario, all_ops, options, asked).run();
}

}  // namespace shardlab
