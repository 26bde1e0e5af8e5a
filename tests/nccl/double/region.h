// region.h - the memory that the ranks of one communicator share: a ring of bytes for every ordered
// pair of ranks, a bell for every rank, and the first failure. Other processes of this host see it
// through the file descriptor of its maker, so that nothing outlives them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shardlab::nccl_double {

inline constexpr int kMaxRanks = 64;
inline constexpr std::size_t kRingBytes = std::size_t{1} << 16;

/// Names a region to other processes.
struct RegionName {
  std::int32_t process = 0;
  std::int32_t descriptor = -1;
};

/// A rank's entry for a split. Two of them in turn: no rank is two splits ahead of another.
struct SplitEntry {
  std::int32_t color = 0;
  std::int32_t key = 0;
  RegionName made;                      // by the first rank of the new communicator
  std::atomic<std::uint64_t> entered;   // number of the split, from 1
  std::atomic<std::uint64_t> made_for;  // number of the split that `made` belongs to
};

/// One direction between two ranks. The sender writes at `written`, the receiver reads at `read`.
struct Ring {
  std::atomic<std::uint64_t> written;
  std::atomic<std::uint64_t> read;
  std::byte bytes[kRingBytes];
};

struct RegionHead {
  std::atomic<std::int32_t> ranks;      // 0: nobody has attached
  std::atomic<std::uint64_t> attached;  // bit by rank
  std::atomic<std::uint32_t> failed;    // 1: text is being written, 2: it is complete
  char text[512];
  std::atomic<std::uint64_t> ended;  // bit by rank: aborted or destroyed
  std::atomic<std::int32_t> process[kMaxRanks];
  std::atomic<std::uint64_t> node[kMaxRanks];   // equal on ranks of one host
  std::atomic<std::int32_t> device[kMaxRanks];  // + 1
  std::atomic<std::uint32_t> bell[kMaxRanks];
  SplitEntry split[2][kMaxRanks];
  // Counts of a rank's arrivals to make connections: for a call of all ranks; as the sender (first
  // index) and as the receiver of a pair.
  std::atomic<std::uint32_t> came[kMaxRanks];
  std::atomic<std::uint32_t> came_to_send[kMaxRanks][kMaxRanks];
  std::atomic<std::uint32_t> came_to_receive[kMaxRanks][kMaxRanks];
};

/// One process's view. All functions may be called by any thread; a ring has one writer and one
/// reader.
class Region {
 public:
  /// A new one, not yet sized; for the process that hands out its name.
  static RegionName make();
  /// Fails with a text when the name leads nowhere or another size was asked for by others.
  static std::string attach(RegionName name, int ranks, Region& region);

  Region() = default;
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;
  ~Region();

  RegionHead& head() const { return *head_; }
  Ring& ring(int from, int to) const { return rings_[from * ranks_ + to]; }
  int ranks() const { return ranks_; }

  /// Wakes the waiter on the bell of `rank`.
  void wake(int rank) const;
  void wake_all() const;
  std::uint32_t bell(int rank) const;
  /// Returns when the bell has rung since `seen`, or a little later.
  void await_bell(int rank, std::uint32_t seen) const;

  /// Whether a rank has attached, and has ended or died since: then it closes its connections.
  bool has_left(int rank) const;
  /// Ranks of the node of `rank` that have attached, have not ended, and whose processes live.
  std::vector<int> left_on_node(int rank) const;

  /// The first failure counts; all ranks see it.
  void fail(std::string_view text) const;
  bool failed() const;
  std::string failure() const;

 private:
  RegionHead* head_ = nullptr;
  Ring* rings_ = nullptr;
  int ranks_ = 0;
  std::size_t size_ = 0;
};

}  // namespace shardlab::nccl_double
