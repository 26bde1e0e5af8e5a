// An abort runs on a thread of its own: the one that reports must not wait for the others. A
// communicator that a call is inside of is left out, and aborted after that call.
#include "backends/nccl/alive.h"

#include <algorithm>
#include <utility>

#include "backends/shared/patience.h"

namespace shardlab::nccl {

namespace {

// The longest time until a visit returns after the others have received a failure, with a patience
// that is not far shorter. Aborts take twice as long: the others wait for their visits.
constexpr std::chrono::milliseconds kVisitTakes{1'000};

}  // namespace

Alive::Alive(std::shared_ptr<const Lane> lane, std::chrono::milliseconds patience)
    : lane_(std::move(lane)), visit_takes_(std::min(kVisitTakes, 4 * patience)) {}

Result Alive::state_of(Comm comm) const {
  const std::lock_guard lock(mutex_);
  if (aborted_) return Result::kRemoteError;
  if (is_used(comm)) return Result::kSuccess;
  Result state = Result::kSuccess;
  const Result asked = lane_->api.CommGetAsyncError(comm, &state);
  if (state == Result::kInProgress) state = Result::kSuccess;
  return asked == Result::kSuccess ? state : asked;
}

Result Alive::progress_of(Comm comm) const {
  const std::lock_guard lock(mutex_);
  Result state = Result::kRemoteError;
  const Result asked = aborted_ ? Result::kSuccess : lane_->api.CommGetAsyncError(comm, &state);
  return asked == Result::kSuccess ? state : asked;
}

std::string Alive::last_error(Comm comm) const {
  const std::lock_guard lock(mutex_);
  const char* last = aborted_ || comm == nullptr ? nullptr : lane_->api.GetLastError(comm);
  return last == nullptr ? "" : last;
}

bool Alive::enter(Comm comm) {
  const std::lock_guard lock(mutex_);
  inside_ = aborted_ ? nullptr : comm;
  return !aborted_;
}

bool Alive::begin_visit(Comm comm, std::function<Outcome()> call,
                        std::function<void(Comms&)> back) {
  const auto outcome = std::make_shared<Outcome>();
  {
    const std::lock_guard lock(mutex_);
    if (aborted_) return false;
    visit_ = {comm, std::move(back), outcome};
  }
  visits_->begin([lane = lane_, call = std::move(call), outcome] {
    lane->api.SetDevice(lane->device);
    *outcome = call();
  });
  return true;
}

Outcome Alive::end_visit() {
  const std::shared_ptr<Outcome> outcome = visit_->outcome;
  come_back();
  return aborted() ? Outcome{Result::kRemoteError, std::nullopt} : *outcome;
}

void Alive::come_back() {
  const std::lock_guard lock(mutex_);
  if (visit_->back) visit_->back(alive_);
  visit_.reset();
}

void Alive::leave_visit() {
  left_ = true;
  visits_->leave();
  const std::lock_guard lock(mutex_);
  std::erase(alive_, visit_->comm);
  visit_.reset();
}

void Alive::abort_alive() {
  Comms comms;
  for (const Comm comm : std::exchange(alive_, {})) {
    (is_used(comm) ? alive_ : comms).push_back(comm);
  }
  if (comms.empty()) return;
  aborts_.push_back(std::make_unique<Errand>());
  aborts_.back()->begin([lane = lane_, comms = std::move(comms)] { abort_together(*lane, comms); });
}

void Alive::cut() noexcept {
  const std::lock_guard lock(mutex_);
  aborted_ = true;
  if (!visit_) abort_alive();
}

bool Alive::abort() noexcept {
  const auto abort_rest = [this] {
    const std::lock_guard lock(mutex_);
    aborted_ = true;
    abort_alive();
  };
  const std::chrono::milliseconds most = 2 * visit_takes_;
  *lane_->cut = true;
  if (visit_ && visits_->wait(visit_takes_)) come_back();
  abort_rest();
  if (visit_) visits_->wait(most) ? come_back() : leave_visit();
  abort_rest();
  std::vector<std::unique_ptr<Errand>> aborts;
  {
    const std::lock_guard lock(mutex_);
    aborts = std::move(aborts_);
  }
  const backends::Patience patience;
  for (const std::unique_ptr<Errand>& abort : aborts) {
    if (abort->wait(most - patience.waited())) continue;
    left_ = true;
    abort->leave();
  }
  return left_;
}

}  // namespace shardlab::nccl
