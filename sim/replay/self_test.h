// self_test.h - a recorded step as a program on one rank, compared with PyTorch's recording:
// its values and, by our own tape, its gradients. A re-mesh starts from this program.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "sim/remesh/program.h"
#include "sim/replay/replay.h"

namespace shardlab {

struct KnownAlone;
struct RecordedValue;
class SelfTester;

struct SelfTest {
  std::int64_t values = 0, gradients = 0;  ///< the number that agrees
  std::int64_t parameters = 0;             ///< the same after the optimizer's step
  std::int64_t undecided = 0;              ///< rounding alone
  std::vector<ReplayDifference> differences;

  bool ok() const { return differences.empty(); }
};

/// Compares the run of `program` on one device. `wide`, the same in f64, shows which values are
/// rounding alone: all gradients of a loss that is constant; it may be null.
SelfTest self_test(const CallProgram& program, const KnownAlone& alone,
                   const KnownAlone* wide = nullptr);

/// The same of a run that goes on: it keeps the elements of gradients and parameters alone.
class SelfTestBeside {
 public:
  /// `program` outlives this.
  explicit SelfTestBeside(const CallProgram& program);
  ~SelfTestBeside();
  /// The next value of the run.
  void take(const RecordedValue& value);
  /// Once, behind the last value.
  SelfTest result();

 private:
  std::unique_ptr<SelfTester> tester_;
};

/// One line; differences before it.
std::string self_test_text(const SelfTest& test);

}  // namespace shardlab
