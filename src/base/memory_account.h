// memory_account.h - bytes that one rank holds, by purpose (B-15). Every Storage counts in full, as
// a device of the rank alone would hold it; physical memory may be less, since ranks share Buffers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/rank_context.h"

namespace shardlab {

/// The purpose of held memory: of several purposes the first one counts.
enum class HeldFor : std::uint8_t {
  kInput,          ///< parameters and inputs of the program
  kGradient,       ///< accumulated in leaves
  kBackward,       ///< kept by the tape, until backward has run
  kGathered,       ///< put together from pieces of other ranks
  kCommunication,  ///< made for a collective, and not its result
  kOther,          ///< results of ops, temporaries, gradients on their way
};
/// The number of values of HeldFor: tables by purpose have this size.
inline constexpr std::size_t kHeldForCount = 6;
/// "parameters and inputs", "gradients", "kept for backward", ...
std::string_view to_string(HeldFor purpose);
/// For files and JSON: "inputs", "gradients", "kept_for_backward", "gathered", "communication",
/// "temporaries".
std::string_view key_of(HeldFor purpose);

/// Bytes by purpose.
using HeldBytes = std::array<std::int64_t, kHeldForCount>;

struct MemoryAccount;

/// Called on the account's rank, after the account has changed.
class MemoryListener {
 public:
  virtual ~MemoryListener() = default;
  /// Memory was made, dropped or changed its purpose. Called in the middle of that: it must not
  /// make or drop tensors, and must not throw.
  virtual void changed(const MemoryAccount& account) = 0;
};

/// One rank's account. Outlives every Storage made on that rank, and is used by it alone.
struct MemoryAccount {
  /// Bytes that the rank holds now: the sum of `held`. A Storage counts once, under one purpose.
  std::int64_t held_bytes = 0;
  HeldBytes held{};
  HeldFor making = HeldFor::kOther;  ///< the purpose of Storages that are made now
  bool inside_kernel = false;        ///< a KernelScope lives
  /// An op has read a tensor that requires a gradient. A leaf that is made from now on is not a
  /// parameter of the program but a result that it cuts off, as recomputation does.
  bool parameters_read = false;
  MemoryListener* listener = nullptr;  ///< may be null

  // The first moment since begin() at which most was held.
  std::int64_t peak_bytes = 0;
  HeldBytes at_peak{};
  HeldBytes most{};              ///< for each purpose, each at its own time
  SourcePosition peak_position;  ///< in backward that of the op whose gradient ran
  Pass peak_pass = Pass::kForward;

  /// Whether a Storage that is made right now counts.
  bool counts() const { return !inside_kernel || making != HeldFor::kOther; }
  /// `bytes` more (or less, when negative) are held.
  void add(HeldFor purpose, std::int64_t bytes);
  /// Bytes held for `from` are now held for `to`.
  void move(HeldFor from, HeldFor to, std::int64_t bytes);
  /// The program begins: forgets the peak, the bytes held now are the most.
  void begin();

 private:
  // Takes the bytes held now as the peak, with the place of the program where the rank is.
  void note_peak();
};

/// While one lives, nothing that the running rank, if there is one, makes counts: it belongs to an
/// observer, to a kernel, or to all ranks.
class UncountedScope {
 public:
  UncountedScope();
  ~UncountedScope();
  UncountedScope& operator=(UncountedScope&&) = delete;

 private:
  RankContext* rank_;
  MemoryAccount* account_ = nullptr;
};

/// While one lives, memory that ops of the running rank make does not count: values on the way
/// inside of one kernel. Memory that communication makes counts.
class KernelScope {
 public:
  KernelScope();
  ~KernelScope();
  KernelScope& operator=(KernelScope&&) = delete;

 private:
  MemoryAccount* account_;
  bool before_ = false;
};

/// While one lives, Storages of the running rank are made for this purpose; inside of another one,
/// for the purpose of that one.
class MakingScope {
 public:
  /// Does nothing where no rank runs or its memory is not counted.
  explicit MakingScope(HeldFor purpose);
  ~MakingScope();
  MakingScope& operator=(MakingScope&&) = delete;

 private:
  MemoryAccount* account_;
  HeldFor before_ = HeldFor::kOther;
};

}  // namespace shardlab
