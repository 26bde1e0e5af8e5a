// promise_run.h - the promise of a scenario: one run, whose steps are proven; several where the
// program asks what depends on the order of ranks.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/prove/promise.h"
#include "sim/run/run_options.h"

namespace shardlab {

struct PromiseOptions {
  std::optional<std::vector<Transport>> asked;  ///< none: [expect], else kUsualTransports
  bool lazy_groups = false;
  std::int64_t runs = 200;  ///< at most, where a condition fails, on each transport
};

/// Fails as run_scenario; with Unsupported on backends that do not run all ranks.
Promise promise_of(const Scenario& scenario, const OpRegistry& all_ops,
                   const ScenarioOptions& options, const PromiseOptions& asked);

}  // namespace shardlab
