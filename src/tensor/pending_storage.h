// pending_storage.h - memory that a pending result will fill, of which a program may ask whether
// the result has come.
#pragma once

#include <utility>

#include "tensor/tensor.h"

namespace shardlab {

class PendingStorage final : public Storage {
 public:
  PendingStorage() : Storage(BufferRef{}) {}
  /// The same as set_pending(); the work lives as long as the result is pending.
  void await(Ref<Work> work) {
    work_ = work.get();
    set_pending(std::move(work));
  }
  /// Whether buffer() would return at once. Never waits; on the rank of the storage.
  static bool done(Storage& storage) {
    if (!storage.pending()) return true;
    const auto* pending = dynamic_cast<PendingStorage*>(&storage);
    return pending != nullptr && pending->work_->done();
  }

 private:
  const Work* work_ = nullptr;
};

}  // namespace shardlab
