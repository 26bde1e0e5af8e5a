// reshard_command.h - the command that converts checkpoints and compares them.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "sim/checkpoint/edited.h"
#include "sim/cli/commands.h"

namespace shardlab {

struct ReshardArguments {
  CommonArguments common;
  std::vector<std::string> paths;       ///< from and to, or A and B
  bool check = false;                   ///< compare A and B
  std::string against;                  ///< a recorded step, in place of B
  std::vector<Edit> edits;              ///< in the order of the command line
  std::vector<std::string> texts;       ///< of edits, by the parser; `edits` has them
  std::string mesh;                     ///< "dp=2,tp=4": files of ranks
  std::vector<std::string> placements;  ///< "layers.*.wq.weight = [_@tp, _]"
  std::string plan;                     ///< for tensors that none of these fits
  std::int64_t most_bytes = 5'000'000'000;
  bool force = false;
};

/// Adds the command; `chosen` is set if it is the one.
void add_reshard(CLI::App& app, ReshardArguments& arguments, std::function<int()>& chosen);

}  // namespace shardlab
