// Under a launcher the same command runs in every process, and one process speaks to the user: that
// of rank 0, or the first that is left; of failures, one on each host.
#include <algorithm>
#include <cstdio>

#include "backends/process/control_channel.h"
#include "base/error.h"
#include "sim/cli/run_arguments.h"
#include "sim/run/process_records.h"
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
  }
  channel->write_errors(text, verdict ? verdict->culprits : channel->gone());
}

int code_of(const ScenarioResult& result, const RunArguments& arguments) {
  if (result.met()) return kFine;
  process::ControlChannel* channel = channel_of(arguments);
  if (channel == nullptr) return kFailed;
  const Run& run = result.run;
  say_elsewhere(run.error ? "error: " + run.error->text() + "\n"
                          : fmt::format("error: what is expected is not met: rank {} reports it\n",
                                        run.reporting_rank),
                run.verdict, arguments);
  if (!only_by_others(channel, run.verdict)) return kFailed;
  const std::vector<std::int64_t> gone = channel->gone();
  const bool lost = run.verdict->kind == VerdictKind::kTimeout ||
                    std::ranges::any_of(run.verdict->culprits, [&](std::int64_t rank) {
                      return std::ranges::binary_search(gone, rank);
                    });
  return lost ? kOnlyByOthers : kFailed;
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
    if (code != kFine && channel != nullptr) channel->leave();
    return code;
  }
  std::string text = refusal->text.substr(refusal->text.find(' ') + 1);
  text.pop_back();
  say_last_words(channel, text, {}, text.substr(0, text.find('\n')));
  return refusal->code;
}

}  // namespace shardlab
