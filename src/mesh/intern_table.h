// intern_table.h - one object per value, at a stable address, for as long as the table lives.
// Lookups take no lock; inserting takes the lock of its bucket. Thread-safe.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace shardlab {

/// Objects are never removed, so that an address identifies a value for the life of the table.
template <typename T>
class InternTable {
 public:
  /// `buckets` is a power of two. It does not grow: chains get longer with millions of objects.
  explicit InternTable(std::size_t buckets) : heads_(buckets) {}
  InternTable& operator=(InternTable&&) = delete;
  ~InternTable() {
    for (auto& head : heads_) {
      for (const Node* node = head.load(std::memory_order_relaxed); node != nullptr;) {
        delete std::exchange(node, node->next);
      }
    }
  }

  /// The object with this hash for which `equal(object)` holds, or null.
  template <typename Equal>
  const T* find(std::uint64_t hash, const Equal& equal) const {
    const Node* node = heads_[bucket_of(hash)].load(std::memory_order_acquire);
    for (; node != nullptr; node = node->next) {
      if (node->hash == hash && equal(*node->object)) return node->object.get();
    }
    return nullptr;
  }

  /// find, or the result of `make()` (a unique_ptr<const T>) when there is none yet.
  template <typename Equal, typename Make>
  const T* find_or_insert(std::uint64_t hash, const Equal& equal, const Make& make) {
    if (const T* found = find(hash, equal)) return found;
    const std::size_t bucket = bucket_of(hash);
    const std::lock_guard lock(locks_[bucket % kLocks]);
    if (const T* found = find(hash, equal)) return found;
    auto& head = heads_[bucket];
    const Node* node = new Node{hash, make(), head.load(std::memory_order_relaxed)};
    head.store(node, std::memory_order_release);
    count_.fetch_add(1, std::memory_order_relaxed);
    return node->object.get();
  }

  /// Calls visit(object) for each present object, in no order. Objects that are added
  /// meanwhile may be missed.
  template <typename Visit>
  void visit(const Visit& visit) const {
    for (const auto& head : heads_) {
      const Node* node = head.load(std::memory_order_acquire);
      for (; node != nullptr; node = node->next) visit(*node->object);
    }
  }

  /// Number of objects.
  std::size_t size() const { return count_.load(std::memory_order_relaxed); }

 private:
  static constexpr std::size_t kLocks = 64;
  struct Node {
    std::uint64_t hash;
    std::unique_ptr<const T> object;
    const Node* next;
  };

  std::size_t bucket_of(std::uint64_t hash) const { return hash & (heads_.size() - 1); }

  std::vector<std::atomic<const Node*>> heads_;
  std::array<std::mutex, kLocks> locks_;
  std::atomic<std::size_t> count_{0};
};

}  // namespace shardlab
