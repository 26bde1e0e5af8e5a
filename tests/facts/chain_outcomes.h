// chain_outcomes.h - expected outcomes of the chain facts: the number of runs that each op refuses
// under drawn placements, and of programs that need something that is not supported yet.
//
//   seed = 1                   # of the drawn placements
//   draws = 2                  # for each program
//   wrong = ["hand/x/0"]       # programs that are known to be wrong still
//   [not_supported]            # programs by what is missing
//   einsum = 16
//   [refused]                  # runs by the op that refused
//   "aten::view" = 3
//
// A table that is left out is not compared.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "tests/facts/check.h"

namespace shardlab {

/// The expected counts of one file.
struct ChainOutcomes {
  CheckOptions options;  ///< seed, draws and the programs that are still wrong
  std::optional<std::map<std::string, std::int64_t>> not_supported, refused;

  ///   fails  Value, naming the file: not of this form
  static ChainOutcomes read(const std::string& path);
  /// Adds a failure for each count that differs.
  void compare(const std::string& path, CheckSummary& summary) const;
};

}  // namespace shardlab
