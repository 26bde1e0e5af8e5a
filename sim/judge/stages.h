// stages.h - the stages of a pipeline, each judged by one rank of a smaller world. Mesh dims that
// messages cross keep their sizes there, and others have size 1, as all have on one device. Private
// to the files that judge.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sim/run/program_run.h"
#include "sim/run/run.h"
#include "sim/verify/labels/call_log.h"
#include "sim/verify/roles.h"

namespace shardlab {

class Stages {
 public:
  /// Runs the smaller worlds, that with the fewest mesh dims first. Null if the ranks send each
  /// other nothing, or if in no such world each rank sends and receives, on each line, as often as
  /// all ranks of its stage.
  static std::unique_ptr<Stages> of(const Run& run, const OpRegistry& registry);

  /// Judges the values that one device lacks or has differently, by `all` without its one device.
  /// Those that a stage has wrong stay as they are if they are made of `doubtful`.
  void judge(const VerifyInputs& all, RoleInputs roles, const DefUse::Ids& doubtful,
             std::vector<ValueReport>& values);

  /// The mesh dims that are kept.
  const std::set<std::string>& kept() const { return kept_; }
  /// The number of the stage that has the value wrong; -1: none.
  int stage_of(const ValueReport& report) const;
  const VerifyInputs& inputs(int stage) const { return inputs_[static_cast<std::size_t>(stage)]; }
  /// Recordings by rank: those of other stages have no values.
  std::vector<const Recording*> only_of(int stage, std::vector<const Recording*> ranks) const;
  /// The smaller world's calls, in f64: its ranks are the stages.
  const CallLog& calls() const { return *calls_; }

 private:
  explicit Stages(const Run& run) : run_(run) {}
  bool run_on(const MeshLayout& small, const OpRegistry& registry, const FabricLog& ranks);
  bool sends_alike(const FabricLog& small, const FabricLog& ranks) const;
  VerifyInputs inputs_of(const VerifyInputs& all, std::size_t stage) const;

  const Run& run_;
  std::set<std::string> kept_;
  std::vector<const MeshLayout*> parts_;  // the ranks of each stage
  ProgramRun single_, in_f64_;            // of the smaller world
  std::unique_ptr<CallLog> calls_;
  std::vector<VerifyInputs> inputs_;
  std::map<std::pair<std::string, std::uint32_t>, int> wrong_in_;  // by key and place
};

}  // namespace shardlab
