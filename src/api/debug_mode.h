// debug_mode.h - the communication of a part of a program, as data. PyTorch's CommDebugMode.
//
//   CommDebugMode comm;
//   comm.enter();
//   backward(loss);
//   comm.leave();
//   CHECK(comm.total() == 2);
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "comm/forwarding_observer.h"

namespace shardlab {

/// Counts the collectives of two or more ranks that the running rank enters between enter() and
/// leave(): those of the program, those that ops and redistributions need, in forward and in
/// backward. Other observers are still called. Used by one rank; left before it dies, and in the
/// opposite order of entering where several are entered.
class CommDebugMode {
 public:
  ~CommDebugMode() { leave(); }
  CommDebugMode& operator=(CommDebugMode&&) = delete;

  /// Counts from 0 again.
  ///   fails  Runtime: it is entered already
  void enter();
  /// The counts stay. Does nothing where it is not entered.
  void leave();

  /// Collectives of this rank since enter(), of one kind and of all; waits are not counted again.
  std::int64_t count(CollectiveKind kind) const { return counts_[static_cast<std::size_t>(kind)]; }
  std::int64_t total() const;

 private:
  class Counter final : public ForwardingObserver {
   public:
    Counter(Observer* next, CommDebugMode& mode) : ForwardingObserver(next), mode_(mode) {}
    void collective(const CollectiveRecord& record) override {
      ++mode_.counts_[static_cast<std::size_t>(record.kind)];
      ForwardingObserver::collective(record);
    }

   private:
    CommDebugMode& mode_;
  };

  std::array<std::int64_t, kCollectiveKinds> counts_{};
  std::optional<Counter> counter_;
  std::optional<ObserverScope> scope_;
};

}  // namespace shardlab
