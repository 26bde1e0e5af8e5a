// check_arguments.h - the options of the program check.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/cli/commands.h"

namespace shardlab {

struct CheckArguments {
  CommonArguments common;
  std::vector<std::string> files;  ///< no folders
  std::string known;  ///< known_differences.toml; empty: the nearest above the first file
  std::int64_t max_shown = 20;
  bool list_skipped = false;           ///< name each line that is skipped
  std::string id;                      ///< of the only line to check; empty: all
  std::optional<std::uint64_t> seed;   ///< of drawn placements
  std::optional<std::int64_t> draws;   ///< of each program
  std::string outcomes;                ///< file of expected counts; empty: none
  std::string device = "cpu";          ///< of values that one device computes
  bool as_scenario = false;            ///< print the first failing program as a scenario, no report
  bool shard = false;                  ///< sequences with their inputs placed in every way
  std::optional<std::size_t> workers;  ///< number of sequences at once
};

/// Compares recorded facts with our answers. Returns the exit code, as check_shards() does.
int check_facts(const CheckArguments& arguments);
/// --shard: a table of its own.
int check_shards(const CheckArguments& arguments);

}  // namespace shardlab
