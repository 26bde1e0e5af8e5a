// processes.h - runs a test body in several processes, one a rank.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "backends/nccl/api.h"

namespace shardlab {

/// Forks `ranks` processes, runs `body(rank)` in each and returns their results, by rank: a text
/// for a fault, empty for none. "died of signal 9" and the like where one did not reach its end.
/// Exceptions become text, and so do its complaints.
std::vector<std::string> on_processes(int ranks, const std::function<std::string(int)>& body);

/// The double's functions.
const nccl::Api& double_api();
/// The number of threads NCCL would have made in this process so far.
int threads_of_double();
/// Returns when a thread of this process is inside of a call of the communicator.
void await_call(nccl::Comm comm);

/// For tests in which the double must not end a process: a busy machine is no hang, and a wait may
/// be left.
class LongDeadline {
 public:
  LongDeadline();
  ~LongDeadline();
  LongDeadline(const LongDeadline&) = delete;
  LongDeadline& operator=(const LongDeadline&) = delete;

 private:
  std::string usual_;
};

}  // namespace shardlab
