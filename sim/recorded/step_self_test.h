// step_self_test.h - a recorded step as a program on one rank, compared with PyTorch's recording:
// its values and, by our own tape, its gradients. A re-mesh starts from this program.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/capture/step_program.h"
#include "sim/recorded/step_replay.h"

namespace shardlab {

class OpRegistry;
struct Scenario;

struct StepSelfTest {
  std::int64_t values = 0, gradients = 0;  ///< the number that agrees
  std::int64_t parameters = 0;             ///< the same after the optimizer's step
  std::int64_t undecided = 0;              ///< rounding alone
  std::vector<StepDifference> differences;

  bool ok() const { return differences.empty(); }
};

/// Runs `scenario`, the program on one rank.
///   fails  as the program does
StepSelfTest self_test(const StepProgram& program, const Scenario& scenario,
                       const OpRegistry& registry);

/// One line; differences before it.
std::string self_test_text(const StepSelfTest& test);

}  // namespace shardlab
