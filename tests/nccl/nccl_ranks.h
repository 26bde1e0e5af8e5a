// nccl_ranks.h - ranks in processes that only have each other's NCCL, which is the double: for
// tests of the session and the communicator.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/nccl/communicator.h"
#include "tests/nccl/processes.h"

namespace shardlab::nccl {

using Texts = std::vector<std::string>;
using Values = std::vector<double>;
using Lengths64 = std::vector<std::int64_t>;

/// Seen by all processes of a test.
struct Shared {
  UniqueId id;
  mutable std::atomic<int> failed_rank;  ///< + 1
  std::atomic<int> turn;
};
Shared& shared();

/// Hears of failures, and reports them, through memory that all processes see.
class SharedPeers final : public Peers {
 public:
  /// On the rank that fails; tell() is called on any thread.
  explicit SharedPeers(const Shared& common);
  std::optional<Error> failure() const override;
  void tell(const Error&) const override;
  [[noreturn]] void end_process(const std::string& what) const override;

 private:
  const Shared& common_;
  const int rank_;
};

/// NCCL's collectives that have been called in this process.
struct Counts {
  int all_reduce = 0;
  int all_gather = 0;
  int reduce_scatter = 0;
  int send = 0;
  int refused = 0;        ///< of the following all_reduces
  int float_extrema = 0;  ///< of NCCL's own, which leave NaN out
  int elsewhere = 0;      ///< all_reduces by another thread than the rank's
  int sent_elsewhere = 0;
};
Counts& counts();
/// Called by each all_reduce, in its group.
std::function<void()>& on_all_reduce();
/// The double's functions, counted.
Api counting_api();

/// One rank's process: its session, its group of all, and a list of faults.
struct Rank {
  Shared& common;
  std::int64_t rank;
  std::int64_t size;
  Communicator& world;
  Comm comm;  ///< of the world
  Session& session;
  std::string wrong;

  void check(bool right, std::string_view what);
};

/// Runs `body` on ranks with a patience of half a second; returns the complaints of each, by rank.
Texts on_nccl_ranks(int ranks, Lengths64 hosts, const std::function<void(Rank&)>& body);
/// All on one host.
Texts on_nccl_ranks(int ranks, const std::function<void(Rank&)>& body);

UniqueId double_id();
/// Sums four ones over the group, and waits for them.
void reduce_ones(Communicator& group);
/// Until other ranks have said so as often.
void await_turn(const Rank& me, int turn);
/// The texts of all ranks, one line each; empty when no rank has one.
std::string joined(const Texts& texts);

}  // namespace shardlab::nccl
