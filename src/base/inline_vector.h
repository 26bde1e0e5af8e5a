// inline_vector.h - a vector of trivially copyable elements that keeps up to N of them in place.
// Shapes, strides and coordinates are kept in it, so that dispatch allocates nothing for them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <span>
#include <type_traits>

#include "base/error.h"

namespace shardlab {

/// Grows like std::vector behind its N places and never shrinks. Indices are checked in all builds:
/// a shape of another rank than expected is an error (OutOfRange), not a read of other memory.
/// Copying fixed N places is cheaper than asking how many are in use, so that N stays small.
/// Values; not for two threads at once.
template <typename T, std::size_t N>
class InlineVector {
  static_assert(std::is_trivially_copyable_v<T>, "elements are moved with memcpy");

 public:
  // Names that algorithms and std::span look for.
  using value_type = T;
  using iterator = T*;
  using const_iterator = const T*;
  using size_type = std::size_t;

  /// Without entries. The N places are not initialised: they cost nothing until they are used. A
  /// defaulted constructor would have `{}` write zeros to all of them first.
  InlineVector() {}
  /// `count` entries of `value`.
  explicit InlineVector(std::size_t count, T value = T{}) { resize(count, value); }
  InlineVector(std::initializer_list<T> list) { assign(list.begin(), list.end()); }
  /// A copy of the range, which is walked twice: once to count, once to copy.
  template <std::forward_iterator It>
  InlineVector(It first, It last) {
    assign(first, last);
  }
  /// A copy of the span's entries at this time; the span may end afterwards.
  explicit InlineVector(std::span<const T> other) { assign(other.begin(), other.end()); }
  /// Entries are copied; the memory is this vector's own.
  InlineVector(const InlineVector& other) { copy(other); }
  /// Leaves `other` empty. References to entries in place do not follow.
  InlineVector(InlineVector&& other) noexcept { take(other); }
  InlineVector& operator=(const InlineVector& other) {
    if (this != &other) copy(other);
    return *this;
  }
  InlineVector& operator=(InlineVector&& other) noexcept {
    if (this != &other) {
      release();
      take(other);
    }
    return *this;
  }
  ~InlineVector() { release(); }

  /// Replaces the contents. The range must not be part of this vector.
  template <std::forward_iterator It>
  void assign(It first, It last) {
    const auto count = static_cast<std::size_t>(std::distance(first, last));
    reserve(count);
    std::copy(first, last, data_);
    size_ = static_cast<std::uint32_t>(count);
  }

  /// Replaces the contents by `count` entries of `value`.
  void assign(std::size_t count, T value) {
    clear();
    resize(count, value);
  }

  /// Number of entries; up to N of them are in the object itself.
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  /// Valid until the vector grows beyond its places, is moved or dropped.
  T* data() { return data_; }
  const T* data() const { return data_; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  ///   fails  OutOfRange: `i` is not less than size(); the same of the ends of an empty vector.
  T& operator[](std::size_t i) { return data_[checked(i)]; }
  const T& operator[](std::size_t i) const { return data_[checked(i)]; }
  T& front() { return data_[checked(0)]; }
  const T& front() const { return data_[checked(0)]; }
  T& back() { return data_[checked(size_ - std::size_t{1})]; }
  const T& back() const { return data_[checked(size_ - std::size_t{1})]; }

  /// Keeps the memory.
  void clear() { size_ = 0; }
  /// Room for `count` entries, which invalidates references where there was less.
  void reserve(std::size_t count) {
    if (count > capacity_) grow(count);
  }
  /// New places get `value`.
  void resize(std::size_t count, T value = T{}) {
    reserve(count);
    for (std::size_t i = size_; i < count; ++i) data_[i] = value;
    size_ = static_cast<std::uint32_t>(count);
  }
  /// Takes a value, so that an entry of this vector may be added to it.
  void push_back(T value) {
    if (size_ == capacity_) grow(size_ + 1);
    data_[size_++] = value;
  }
  /// Removes the last entry; there must be one.
  void pop_back() { --size_; }
  /// Places from `position` on move up by one.
  void insert(std::size_t position, T value) {
    push_back(value);
    std::rotate(begin() + position, end() - 1, end());
  }
  /// Places behind `position` move down by one.
  void erase(std::size_t position) {
    std::copy(begin() + position + 1, end(), begin() + position);
    --size_;
  }

  /// For functions that take sizes of any origin; valid as data() is.
  operator std::span<const T>() const { return {data_, size_}; }

  /// Entry by entry; capacity does not count.
  friend bool operator==(const InlineVector& a, const InlineVector& b) {
    return a.size_ == b.size_ && std::equal(a.begin(), a.end(), b.begin());
  }

 private:
  std::size_t checked(std::size_t i) const {
    if (i >= size_) [[unlikely]] {
      out_of_range(i, size_);
    }
    return i;
  }
  // Entries of the other that fit are copied in place, whatever this one has: its memory is kept
  // for later.
  void copy(const InlineVector& other) {
    if (other.size_ > N) return assign(other.begin(), other.end());
    copy_places(other.data_, data_);
    size_ = other.size_;
  }
  // All N, of which the first ones are in use: a few fixed moves instead of a call of memmove.
  static void copy_places(const T* from, T* to) {
#ifndef __clang__  // clang does not have the first warning
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
    std::memcpy(to, from, N * sizeof(T));
#ifndef __clang__
#pragma GCC diagnostic pop
#endif
  }
  // At least twice the room, so that adding n entries one by one copies less than 2 n of them.
  void grow(std::size_t count) {
    const std::size_t capacity = std::max<std::size_t>(count, 2 * capacity_);
    T* fresh = new T[capacity];
    std::copy(begin(), end(), fresh);
    const auto size = size_;
    release();
    data_ = fresh;
    size_ = size;
    capacity_ = static_cast<std::uint32_t>(capacity);
  }
  void release() {
    if (data_ != inline_) free_memory();
    size_ = 0;
  }
  // Rare, and kept out of every destructor.
  [[gnu::noinline, gnu::cold]] void free_memory() {
    delete[] data_;
    data_ = inline_;
    capacity_ = N;
  }
  // This one holds nothing and has no memory of its own.
  void take(InlineVector& other) {
    if (other.data_ == other.inline_) {
      copy_places(other.inline_, inline_);
      size_ = other.size_;
    } else {
      data_ = other.data_;
      size_ = other.size_;
      capacity_ = other.capacity_;
      other.data_ = other.inline_;
      other.capacity_ = N;
    }
    other.size_ = 0;
  }

  // inline_, or memory of this vector alone with `capacity_` places. While entries are in place it
  // points into the vector itself, so that moving one is more than copying its members.
  T* data_ = inline_;
  std::uint32_t size_ = 0;
  std::uint32_t capacity_ = N;
  T inline_[N];
};

/// Sizes, strides or offsets, one per tensor dim or mesh dim, in elements.
using Dims = InlineVector<std::int64_t, 5>;

/// Product of all entries; 1 for none; the largest number where it does not fit.
inline std::int64_t product(std::span<const std::int64_t> sizes) {
  std::int64_t result = 1;
  bool fits = true;
  for (const std::int64_t size : sizes) {
    if (size == 0) return 0;
    fits &= !__builtin_mul_overflow(result, size, &result);
  }
  return fits ? result : std::numeric_limits<std::int64_t>::max();
}

}  // namespace shardlab
