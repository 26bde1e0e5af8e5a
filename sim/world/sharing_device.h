// sharing_device.h - a device for all ranks of a world that runs equal kernels once. Two launches
// are equal when kernel, plain arguments, position, draw and outputs are, and every input is the
// same piece of the same Buffer: replicas, since ranks share the Buffers of equal values. The other
// ranks get the Buffer of the result; a rank that writes to it later copies it first.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "tensor/device.h"

namespace shardlab {

/// Launches of kernels. Equal on every scheduler as long as the results that wait for other ranks
/// stay below a fixed number of bytes.
struct SharingStats {
  std::int64_t run = 0;
  std::int64_t shared = 0;  ///< of further ranks, which took the result of a run
};

/// Whether equal kernels run once.
enum class KernelSharing : std::uint8_t { kOff, kOn };

/// Around a device that has data; thread-safe as far as that one is. Launches from outside of ranks
/// and those that write to their inputs are never shared.
class SharingDevice final : public Device {
 public:
  /// `device` outlives this.
  SharingDevice(Device& device, std::int64_t ranks);
  ~SharingDevice() override;

  std::string_view type() const override { return device_.type(); }
  BufferRef allocate(std::size_t size_bytes) override { return device_.allocate(size_bytes); }
  /// On the rank that comes first; others wait for it and take its result, or run it themselves if
  /// it failed or was removed. Fails as the device does.
  void run(const KernelCall& call) override;
  void copy(const Tensor& dst, const Tensor& src) override { device_.copy(dst, src); }
  void read(const Tensor& src, void* out) override { device_.read(src, out); }
  void write(const Tensor& dst, const void* data) override { device_.write(dst, data); }
  MemoryUse memory() const override { return device_.memory(); }

  /// Since this was made.
  SharingStats stats() const;

 private:
  // One kernel that some rank runs or has run, kept until all ranks have passed it.
  struct Launch;
  using Launches = std::list<Launch>;

  // A launch is run without sharing, or as the first of its equals, or takes the result of one that
  // was: take() returns false if it could not.
  void run_alone(const KernelCall& call);
  void run_first(const KernelCall& call, Launches::iterator launch);
  bool take(const KernelCall& call, Launches::iterator launch, std::unique_lock<std::mutex>& lock);
  Launches::iterator find(std::uint64_t hash, const std::vector<std::uint64_t>& key);
  void erase(Launches::iterator launch);
  void let_go();

  // Not owned; it makes all Buffers, so that results outlive this object.
  Device& device_;
  std::unique_ptr<std::atomic<std::int64_t>[]> steps_;  // of each rank: the op it is in
  // A launch that all ranks have passed is removed; the present op of each rank decides that.
  const std::int64_t ranks_;
  std::atomic<std::int64_t> run_{0};
  std::atomic<std::int64_t> shared_{0};

  std::mutex mutex_;  // guards the following
  std::condition_variable ended_;
  Launches launches_;  // by age
  std::unordered_multimap<std::uint64_t, Launches::iterator> by_hash_;
  std::int64_t held_bytes_ = 0;
  std::size_t let_go_at_ = 0;  // launches
};

}  // namespace shardlab
