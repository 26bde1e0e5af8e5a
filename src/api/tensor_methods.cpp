// A method of a tensor, x.sum(), is the function of that name with x first.
#include "api/tensor_ops.h"
#include "autograd/tape.h"

namespace shardlab {

DTensor DTensor::matmul(const DTensor& other, SourceLine place) const {
  return shardlab::matmul({*this, place}, other);
}
DTensor DTensor::sum(SourceLine place) const { return shardlab::sum({*this, place}); }
DTensor DTensor::mean(SourceLine place) const { return shardlab::mean({*this, place}); }
DTensor DTensor::clone(SourceLine place) const { return shardlab::clone({*this, place}); }
Scalar DTensor::item(SourceLine place) const { return shardlab::item({*this, place}); }
DTensor DTensor::full_tensor(SourceLine place) const {
  return shardlab::full_tensor({*this, place});
}
DTensor DTensor::to_local() const { return shardlab::to_local(*this); }
DTensor DTensor::detach() const { return shardlab::detach(*this); }

const DTensor& DTensor::requires_grad_(bool required, SourceLine place) const {
  if (required) {
    require_grad({*this, place});
  } else {
    require_no_grad(*this);
  }
  return *this;
}

void DTensor::backward(SourceLine place) const { shardlab::backward({*this, place}); }
DTensor DTensor::grad() const { return grad_of(*this); }

}  // namespace shardlab
