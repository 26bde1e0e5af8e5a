// program_ranks.h - a program of the language on simulated ranks, whose meshes are those that it
// makes itself.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "mesh/spec.h"
#include "propagate/propagator.h"
#include "tensor/device.h"

namespace shardlab {

class Interpreter;

class ProgramRanks {
 public:
  ProgramRanks();
  /// Runs `program` and gives the failure of the ranks, or "". `look` sees each rank at its end.
  std::string run(std::int64_t ranks, const std::string& program,
                  const std::function<void(const Interpreter&, std::int64_t rank)>& look);

 private:
  Arena arena_;
  std::unique_ptr<Device> device_;
  Propagator propagator_;
};

}  // namespace shardlab
