// A rank that failed on its own, and all ranks of a mismatch and of a deadlock, are causes.
#include "sim/world/last_words.h"

#include <algorithm>
#include <cstdio>

#include "backends/process/control_channel.h"
#include "backends/process/places.h"
#include "backends/process/presence.h"

namespace shardlab {

namespace {

void speak(const std::string& text) {
  std::fputs(("error: " + text + "\n").c_str(), stderr);
  process::tell_spoken();
}

}  // namespace

bool only_by_others(const process::ControlChannel* channel, const std::optional<Verdict>& verdict) {
  if (channel == nullptr || !verdict) return false;
  const bool of_one =
      verdict->kind == VerdictKind::kRankFailed || verdict->kind == VerdictKind::kTimeout;
  return of_one && std::ranges::find(verdict->culprits, channel->rank()) == verdict->culprits.end();
}

void see_that_somebody_spoke(const std::string& text) {
  if (!process::somebody_spoke()) speak(text);
}

void say_last_words(process::ControlChannel* channel, const std::string& text,
                    const std::optional<Verdict>& verdict, std::string_view reason) {
  if (channel != nullptr ? channel->speaks() : process::must_speak()) speak(text);
  if (channel == nullptr) return process::write_own_error(text);
  channel->write_errors(text, verdict ? verdict->culprits : channel->gone());
  channel->leave(reason);
  see_that_somebody_spoke(text);
}

}  // namespace shardlab
