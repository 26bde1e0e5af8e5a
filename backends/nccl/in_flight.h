// in_flight.h - the calls that were posted on the stream of collectives: events that they reach,
// the number of them that may not be over, and memory that they use.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "backends/nccl/group.h"

namespace shardlab::nccl {

/// The largest number of posted calls that may be in flight when the next one is made on the rank's
/// own thread. CUDA keeps about 1,024 launches before a launch waits for the device; a call takes
/// up to five of them, for its kernel, for events and for waits.
inline constexpr std::uint64_t kMostInFlight = 128;

/// Used by the rank's thread.
class InFlight {
 public:
  explicit InFlight(std::shared_ptr<const Lane> lane) : lane_(std::move(lane)) {}
  /// Ends events and stream, unless they were left. The stream has come to its end.
  ~InFlight();
  InFlight& operator=(InFlight&&) = delete;

  /// Reached when all calls posted so far are over. Given back by release() or keep().
  Event mark();
  void release(Event event) { free_.push_back(event); }
  bool reached(Event event) const;
  /// Whether all marked calls are over.
  bool idle() const { return last_ == nullptr || reached(last_); }
  /// The memory is kept until `event` is reached.
  void keep(Event event, std::shared_ptr<void> memory);
  void drop_reached();

  /// Counts calls that were posted now.
  void count(std::size_t calls);
  /// Whether a launch does not wait for the device.
  bool has_room();

  /// Nothing is in flight any more.
  void forget();
  /// The stream, its events and all memory stay until the process ends.
  void leave();

 private:
  struct Kept {
    Event event;
    std::shared_ptr<void> memory;
  };
  struct Milestone {
    std::uint64_t posted;  ///< calls, of which the last is before the event
    Event event;
  };

  const std::shared_ptr<const Lane> lane_;
  std::vector<Event> free_;
  Event last_ = nullptr;  ///< recorded; events are recorded again for later marks only
  std::vector<Kept> kept_;
  std::uint64_t posted_ = 0;  ///< calls
  std::uint64_t over_ = 0;    ///< of these are known to be over
  std::deque<Milestone> milestones_;
  bool left_ = false;
};

}  // namespace shardlab::nccl
