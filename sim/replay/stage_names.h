// stage_names.h - names of what ranks have in models of their own, as a stage of a pipeline, in the
// whole model of another recording.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "sim/recording/recorded_program.h"

namespace shardlab {

/// Parameters of no module have the numbers of their values in a recording, which other programs
/// count otherwise: their places among those of the rank are the same where there are as many.
class LeafNames {
 public:
  explicit LeafNames(const RecordedProgram& program);

  /// "leaf[3 of 5].grad" of a check of one or of its gradient; empty: it is none.
  std::string of(const RecordedEvent& check) const;

 private:
  std::map<std::int32_t, std::set<std::int32_t>> numbers_;  // by rank
};

/// Parameters are known by shape and elements; modules by those of their parameters.
class StageNames {
 public:
  StageNames() = default;
  StageNames(const RecordedProgram& a, const RecordedProgram& b);

  /// The name in A of B's module, parameter or gradient; one that A lacks for a part of a module.
  std::string of(std::int32_t rank, const std::string& name) const;
  /// Ranks that run one event may have different modules under a name, as experts: the names in A
  /// of a rank's; empty: all ranks have the same.
  std::map<std::string, std::vector<std::size_t>> ranks_by_name(const std::string& name) const;

 private:
  std::map<std::string, std::string> leaves_;  // of all ranks at once, as A names them
  // Names in A by rank; empty where all parameters have A's. None: A has no such module.
  std::vector<std::map<std::string, std::optional<std::string>>> names_;
  std::vector<std::map<std::string, std::optional<std::string>>> shared_;  // of events of all ranks
};

/// Without the name of a wrapper.
std::string without_wrapper(std::string name);

}  // namespace shardlab
