// fiber_stack.h - stacks for fibers: mapped on demand, with a guard below, used again.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "sim/schedule/sanitizer.h"

namespace shardlab {

/// Owns all stacks. One thread at a time.
class StackPool {
 public:
  /// `size_bytes` is rounded up to whole pages.
  explicit StackPool(std::size_t size_bytes);
  ~StackPool();
  StackPool& operator=(StackPool&&) = delete;

  /// Makes at least `count` stacks. Fails with Runtime naming the limit on memory maps (each stack
  /// takes two) when the system refuses.
  void reserve(std::size_t count);
  std::size_t size() const { return bottoms_.size(); }
  /// Returns the memory of the first `count` stacks to the system and keeps their maps: their
  /// contents are lost. Takes time in proportion to `count`, not to the size of the pool.
  void forget(std::size_t count);
  /// Size of each; in builds with a sanitizer larger than requested.
  std::size_t stack_bytes() const { return size_bytes_; }
  /// True when this address is in a guard: a write over the end of a stack touches it.
  bool in_guard(const void* address) const;
  /// Tops differ by less than a page, so that the frames of many suspended ranks do not compete for
  /// the same few cache lines.
  FiberStack stack(std::size_t index) const {
    return {bottoms_[index], size_bytes_ - index % kColors * kColorBytes};
  }

 private:
  // Makes the entries of stacks in the tables of pages not adjacent.
  static constexpr std::size_t kOddPages = 9;
  static constexpr std::size_t kLeastGuardBytes = std::size_t{16} << 20;
  static constexpr std::size_t kColors = 12;
  static constexpr std::size_t kColorBytes = 320;

  std::size_t page_bytes_;
  std::size_t size_bytes_;
  std::size_t guard_bytes_;
  std::vector<std::byte*> bottoms_;
  struct Slab {
    void* map;
    std::size_t size_bytes;
  };
  std::vector<Slab> slabs_;
};

/// The stacks of one world: those of an earlier one, if it has ended and had stacks of this size,
/// else new ones. Worlds follow one another in a process, and mapping and unmapping stacks takes
/// most of the time of a short world. Worlds may begin and end on any thread.
class LentStacks {
 public:
  explicit LentStacks(std::size_t size_bytes);
  ~LentStacks();
  LentStacks& operator=(LentStacks&&) = delete;

  /// The same members as StackPool's.
  void reserve(std::size_t count);
  FiberStack stack(std::size_t index) const { return pool_->stack(index); }

 private:
  const std::size_t size_bytes_;
  std::unique_ptr<StackPool> pool_;
  std::size_t used_ = 0;  // of the pool's stacks, the first ones
};

}  // namespace shardlab
