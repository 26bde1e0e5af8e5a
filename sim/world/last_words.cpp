// A rank that failed on its own, and all ranks of a mismatch and of a deadlock, are causes.
#include "sim/world/last_words.h"

#include <algorithm>
#include <cstdio>

#include "backends/process/control_channel.h"
#include "backends/process/places.h"
#include "backends/process/presence.h"

namespace shardlab {

bool speaks_for_host(const process::ControlChannel* channel) {
  return channel != nullptr ? channel->speaks() : process::first_present();
}

bool only_by_others(const process::ControlChannel* channel, const std::optional<Verdict>& verdict) {
  if (channel == nullptr || !verdict) return false;
  const bool of_one =
      verdict->kind == VerdictKind::kRankFailed || verdict->kind == VerdictKind::kTimeout;
  return of_one && std::ranges::find(verdict->culprits, channel->rank()) == verdict->culprits.end();
}

void say_last_words(process::ControlChannel* channel, const std::string& text,
                    const std::optional<Verdict>& verdict, std::string_view reason) {
  const bool speaks = speaks_for_host(channel);
  if (speaks) std::fputs(("error: " + text + "\n").c_str(), stderr);
  if (channel == nullptr) {
    process::write_own_error(text);
    if (speaks) process::stay_present();
    return;
  }
  channel->write_errors(text, verdict ? verdict->culprits : channel->gone());
  channel->leave(reason);
}

}  // namespace shardlab
