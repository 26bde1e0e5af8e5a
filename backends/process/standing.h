// standing.h - the state of a rank, as the other processes receive it when they have waited for it
// too long (B-16). Its process keeps it, and answers while the rank itself computes, loops or
// sleeps.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "backends/process/entered_call.h"
#include "backends/process/socket.h"

namespace shardlab::process {

/// The present activity of a rank.
struct Standing {
  enum class Doing : std::uint8_t {
    kComputes,  ///< the program's own business
    kWaits,     ///< for other ranks
    kEnded,     ///< the program has, and the process is here still
    kReports,   ///< judges and prints the results of ranks, which may take long
  };
  Doing doing = Doing::kComputes;
  double seconds = 0;         ///< it has done so for
  std::string what;           ///< the awaited event, where that is not a collective
  std::string call;           ///< the last it entered: Entrance and EnteredCall; empty: none
  std::uint64_t entered = 0;  ///< collectives of the group in question
};
template <typename T>
requires std::same_as<std::remove_const_t<T>, Standing>
auto fields(T& x) { return std::tie(x.doing, x.seconds, x.what, x.call, x.entered); }

/// The own rank's. Any thread.
class StandingBoard {
 public:
  /// A new run: nothing has been entered.
  void begin_run();
  /// Enters a collective, and waits in it if the call does.
  void enter(const Entrance& entrance, const backends::Call& call);
  void now(Standing::Doing doing, std::string_view what = "");
  /// Waits in a call that it entered before.
  void wait_in(std::string call);
  /// `group`: the one whose collectives are counted.
  Standing standing(std::int64_t group) const;
  /// The last call entered, as bytes; empty: none.
  std::string last_call() const;
  /// Number of collectives of each group that it has entered.
  std::map<std::int64_t, std::uint64_t> entered() const;

 private:
  mutable std::mutex mutex_;  ///< guards the following
  Standing now_;
  Clock::time_point since_ = Clock::now();
  std::map<std::int64_t, std::uint64_t> entered_;
};

}  // namespace shardlab::process
