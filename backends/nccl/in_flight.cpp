// Events are used again. Every so many calls share one, their milestone, by which they are known to
// be over.
#include "backends/nccl/in_flight.h"

#include <utility>

#include "backends/nccl/errand.h"
#include "backends/nccl/library.h"

namespace shardlab::nccl {

namespace {

constexpr std::uint64_t kCallsAMilestone = kMostInFlight / 4;

}  // namespace

InFlight::~InFlight() {
  if (left_) return;
  forget();
  for (const Milestone& milestone : milestones_) release(milestone.event);
  for (const Event event : free_) lane_->api.EventDestroy(event);
  lane_->api.StreamDestroy(lane_->stream);
}

Event InFlight::mark() {
  Event event = nullptr;
  if (free_.empty()) {
    check(lane_->api, lane_->api.EventCreateWithFlags(&event, kEventDisableTiming),
          "cudaEventCreate", lane_->rank);
  } else {
    event = free_.back();
    free_.pop_back();
  }
  const CudaError recorded = lane_->api.EventRecord(event, lane_->stream);
  if (recorded != CudaError::kSuccess) release(event);
  check(lane_->api, recorded, "cudaEventRecord", lane_->rank);
  return last_ = event;
}

bool InFlight::reached(Event event) const {
  const CudaError state = lane_->api.EventQuery(event);
  if (state == CudaError::kNotReady) {
    // The runtime keeps it as the last error, which the next launch of a kernel would be taken for.
    lane_->api.CudaGetLastError();
    return false;
  }
  check(lane_->api, state, "cudaEventQuery", lane_->rank);
  return true;
}

void InFlight::keep(Event event, std::shared_ptr<void> memory) {
  if (left_) return keep_for_ever(std::move(memory));
  kept_.push_back({event, std::move(memory)});
}

void InFlight::drop_reached() {
  std::erase_if(kept_, [&](const Kept& kept) {
    const bool over = reached(kept.event);
    if (over) release(kept.event);
    return over;
  });
}

void InFlight::count(std::size_t calls) {
  posted_ += calls;
  const std::uint64_t before = milestones_.empty() ? over_ : milestones_.back().posted;
  if (posted_ - before >= kCallsAMilestone) milestones_.push_back({posted_, mark()});
}

bool InFlight::has_room() {
  const auto few = [&] { return posted_ - over_ <= kMostInFlight; };
  while (!few() && !milestones_.empty() && reached(milestones_.front().event)) {
    over_ = milestones_.front().posted;
    release(milestones_.front().event);
    milestones_.pop_front();
  }
  return few();
}

void InFlight::forget() {
  for (const Kept& kept : std::exchange(kept_, {})) release(kept.event);
}

void InFlight::leave() {
  left_ = true;
  for (Kept& kept : std::exchange(kept_, {})) keep_for_ever(std::move(kept.memory));
}

}  // namespace shardlab::nccl
