// scenario_run.h - one scenario on simulated ranks: run, traced, checked against the single-device
// run and against its own expectations.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "propagate/propagator.h"
#include "sim/judge/expectations.h"
#include "sim/run/run_options.h"
#include "sim/scenario/scenario.h"
#include "sim/verify/step_verdict.h"
#include "sim/verify/verify.h"

namespace shardlab {

/// All that a report may say about a run. Pointers inside point to other members, so that it is
/// moved as a whole and not copied.
struct ScenarioResult {
  std::unique_ptr<Arena> arena;  ///< of the layout and all specs, where they have one of their own
  Scenario scenario;
  ScenarioOptions options;
  const MeshLayout* layout = nullptr;
  std::shared_ptr<const OpRegistry> own_ops;  ///< with the scenario's rules; null: the caller's
  std::unique_ptr<Propagator> propagator;     ///< events point into its decisions
  std::vector<InputReport> inputs;
  std::int64_t reporting_rank = 0;  ///< the mesh's first rank: whose events these are
  std::vector<TraceEvent> events;
  std::vector<CollectiveCounts> counts;  ///< by rank; on a shape-only mesh by class
  std::int64_t implicit_count = 0;
  std::vector<std::vector<PrintedLine>> printed;  ///< by rank; on a shape-only mesh by class
  std::vector<std::string> warnings;
  std::vector<std::string> ran_on_host;  ///< ops that the device has left to the host
  std::vector<ValueReport> values;
  StepVerdict steps;             ///< on every call of the ranks
  std::string not_verified;      ///< why nothing was verified, or empty
  std::string not_verified_fix;  ///< what the user can do about it, or empty
  std::vector<ExpectationReport> expectations;
  std::optional<Error> error;  ///< of the run on the ranks
  std::optional<Verdict> verdict;
  bool error_expected = false;  ///< [expect] asked for this error or verdict
  MemoryReport memory;
  std::optional<SharingStats> kernels;  ///< on the ranks, where they may be shared

  /// The report is made in another rank's process; nothing else is known here but whether it is as
  /// expected.
  bool reported_elsewhere = false;
  bool met_elsewhere = false;
  std::vector<ClassReport> classes;   ///< of a shape-only mesh; the reporting rank's comes first
  std::vector<std::size_t> class_of;  ///< by rank, of a shape-only mesh of up to 4,096 ranks

  /// True on a shape-only mesh, where no value is known and classes stand for ranks.
  bool shapes_only() const { return !classes.empty(); }
  /// True when the run is as expected: no error but an expected one, every expectation met, no
  /// value and no call wrong. The exit code follows it.
  bool met() const;
};

/// Fails with ScenarioError for what can't run as written (exit code 2); what goes wrong on the
/// ranks is in the result. `registry` outlives it.
ScenarioResult run_scenario(const Scenario& scenario, const OpRegistry& registry,
                            const ScenarioOptions& options);

}  // namespace shardlab
