// step_run.h - the verdict on every call of a run: a call is right when its global result is the op
// applied to the global values of its own operands (scenarios/README.md, section 6).
//
//   Steps steps(options);
//   world.run([&](RankContext& rank) {
//     rank.observer = &steps.listen(rank.rank, rank.observer);
//     ...                       // the program
//     steps.finish(rank.rank);
//   });
//   steps.verdict();
//
// Each rank's reader is used by its rank. A call is judged by the rank that comes last, on its
// thread. A wrapper that plants mistakes is below: around the device, the communicators, or the
// observer, whose call_ends() gets the handles of the program.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "sim/run/call_listener.h"
#include "sim/verify/step_judge.h"
#include "sim/verify/step_reader.h"
#include "sim/verify/step_verdict.h"
#include "tensor/device.h"

namespace shardlab {

class Propagator;

/// Options for judging a run.
struct StepOptions {
  std::int64_t ranks = 1;
  Propagator* propagator = nullptr;  ///< whose registry has the ops; outlives the run
  std::unique_ptr<Device> device;    ///< the device on which calls are judged
  /// Bytes of operands and results that wait for other ranks; calls beyond are not judged.
  std::int64_t most_bytes = std::numeric_limits<std::int64_t>::max();
};

/// Collects the parts of every call and judges it when all are there. Thread-safe.
class Steps : public CallListener {
 public:
  explicit Steps(StepOptions options);

  StepReader& listen(std::int64_t rank, Observer* next) override;
  void finish(std::int64_t rank) override;
  /// After the run.
  StepVerdict verdict();

 private:
  struct Pending {
    Step step;
    std::size_t arrived = 0;
    std::int64_t bytes = 0;
    bool dropped = false;
  };
  void take(const StepKey& key, std::size_t index, StepPart&& part);
  void judge(const Step& step);
  void skip(const std::string& reason);
  void add_wrong(WrongStep wrong);  // the mutex is held

  StepOptions options_;
  std::vector<std::unique_ptr<StepReader>> readers_;  // by rank

  mutable std::mutex mutex_;  // guards the following
  std::map<StepKey, Pending> pending_;
  std::int64_t waiting_bytes_ = 0;
  StepVerdict verdict_;
};

}  // namespace shardlab
