// The contents of a handle are freed with the last DTensor; its memory stays for as long as it is
// watched, so that the address means this handle alone.
#include "mesh/dtensor.h"

namespace shardlab {

void DTensorImpl::destroy() const {
  if (watches_ == 0) {
    delete this;
    return;
  }
  // Only watches hold it now, and they read its count alone.
  auto& self = const_cast<DTensorImpl&>(*this);
  self.grad_node = nullptr;
  self.grad = nullptr;
  self.grad_memory = Hold();
  self.extras = nullptr;
  self.local = Tensor();
}

DTensorWatch::~DTensorWatch() {
  if (impl_ == nullptr || --impl_->watches_ > 0 || alive()) return;
  delete impl_;
}

}  // namespace shardlab
