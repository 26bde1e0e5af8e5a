// A rank may be inside of a launch that waits, for its device or because CUDA_LAUNCH_BLOCKING is
// set. Then failures, states and the patience are checked here, and the abort lets the launch
// return; else the process ends with the message.
#include "backends/nccl/lookout.h"

#include <algorithm>
#include <utility>

#include "backends/shared/patience.h"
#include "comm/verdict.h"

namespace shardlab::nccl {

namespace {

// The period of checks, and that of questions for a failure that is about to be known.
constexpr std::chrono::milliseconds kLooks{100}, kLooksSoon{1};

}  // namespace

void Bell::ring() {
  const std::lock_guard lock(mutex_);
  rung_ = true;
  changed_.notify_all();
}

Lookout::Lookout(std::shared_ptr<const Lane> lane, Alive& alive, const Peers& peers,
                 std::chrono::milliseconds patience)
    : lane_(std::move(lane)), alive_(alive), peers_(peers), patience_(patience), watching_([this] {
        watch();
      }) {}

Lookout::~Lookout() {
  {
    const std::lock_guard lock(bell_->mutex_);
    bell_->ended_ = true;
    bell_->changed_.notify_all();
  }
  watching_.join();
}

// Until the next check is due. False once the session ends.
bool Lookout::wait(bool aborted, bool& rung) {
  std::unique_lock lock(bell_->mutex_);
  const bool before = bell_->rung_;
  bell_->changed_.wait_for(lock, before && !aborted ? kLooksSoon : kLooks,
                           [&] { return bell_->ended_ || bell_->rung_ != before; });
  rung = bell_->rung_;
  return !bell_->ended_;
}

void Lookout::watch() {
  lane_->api.SetDevice(lane_->device);
  backends::Patience away;
  std::uint64_t asked = 0;
  std::optional<backends::Patience> cut;  // while the rank is inside of a call
  for (bool aborted = false, rung = false; wait(aborted, rung);) {
    aborted = alive_.aborted();
    const bool inside = alive_.rank_is_inside();
    if (aborted) {
      if (!inside) cut.reset();
      if (inside && !cut) cut.emplace();
      if (cut && cut->waited() > alive_.abort_takes()) {
        peers_.end_process(fmt::format("rank {} is inside of a launch", lane_->rank));
      }
    } else if (rung) {
      if (peers_.failure()) alive_.cut();
    } else {
      const CudaError device = lane_->api.StreamQuery(lane_->stream);
      const std::uint64_t now = asked_;
      if (std::exchange(asked, now) != now || (device == CudaError::kSuccess && !inside)) {
        away = backends::Patience();
      } else {
        ask_for_rank(away.waited(), device);
      }
    }
  }
}

void Lookout::ask_peers(std::chrono::milliseconds waited) {
  const std::lock_guard lock(asking_);
  peers_.wait_on(waited, patience_);
}

// Reports and cuts; the rank itself finds the error that it throws.
void Lookout::ask_for_rank(std::chrono::milliseconds waited, CudaError device) {
  ask_peers(waited);
  if (peers_.failure()) return alive_.cut();
  const bool failed = std::ranges::any_of(
      alive_.all(), [&](Comm comm) { return alive_.state_of(comm) != Result::kSuccess; });
  // CUDA's own errors stay, and end all work of the process on the device.
  const bool broken = device != CudaError::kSuccess && device != CudaError::kNotReady;
  if (!failed && !broken && waited < patience_) return;
  const std::string why = broken   ? lane_->api.CudaGetErrorString(device)
                          : failed ? "NCCL reports that one has failed"
                                   : "they have not come to an end";
  const std::chrono::duration<double> seconds = waited;
  peers_.tell(Error(ErrorKind::kRuntime,
                    fmt::format("rank {} has launched work behind collectives for {:.3g} s, and {}",
                                lane_->rank, seconds.count(), why))
                  .with("fix", kWaitedTooLong));
  alive_.cut();
}

}  // namespace shardlab::nccl
