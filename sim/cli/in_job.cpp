// Under a launcher the same command runs in every process, and the process of rank 0 alone speaks
// to the user.
#include "backends/process/control_channel.h"
#include "base/error.h"
#include "sim/cli/run_arguments.h"
#include "sim/run/process_records.h"

namespace shardlab {

namespace {

// Rank 0 reports the same error for a file that cannot run; any other error reaches it as a failure
// of this rank. If its process is gone, the remaining ones report.
int silently(process::ControlChannel* channel, const std::function<int()>& command) {
  try {
    return command();
  } catch (const Error& error) {
    if (channel != nullptr && !channel->why_gone(0).empty()) {
      print({.err = "error: " + error.text() + "\n"});
    }
    if (channel != nullptr) channel->leave(error.summary());
    return error.kind() == ErrorKind::kInternal ? kOurDefect : kCannotRun;
  }
}

}  // namespace

bool speaks(const RunArguments& arguments) {
  const process::ControlChannel* channel = channel_of(arguments);
  return channel == nullptr || channel->rank() == 0;
}

int in_job(const RunArguments& arguments, const std::function<int()>& command) {
  return speaks(arguments) ? guarded(command) : silently(channel_of(arguments), command);
}

}  // namespace shardlab
