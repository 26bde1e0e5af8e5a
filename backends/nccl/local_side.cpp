// On a device with streams, collectives and kernels are ordered by events and the host never waits;
// in host memory the host waits itself.
#include "backends/nccl/local_side.h"

#include <utility>

#include "backends/nccl/library.h"
#include "backends/shared/stream_device.h"

namespace shardlab::nccl {

namespace {

class HostSide final : public LocalSide {
 public:
  Waits waits() const override { return Waits::kHost; }
  void order_before(const Api&, Stream) override {}
  void order_after(const Api&, Event) override {
    check_invariant(false, "the host waits by itself");
  }
  void reduce(const backends::Reduction& work) override { backends::reduce(work); }
  void check_after_wait(std::function<void()>) override {}
};

class StreamSide final : public LocalSide {
 public:
  explicit StreamSide(backends::StreamDevice& device) : device_(device) {}
  // Devices outlive runs; the event goes with the process.
  ~StreamSide() override { device_.check_after_wait(nullptr); }

  Waits waits() const override { return Waits::kStream; }
  void order_before(const Api& api, Stream collectives) override {
    if (so_far_ == nullptr) {
      check(api, api.EventCreateWithFlags(&so_far_, kEventDisableTiming), "cudaEventCreate", 0);
    }
    check(api, api.EventRecord(so_far_, stream()), "cudaEventRecord", 0);
    check(api, api.StreamWaitEvent(collectives, so_far_, 0), "cudaStreamWaitEvent", 0);
  }
  void order_after(const Api& api, Event done) override {
    check(api, api.StreamWaitEvent(stream(), done, 0), "cudaStreamWaitEvent", 0);
  }
  void reduce(const backends::Reduction& work) override { device_.combine(work); }
  void check_after_wait(std::function<void()> check) override {
    device_.check_after_wait(std::move(check));
  }

 private:
  Stream stream() const { return static_cast<Stream>(device_.stream()); }

  backends::StreamDevice& device_;
  Event so_far_ = nullptr;
};

}  // namespace

std::unique_ptr<LocalSide> make_local_side(Device& device) {
  if (backends::StreamDevice* streaming = backends::stream_of(device)) {
    return std::make_unique<StreamSide>(*streaming);
  }
  return std::make_unique<HostSide>();
}

}  // namespace shardlab::nccl
