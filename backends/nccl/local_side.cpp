#include "backends/nccl/local_side.h"

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
};

}  // namespace

std::unique_ptr<LocalSide> make_host_side() { return std::make_unique<HostSide>(); }

}  // namespace shardlab::nccl
