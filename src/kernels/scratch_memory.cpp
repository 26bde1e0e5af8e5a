// The system gives large memory page by page and zeroed, and takes it back when it is freed: a
// converted matrix of 4 MiB costs a kernel call a thousand page faults. So the blocks freed last
// are kept, a bounded number of bytes of the process, for the next call that needs about as much.
#include "kernels/scratch_memory.h"

#include <mutex>
#include <new>
#include <vector>

namespace shardlab {

namespace {

constexpr std::size_t kLarge = std::size_t{256} << 10;  // below it malloc keeps freed memory
#if defined(__SANITIZE_ADDRESS__)
constexpr std::size_t kKept = 0;  // so that writes beyond its end are seen
#else
constexpr std::size_t kKept = std::size_t{32} << 20;
#endif

class ScratchStore {
 public:
  // The smallest kept one of at least so many bytes, and of less than twice as many.
  ScratchBytes take(std::size_t bytes) {
    {
      const std::lock_guard lock(mutex_);
      auto best = kept_.end();
      for (auto it = kept_.begin(); it != kept_.end(); ++it) {
        const bool fits = it->size >= bytes && it->size / 2 < bytes;
        if (fits && (best == kept_.end() || it->size < best->size)) best = it;
      }
      if (best != kept_.end()) {
        const ScratchBytes found = *best;
        kept_.erase(best);
        kept_bytes_ -= found.size;
        return found;
      }
    }
    return {::operator new(bytes), bytes};
  }

  // The blocks kept longest are freed first.
  void give(const ScratchBytes& given) {
    std::vector<ScratchBytes> freed;
    {
      const std::lock_guard lock(mutex_);
      kept_.push_back(given);
      kept_bytes_ += given.size;
      while (kept_bytes_ > kKept) {
        freed.push_back(kept_.front());
        kept_bytes_ -= kept_.front().size;
        kept_.erase(kept_.begin());
      }
    }
    for (const ScratchBytes& one : freed) ::operator delete(one.memory);
  }

 private:
  std::mutex mutex_;
  std::vector<ScratchBytes> kept_;  // the oldest first
  std::size_t kept_bytes_ = 0;
};

// Outlives every thread that may still compute when the process ends.
ScratchStore& scratch_store() {
  static ScratchStore& store = *new ScratchStore;
  return store;
}

}  // namespace

ScratchBytes take_scratch(std::size_t bytes) {
  if (bytes < kLarge) return {::operator new(bytes), bytes};
  return scratch_store().take(bytes);
}

void give_scratch(const ScratchBytes& given) noexcept {
  if (given.size < kLarge) return ::operator delete(given.memory);
  scratch_store().give(given);
}

}  // namespace shardlab
