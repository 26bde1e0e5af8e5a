// Expected values as plain tensors; widened() gives them in f64.
#include "sim/testing/reference.h"

#include "api/shardlab.h"

namespace shardlab::testing {

Reference::Reference(DTensor value) : exact(std::move(value)) {
  if (exact.distributed()) {
    throw Error(ErrorKind::kValue, "a reference is a plain tensor")
        .with("got", type_string(exact))
        .with("fix", "compare with the value before it is distributed, or full_tensor() of it");
  }
}

Reference::Reference(std::vector<double> given) : values(std::move(given)) {}

DTensor widened(const DTensor& plain) {
  if (!is_complex(plain.dtype()) && !is_floating(plain.dtype())) return plain;
  const DTensor wide = to(plain.detach(), is_complex(plain.dtype()) ? DType::kC128 : DType::kF64);
  return plain.requires_grad() ? wide.requires_grad_() : wide;
}

DTensor fresh(const DTensor& plain) {
  const DTensor copy = plain.detach().clone();
  return plain.requires_grad() ? copy.requires_grad_() : copy;
}

}  // namespace shardlab::testing
