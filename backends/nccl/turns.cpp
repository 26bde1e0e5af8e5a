// Calls are made in the order in which rank 0 saw them complete, and by every rank in that order,
// whether it waits for the call or has queued it.
#include "backends/nccl/turns.h"

#include <optional>
#include <utility>

#include "backends/shared/patience.h"

namespace shardlab::nccl {

process::CallPlace Turns::take(const process::Entrance& entrance, const backends::Call& call) {
  channel_.enter(entrance, call, checks_);
  return checks_ == CollectiveChecks::kOn ? make_until(entrance.place) : entrance.place;
}

void Turns::queue(const process::Entrance& entrance, const backends::Call& call,
                  std::function<void()> make) {
  if (checks_ == CollectiveChecks::kOn) queued_.emplace(entrance.place, std::move(make));
  channel_.enter(entrance, call, checks_);
  if (checks_ == CollectiveChecks::kOff) make();
}

void Turns::await(process::CallPlace place) {
  if (!queued_.contains(place)) return;
  channel_.wait_for(place);
  make_until(place);
}

void Turns::settle() {
  while (!queued_.empty()) await(queued_.begin()->first);
}

process::CallPlace Turns::make_until(process::CallPlace place) {
  backends::Patience patience;
  while (true) {
    session_.check_wait(patience.waited(), "other ranks to enter a collective");
    const std::optional<process::CallPlace> met = channel_.next_met();
    if (!met) {
      patience.pause();
      continue;
    }
    patience = backends::Patience();
    const auto entry = queued_.find(*met);
    if (entry != queued_.end()) {
      const std::function<void()> make = std::move(entry->second);
      queued_.erase(entry);
      make();
    }
    if (*met == place || (is_any(place) && met->group == place.group)) return *met;
  }
}

}  // namespace shardlab::nccl
