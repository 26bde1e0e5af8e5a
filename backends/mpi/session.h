// session.h - this process in its MPI job: from the first world that needs it to the end of the
// process. One thread uses it.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "backends/mpi/api.h"
#include "backends/mpi/first_message.h"
#include "backends/process/control_channel.h"

namespace shardlab::mpi {

/// There is one per process: MPI can be started once only, and not again after its end.
class Session {
 public:
  /// Joins the job with the first call.
  static Session& get();
  Session();
  /// Waits for the others, unless one of them is gone.
  ~Session();
  Session& operator=(Session&&) = delete;

  const Api& api() const { return *api_; }
  process::ControlChannel& channel() { return *channel_; }
  /// For each rank of the job the number of its host.
  const std::vector<std::int64_t>& hosts() const { return channel_->hosts(); }
  /// The longest wait of a collective for other ranks: 300 s, or SHARDLAB_PATIENCE.
  std::chrono::milliseconds patience() const { return patience_; }
  /// Messages that are left over from an earlier run are not seen by the next one.
  void begin_run();
  /// Memory for a first message, used again; its contents are any.
  FirstMessageRef take_first();
  void give_back(FirstMessageRef first) { spare_.push_back(std::move(first)); }
  /// For each rank of the job a number, and one that none of them has.
  std::pair<std::span<std::uint64_t>, std::uint64_t> new_look() { return {marks_, ++looks_}; }
  /// Fails with Runtime, naming the call, unless `code` is 0.
  void check(int code, const char* what) const;

 private:
  const Api* api_;
  std::unique_ptr<process::ControlChannel> channel_;
  std::chrono::milliseconds patience_;
  std::vector<FirstMessageRef> spare_;
  std::vector<std::uint64_t> marks_;
  std::uint64_t looks_ = 0;
};

}  // namespace shardlab::mpi
