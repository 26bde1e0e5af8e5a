// On a device with streams, collectives and kernels are ordered by events.
#include "backends/nccl/local_side.h"

#include "backends/nccl/library.h"

namespace shardlab::nccl {

// Devices outlive runs.
LocalSide::~LocalSide() {
  watch(nullptr);
  if (so_far_ != nullptr) api_.EventDestroy(so_far_);
}

void LocalSide::order_before(const Api& api, Stream collectives) {
  if (device_ == nullptr) return;
  if (so_far_ == nullptr) {
    api_ = api;
    check(api, api.EventCreateWithFlags(&so_far_, kEventDisableTiming), "cudaEventCreate", 0);
  }
  check(api, api.EventRecord(so_far_, stream()), "cudaEventRecord", 0);
  check(api, api.StreamWaitEvent(collectives, so_far_, 0), "cudaStreamWaitEvent", 0);
}

void LocalSide::order_after(const Api& api, Event done) {
  check(api, api.StreamWaitEvent(stream(), done, 0), "cudaStreamWaitEvent", 0);
}

}  // namespace shardlab::nccl
