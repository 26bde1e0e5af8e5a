// A call is kept as the bytes that would be sent: most are never needed.
#include "backends/process/standing.h"

#include <chrono>
#include <utility>

namespace shardlab::process {

void StandingBoard::begin_run() {
  const std::lock_guard lock(mutex_);
  now_ = {};
  since_ = Clock::now();
  entered_.clear();
}

void StandingBoard::enter(const Entrance& entrance, const backends::Call& call) {
  Writer writer;
  writer.all(entrance);
  EnteredCall::put(writer, call);
  const std::lock_guard lock(mutex_);
  now_.call = writer.take();
  now_.what.clear();
  now_.doing = entrance.waits ? Standing::Doing::kWaits : Standing::Doing::kComputes;
  since_ = Clock::now();
  entered_[entrance.place.group] = entrance.place.sequence + 1;
}

void StandingBoard::now(Standing::Doing doing, std::string_view what) {
  const std::lock_guard lock(mutex_);
  if (now_.doing == doing && now_.what == what) return;
  now_.doing = doing;
  now_.what = what;
  since_ = Clock::now();
}

void StandingBoard::wait_in(std::string call) {
  const std::lock_guard lock(mutex_);
  now_.call = std::move(call);
  now_.what.clear();
  now_.doing = Standing::Doing::kWaits;
  since_ = Clock::now();
}

Standing StandingBoard::standing(std::int64_t group) const {
  const std::lock_guard lock(mutex_);
  Standing result = now_;
  result.seconds = std::chrono::duration<double>(Clock::now() - since_).count();
  const auto found = entered_.find(group);
  result.entered = found == entered_.end() ? 0 : found->second;
  return result;
}

std::string StandingBoard::last_call() const {
  const std::lock_guard lock(mutex_);
  return now_.call;
}

std::map<std::int64_t, std::uint64_t> StandingBoard::entered() const {
  const std::lock_guard lock(mutex_);
  return entered_;
}

}  // namespace shardlab::process
