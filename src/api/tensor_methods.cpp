// A method of a tensor, x.sum(), is the function of that name with x first.
#include "api/tensor_ops.h"
#include "autograd/tape.h"
#include "base/error.h"

namespace shardlab {

#define SHARDLAB_LIST(...) __VA_ARGS__
#define SHARDLAB_DEFAULT(value)
#define SHARDLAB_METHOD(result, name, parameters, arguments)              \
  result DTensor::name(SHARDLAB_LIST parameters SourceLine place) const { \
    return shardlab::name(Operand(*this, place) SHARDLAB_LIST arguments); \
  }
#define SHARDLAB_METHODS(name)                                        \
  SHARDLAB_METHOD(DTensor, name, (const DTensor& other, ), (, other)) \
  SHARDLAB_METHOD(DTensor, name, (Scalar other, ), (, other))
#include "mesh/tensor_methods.inc"

DTensor::operator bool() const {
  if (numel() != 1) {
    fail(Fix{"reduce it first: (a == b).amin(); a.is_same(b) compares handles"},
         "the truth of a tensor of {} elements: it must have 1", numel());
  }
  return item().to_double() != 0;
}

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
