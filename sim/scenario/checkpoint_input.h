// checkpoint_input.h - tensors of checkpoints (sim/checkpoint) as inputs of scenarios:
// file = "x.npy", or file = "model.safetensors", tensor = "wq.weight".
#pragma once

#include <map>
#include <memory>
#include <string>

#include "sim/scenario/scenario.h"

namespace shardlab {

class Checkpoint;

/// A path as a scenario gives it: relative to the folder of the scenario.
std::string path_in_folder_of(const std::string& scenario, const std::string& file);

/// Checkpoints that were opened for the inputs of one scenario, each once. Used by one thread.
class CheckpointInputs {
 public:
  /// Gives the input the elements of the tensor of this name; of the only one, if that is empty.
  ///   fails  ScenarioError at the input: no such file or tensor, another shape, a dtype that no
  ///          kernel takes
  void read(const std::string& path, const std::string& tensor, ScenarioInput& input);

 private:
  std::map<std::string, std::shared_ptr<const Checkpoint>> open_;
};

}  // namespace shardlab
