// double_ranks.h - ranks that call the double as NCCL's users call NCCL, for tests of the double.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "tests/nccl/processes.h"

namespace shardlab::on_double {

using nccl::Api;
using nccl::Comm;
using nccl::Result;
using nccl::Stream;
using Texts = std::vector<std::string>;

/// Seen by the processes that are forked next.
struct Shared {
  nccl::UniqueId id;
  std::atomic<int> turn;
};
Shared& shared();

enum class Calls { kArePolled, kBlock };

/// One process's communicator and stream, from start to end.
struct Rank {
  Shared& common;
  const Api& api = double_api();
  int rank;
  int ranks;
  Comm comm = nullptr;
  Stream stream = nullptr;
  Result result = Result::kSuccess;
  std::vector<float> ones = std::vector<float>(16, 1.0f);
  std::vector<float> sums = std::vector<float>(16);

  Rank(Shared& shared, int ranks, int rank, int device, Calls calls = Calls::kArePolled);
  ~Rank();
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  Result poll() const { return poll(comm); }
  Result poll(Comm polled) const;
  /// Until the stream has run dry, or the communicator has failed.
  Result finish() const;
  std::string error() const { return api.GetLastError(comm); }
  /// Sums the first `count` ones, at most all.
  Result all_reduce(std::size_t count);
};

/// The texts that ranks return, and those of the double where it ends their process.
Texts on_ranks_of_double(int ranks, const std::function<std::string(Rank&)>& body,
                         Calls calls = Calls::kArePolled);

/// Waits until another rank takes this turn.
void await_turn(const Shared& common, int turn);
std::string unless(bool right, const char* what);

}  // namespace shardlab::on_double
