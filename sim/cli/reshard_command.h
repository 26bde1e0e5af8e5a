// reshard_command.h - the command that converts checkpoints and compares them.
#pragma once

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
  std::string heads;                    ///< "q=32,kv=8": of the edits rope that follow
  std::string mesh;                     ///< "dp=2,tp=4": files of ranks
  std::vector<std::string> placements;  ///< "layers.*.wq.weight = [_@tp, _]"
  std::string plan = "replicate";       ///< for tensors that none of these fits
  std::int64_t most_bytes = 5'000'000'000;
  bool force = false;
};
/// Writes a checkpoint with these edits and placements, or compares two.
int reshard_command(const ReshardArguments& arguments);

}  // namespace shardlab
