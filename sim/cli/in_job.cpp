// Under a launcher the same command runs in every process, and one process speaks to the user: that
// of rank 0, or the first that is left; of failures, one on each host.
#include <algorithm>

#include "backends/process/control_channel.h"
#include "backends/process/presence.h"
#include "base/error.h"
#include "sim/cli/run_arguments.h"
#include "sim/run/process_records.h"
#include "sim/world/backends.h"
#include "sim/world/last_words.h"

namespace shardlab {

namespace {

bool same_host(const process::ControlChannel& channel, std::int64_t a, std::int64_t b) {
  const std::vector<std::int64_t>& hosts = channel.hosts();
  return hosts[static_cast<std::size_t>(a)] == hosts[static_cast<std::size_t>(b)];
}

}  // namespace

bool speaks(const RunArguments& arguments) {
  process::ControlChannel* channel = channel_of(arguments);
  return channel == nullptr || channel->rank() == reporter_of(*channel, 0);
}

void say_elsewhere(const std::string& text, const std::optional<Verdict>& verdict,
                   const RunArguments& arguments) {
  process::ControlChannel* channel = channel_of(arguments);
  if (channel == nullptr) return;
  if (!same_host(*channel, channel->rank(), reporter_of(*channel, 0)) && channel->speaks()) {
    print({.out = {}, .err = text});
    process::tell_spoken();
  }
  channel->write_errors(text, verdict ? verdict->culprits : channel->gone());
}

int code_of(const ScenarioResult& result, const RunArguments& arguments) {
  return result.met() ? kFine : code_of_failure(result.run, arguments);
}

int code_of_failure(const Run& run, const RunArguments& arguments) {
  process::ControlChannel* channel = channel_of(arguments);
  if (channel == nullptr) return kFailed;
  if (!run.reported_elsewhere) process::tell_spoken();
  say_elsewhere(run.error ? "error: " + run.error->text() + "\n"
                          : fmt::format("error: what is expected is not met: rank {} reports it\n",
                                        run.reporting_rank),
                run.verdict, arguments);
  const bool by_others =
      !run.lost.empty() && std::ranges::find(run.lost, channel->rank()) == run.lost.end();
  return by_others ? kOnlyByOthers : kFailed;
}

int in_one_process(const RunArguments& arguments, std::string_view name,
                   const std::function<int()>& command) {
  const bool processes =
      !arguments.backend.empty() && find_backend(arguments.backend).processes != nullptr;
  if (!processes) return command();
  const auto refuse = [&]() -> int {
    if (name.empty()) return command();
    fail(ErrorKind::kUnsupported,
         Fix{fmt::format("{} without --backend {}: ranks of one process give the same values", name,
                         arguments.backend)},
         "{} runs a program many times in one process, and backend {} has one for each rank", name,
         arguments.backend);
  };
  // A launcher would not help, so that its absence is not the reason.
  if (refusal_of([&] { channel_of(arguments); })) return refuse();
  return in_job(arguments, refuse);
}

// An error that this process alone has reaches the others as a failure of its rank.
int in_job(const RunArguments& arguments, const std::function<int()>& command) {
  process::ControlChannel* channel = nullptr;
  int code = kFine;
  const std::optional<Refusal> refusal = refusal_of([&] {
    channel = channel_of(arguments);
    code = command();
  });
  if (!refusal) {
    if (code == kFine || channel == nullptr) return code;
    channel->leave();
    see_that_somebody_spoke(channel->failed() ? to_error(channel->verdict()).text()
                                              : "what is expected is not met, and the rank that "
                                                "reports it was lost before it did");
    return code;
  }
  std::string text = refusal->text.substr(refusal->text.find(' ') + 1);
  text.pop_back();
  say_last_words(channel, text, {}, text.substr(0, text.find('\n')));
  return refusal->code;
}

}  // namespace shardlab
