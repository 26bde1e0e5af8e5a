// in_use.h - an entry of a cache that all ranks share, or a part of one, while a rank uses it. It
// is not freed before then, however many others the cache takes in meanwhile: a rank may wait for
// others in the middle of an op, and keeps its decision and its plan.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

namespace shardlab {

/// Used by the rank that requested it alone; does not outlive its cache. Null when there is no
/// entry.
template <typename T>
class InUse {
 public:
  InUse() = default;
  /// The end of this use adds 1 to `ended`.
  InUse(const T& value, std::atomic<std::uint64_t>& ended) : value_(&value), ended_(&ended) {}
  InUse(InUse&& other) noexcept
      : value_(std::exchange(other.value_, nullptr)),
        ended_(std::exchange(other.ended_, nullptr)) {}
  InUse& operator=(InUse other) noexcept {
    std::swap(value_, other.value_);
    std::swap(ended_, other.ended_);
    return *this;
  }
  // Ordered after all reads of the entry: it may be freed from here on.
  ~InUse() {
    if (ended_ != nullptr) ended_->fetch_add(1, std::memory_order_release);
  }

  explicit operator bool() const { return value_ != nullptr; }
  const T& operator*() const { return *value_; }
  const T* operator->() const { return value_; }

  /// A part of the same entry, as long as the entry was held.
  template <typename Part>
  InUse<Part> part(Part T::*member) && {
    return {std::exchange(value_, nullptr)->*member, *std::exchange(ended_, nullptr)};
  }

 private:
  const T* value_ = nullptr;
  std::atomic<std::uint64_t>* ended_ = nullptr;
};

}  // namespace shardlab
