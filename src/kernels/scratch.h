// scratch.h - the inputs and outputs of one kernel call in working memory.
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "kernels/convert.h"
#include "kernels/element_types.h"
#include "kernels/strided_loop.h"

namespace shardlab {

/// Uninitialised elements of a compute type.
template <typename T>
using Scratch = std::unique_ptr<T[]>;
template <typename T>
Scratch<T> scratch(std::int64_t count) {
  return std::make_unique_for_overwrite<T[]>(static_cast<std::size_t>(count));
}

/// Calls run(T{}) with double or, for complex tensors, std::complex<double>.
void with_wide_type(const Tensor& self, auto&& run) {
  if (is_complex(self.dtype())) return run(std::complex<double>{});
  run(double{});
}

/// |value|^2 of such a number.
inline double squared_magnitude(double value) { return value * value; }
inline double squared_magnitude(std::complex<double> value) { return std::norm(value); }

/// A tensor's elements in row-major order as T: the tensor's own memory where it already is that,
/// else a converted copy.
template <typename T>
class RowMajor {
 public:
  explicit RowMajor(const Tensor& tensor) {
    if (tensor.dtype() == dtype_of<T>() && tensor.contiguous()) {
      data_ = reinterpret_cast<const T*>(readable_bytes(tensor));
      return;
    }
    copy_ = scratch<T>(tensor.numel());
    data_ = copy_.get();
    load_row_major(copy_.get(), dtype_of<T>(), tensor);
  }
  const T* data() const { return data_; }

 private:
  const T* data_ = nullptr;
  Scratch<T> copy_;
};

/// Memory in which a kernel computes its output in row-major order as T: the output itself where it
/// is that, else a scratch that store() converts.
/// store() must be called once the elements are computed.
template <typename T>
class RowMajorOutput {
 public:
  explicit RowMajorOutput(const Tensor& tensor) : tensor_(tensor) {
    if (tensor.dtype() == dtype_of<T>() && tensor.contiguous()) {
      data_ = reinterpret_cast<T*>(writable_bytes(tensor));
      return;
    }
    copy_ = scratch<T>(tensor.numel());
    data_ = copy_.get();
  }
  T* data() const { return data_; }
  void store() const {
    if (copy_) store_row_major(tensor_, copy_.get(), dtype_of<T>());
  }

 private:
  const Tensor& tensor_;
  T* data_ = nullptr;
  Scratch<T> copy_;
};

}  // namespace shardlab
