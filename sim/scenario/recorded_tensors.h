// recorded_tensors.h - tensors of a recorded program (sim/record_torch/README.md) as inputs of
// scenarios: file = "step.json.gz", tensor = "wq.weight".
#pragma once

#include <map>
#include <memory>
#include <string>

#include "sim/scenario/scenario.h"

namespace shardlab {

struct RecordedProgram;
struct EventValue;

/// The elements of a DTensor's whole, row-major, of which the file has the pieces of all ranks.
///   fails  Value: ranks that hold the same elements have others, or the file lacks some
std::vector<Scalar> elements_of_pieces(const RecordedProgram& program, const EventValue& value);

/// Files that were opened for the inputs of one scenario, each read once. Used by one thread.
class RecordedTensors {
 public:
  RecordedTensors();
  ~RecordedTensors();
  RecordedTensors& operator=(RecordedTensors&&) = delete;

  /// Gives the input the elements of the tensor of this name; "v12": of value 12, which may have no
  /// name; "v12:2": of its second draw.
  ///   fails  ScenarioError at the input: no such file or tensor, other dtype or shape
  void read(const std::string& path, const std::string& tensor, ScenarioInput& input);

  /// A program that is in memory: its file is not read again as long as the result lives.
  static std::shared_ptr<const void> keep(const std::string& path,
                                          std::shared_ptr<const RecordedProgram> program);

 private:
  struct File;
  const std::shared_ptr<const File>& opened(const std::string& path, const ScenarioInput& input);

  std::map<std::string, std::shared_ptr<const File>> files_;
};

}  // namespace shardlab
