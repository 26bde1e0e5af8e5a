// ref.h - an intrusive counted pointer. The count is atomic, because Buffers and finished results
// are shared between ranks; on one rank it is never contended. While the process has one thread,
// counting takes plain instructions: a dispatched op counts some twenty times.
#pragma once

#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#endif

#include <atomic>
#include <cstdint>
#include <utility>

namespace shardlab {

/// True only if there never was another thread; the C library reports it.
inline bool single_threaded() {
#if __has_include(<sys/single_threaded.h>)
  return __libc_single_threaded != 0;
#else
  return false;
#endif
}

/// Base of counted objects. The last reference calls the virtual destructor.
class Counted {
 public:
  // An object that others refer to keeps its address for its whole life.
  Counted& operator=(Counted&&) = delete;

  /// Called by Ref only. release() destroys the object with the last reference.
  void retain() const {
    if (single_threaded()) {
      count_.store(count_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    } else {
      count_.fetch_add(1, std::memory_order_relaxed);
    }
  }
  /// The last drop sees all that other threads wrote before theirs (acquire and release).
  void drop() const {
    if (single_threaded()) {
      const std::int64_t left = count_.load(std::memory_order_relaxed) - 1;
      count_.store(left, std::memory_order_relaxed);
      if (left == 0) destroy();
    } else if (count_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      destroy();
    }
  }
  /// Meaningful only to the holder of a reference: 1 means that it is the only one.
  std::int64_t use_count() const { return count_.load(std::memory_order_acquire); }

 protected:
  // Runs on the thread that dropped the last reference, whichever that is.
  virtual ~Counted() = default;
  /// For objects placed in memory of their own.
  virtual void destroy() const { delete this; }

 private:
  // Number of Refs. Counting is allowed on a const object: it does not change its value.
  mutable std::atomic<std::int64_t> count_{0};
};

/// A counted reference, null by default. Copying counts, moving does not. Copies of one Ref may be
/// on different threads; one Ref object is used by one thread at a time.
template <typename T>
class Ref {
 public:
  Ref() = default;
  /// A null Ref, so that `nullptr` may be given wherever a Ref is wanted.
  Ref(std::nullptr_t) {}
  /// Takes part in owning `object`, which was made by new or lives in memory of its own.
  explicit Ref(T* object) : object_(object) {
    if (object_) object_->retain();
  }
  /// Another owner of the same object. The second form takes a Ref to a derived class; from a base
  /// class to a derived one there is no conversion.
  Ref(const Ref& other) : Ref(other.object_) {}
  template <typename U>
  Ref(const Ref<U>& other) : Ref(other.get()) {}
  /// Leaves `other` null.
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  /// Takes a value, which serves copies, moves and a Ref that is assigned to itself. The object
  /// held before is dropped last: it may hold the only other reference to the object that replaces
  /// it.
  Ref& operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() {
    if (object_) object_->drop();
  }

  /// Valid as long as some Ref to the object lives; null for a null Ref.
  T* get() const { return object_; }
  T* operator->() const { return object_; }
  T& operator*() const { return *object_; }
  /// False for a null Ref, which must not be followed.
  explicit operator bool() const { return object_ != nullptr; }
  /// True for the same object, whatever its value.
  friend bool operator==(const Ref& a, const Ref& b) { return a.object_ == b.object_; }

 private:
  T* object_ = nullptr;
};

/// A new object with its first reference.
template <typename T, typename... Args>
Ref<T> make_ref(Args&&... args) {
  return Ref<T>(new T(std::forward<Args>(args)...));
}

}  // namespace shardlab
