// Everything here is short, and under the one mutex of the channel.
#include "backends/process/job_state.h"

#include <utility>

#include "backends/shared/meeting.h"

namespace shardlab::process {

std::vector<std::int64_t> JobState::gone_ranks() const {
  std::vector<std::int64_t> ranks;
  for (std::int64_t other = 0; other < size; ++other) {
    if (gone(other)) ranks.push_back(other);
  }
  return ranks;
}

std::vector<std::int64_t> JobState::silent_ranks() const {
  std::vector<std::int64_t> ranks = gone_ranks();
  std::erase_if(ranks,
                [&](std::int64_t r) { return said[static_cast<std::size_t>(r)] == Spoke::kYes; });
  return ranks;
}

std::optional<std::int64_t> JobState::first_lost() const {
  for (const std::int64_t other : lost) {
    if (said[static_cast<std::size_t>(other)] == Spoke::kNo) return other;
  }
  return lost.empty() ? std::nullopt : std::optional(lost.front());
}

void JobState::lose(std::int64_t other, std::string reason, Spoke has_said,
                    const Verdict& verdict) {
  if (active) {
    verdicts.try_emplace(run, verdict);
    failed = true;
  }
  said[static_cast<std::size_t>(other)] = has_said;
  lost.push_back(other);
  why_gone[static_cast<std::size_t>(other)] = reason.empty() ? kItEnded : std::move(reason);
  changed.notify_all();
}

void JobState::hear_verdict(std::uint64_t of_run) {
  if (of_run == run && active) failed = true;
  changed.notify_all();
}

void JobState::store(const Contribution& contribution, std::vector<std::string> parts) {
  if (contribution.ends_run) active = false;
  results.emplace(contribution.sequence, std::move(parts));
  changed.notify_all();
}

Verdict verdict_on_gone(std::int64_t rank, const std::string& reason) {
  const char* killed = "its process ended in the middle of the run (killed or crashed)";
  return backends::verdict_on_failed({rank}, reason.empty() ? killed : reason);
}

}  // namespace shardlab::process
