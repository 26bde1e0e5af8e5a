// Shared memory in an anonymous file. Waiting is a futex per rank: a waiter reads the bell, looks
// at its rings, and sleeps only if the bell has not rung since; a time limit makes up for a process
// that died without ringing.
#include "tests/nccl/double/region.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/futex.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <ctime>

namespace shardlab::nccl_double {

namespace {

constexpr long kLongestWaitNanoseconds = 20'000'000;

long futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value,
           const timespec* timeout) {
  return syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), operation, value, timeout,
                 nullptr, 0);
}

// Also true for a process that has ended and that no other has waited for.
bool gone(std::int32_t process) {
  const auto file = static_cast<int>(syscall(SYS_pidfd_open, process, 0));
  if (file < 0) return true;
  pollfd entry{file, POLLIN, 0};
  const bool over = ::poll(&entry, 1, 0) == 1;
  close(file);
  return over;
}

std::size_t head_bytes() { return (sizeof(RegionHead) + 4095) / 4096 * 4096; }

}  // namespace

RegionName Region::make() {
  return {static_cast<std::int32_t>(getpid()), memfd_create("shardlab-nccl-double", 0)};
}

std::string Region::attach(RegionName name, int ranks, Region& region) {
  const bool own = name.process == static_cast<std::int32_t>(getpid());
  const int file = own ? dup(name.descriptor)
                       : open(fmt::format("/proc/{}/fd/{}", name.process, name.descriptor).c_str(),
                              O_RDWR | O_CLOEXEC);
  if (file < 0) return fmt::format("process {} shows no such region", name.process);
  const auto count = static_cast<std::size_t>(ranks);
  const std::size_t size = head_bytes() + count * count * sizeof(Ring);
  // Every rank asks for one size; growing to it twice changes nothing. Smaller would cut others.
  struct Closer {
    int file;
    ~Closer() { close(file); }
  } closer{file};
  const off_t now = lseek(file, 0, SEEK_END);
  if (now > 0 && static_cast<std::size_t>(now) != size) return "ranks disagree about their number";
  if (ftruncate(file, static_cast<off_t>(size)) != 0) return "no shared memory";
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) return "no shared memory";
  region.head_ = static_cast<RegionHead*>(memory);
  region.rings_ = reinterpret_cast<Ring*>(static_cast<std::byte*>(memory) + head_bytes());
  region.ranks_ = ranks;
  region.size_ = size;
  return "";
}

Region::~Region() {
  if (head_ != nullptr) munmap(head_, size_);
}

void Region::wake(int rank) const {
  std::atomic<std::uint32_t>& bell = head_->bell[rank];
  bell.fetch_add(1, std::memory_order_release);
  futex(bell, FUTEX_WAKE, INT_MAX, nullptr);
}

void Region::wake_all() const {
  for (int rank = 0; rank < ranks_; ++rank) wake(rank);
}

std::uint32_t Region::bell(int rank) const {
  return head_->bell[rank].load(std::memory_order_acquire);
}

void Region::await_bell(int rank, std::uint32_t seen) const {
  const timespec timeout{0, kLongestWaitNanoseconds};
  futex(head_->bell[rank], FUTEX_WAIT, seen, &timeout);
}

bool Region::has_left(int rank) const {
  const std::uint64_t bit = 1ull << rank;
  if ((head_->attached.load() & bit) == 0) return false;
  return (head_->ended.load() & bit) != 0 || gone(head_->process[rank].load());
}

std::vector<int> Region::left_on_node(int rank) const {
  std::vector<int> left;
  const std::uint64_t attached = head_->attached.load(), ended = head_->ended.load();
  for (int other = 0; other < ranks_; ++other) {
    const std::uint64_t bit = 1ull << other;
    if ((attached & bit) == 0 || (ended & bit) != 0) continue;
    if (head_->node[other].load() != head_->node[rank].load()) continue;
    if (!gone(head_->process[other].load())) left.push_back(other);
  }
  return left;
}

void Region::fail(std::string_view text) const {
  std::uint32_t none = 0;
  if (!head_->failed.compare_exchange_strong(none, 1)) return;
  const std::size_t size = std::min(text.size(), sizeof(head_->text) - 1);
  std::memcpy(head_->text, text.data(), size);
  head_->text[size] = 0;
  head_->failed.store(2, std::memory_order_release);
  wake_all();
}

bool Region::failed() const { return head_->failed.load(std::memory_order_acquire) == 2; }

std::string Region::failure() const { return failed() ? head_->text : ""; }

}  // namespace shardlab::nccl_double
