// On a device with streams, collectives and kernels are ordered by events and the host never waits;
// in host memory the host waits itself.
#include "backends/nccl/local_side.h"

#include <utility>

#include "backends/nccl/library.h"

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
  void order(const backends::Ordering& work) override { backends::order(work); }
  void watch(backends::StreamWatch) override {}
};

class StreamSide final : public LocalSide {
 public:
  explicit StreamSide(backends::StreamDevice& device) : device_(device) {}
  // Devices outlive runs.
  ~StreamSide() override {
    device_.watch(nullptr);
    if (so_far_ != nullptr) api_.EventDestroy(so_far_);
  }

  Waits waits() const override { return Waits::kStream; }
  void order_before(const Api& api, Stream collectives) override {
    if (so_far_ == nullptr) {
      api_ = api;
      check(api, api.EventCreateWithFlags(&so_far_, kEventDisableTiming), "cudaEventCreate", 0);
    }
    check(api, api.EventRecord(so_far_, stream()), "cudaEventRecord", 0);
    check(api, api.StreamWaitEvent(collectives, so_far_, 0), "cudaStreamWaitEvent", 0);
  }
  void order_after(const Api& api, Event done) override {
    check(api, api.StreamWaitEvent(stream(), done, 0), "cudaStreamWaitEvent", 0);
  }
  void reduce(const backends::Reduction& work) override { device_.combine(work); }
  void order(const backends::Ordering& work) override { device_.order(work); }
  void watch(backends::StreamWatch watch) override { device_.watch(std::move(watch)); }

 private:
  Stream stream() const { return static_cast<Stream>(device_.stream()); }

  backends::StreamDevice& device_;
  Api api_;  // a copy: a side outlives the session that calls it
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
