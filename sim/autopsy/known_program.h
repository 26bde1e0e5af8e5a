// known_program.h - a recorded program beside the dumps of a job that ran it: the module and the
// branch at which a rank parted.
#pragma once

#include <string>
#include <vector>

#include "backends/shared/fabric_log.h"
#include "sim/autopsy/autopsy.h"

namespace shardlab {

/// A program's calls on simulated ranks.
struct KnownProgram {
  std::string file;
  FabricLog log;
  std::vector<std::string> places;  ///< by call of `log`: "layers.0.wq  model.py:37"
  std::string hang;                 ///< the reason why it hangs itself; empty: it ends
};

/// Adds to `found` what the program has at its place: the last step of the rank's dump is aligned
/// with the program's calls by their longest common subsequence.
void join(Autopsy& found, const std::vector<FlightDump>& dumps, const FlightWords& words,
          const KnownProgram& program);

}  // namespace shardlab
