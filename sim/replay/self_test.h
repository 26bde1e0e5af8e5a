// self_test.h - a recorded step as a program on one rank, compared with PyTorch's recording:
// its values and, by our own tape, its gradients. A re-mesh starts from this program.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
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

/// Compares a run of a program on one device with PyTorch's.
class SelfTestRuns {
 public:
  /// `program` outlives this.
  explicit SelfTestRuns(const CallProgram& program);
  ~SelfTestRuns();
  /// The values whose elements the following ask a run for.
  std::set<std::string> names() const;
  /// The run outlives this.
  void take(const KnownAlone& run);
  /// The next value of a run that goes on: the elements of gradients and parameters alone are kept.
  void take(const RecordedValue& value);
  /// Another run, in f64 or with nudged inputs, shows what rounding does to the values of the one
  /// that was taken: all of a gradient of a loss that is constant, and of one behind many functions
  /// with jumps.
  void round_as(const KnownAlone& other);
  SelfTest test();

 private:
  std::unique_ptr<SelfTester> tester_;
};

/// One line; differences before it.
std::string self_test_text(const SelfTest& test);

}  // namespace shardlab
