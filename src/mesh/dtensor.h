// dtensor.h - the handle programs hold: a local tensor and, when distributed, the spec it is a
// piece of (M-14). A plain tensor is a handle without spec. Counted; in-place ops return the same
// handle.
// Used by one rank.
#pragma once

#include <memory>
#include <utility>

#include "base/source_line.h"
#include "mesh/spec.h"
#include "tensor/tensor.h"

namespace shardlab {

class GradNode;       // autograd/
class Scalar;         // tensor/scalar.h
struct TensorExtras;  // mask of a mask partial and other rare things; redistribute/

/// The state that all copies of a handle share. Changed only by its own rank: by in-place ops, by
/// autograd, and by the rebinding of D-45 and D-48.
class DTensorImpl : public Counted {
 public:
  Tensor local;
  const DTensorSpec* spec = nullptr;  ///< null: a plain tensor
  bool requires_grad = false;
  std::uint32_t output_index = 0;  ///< number of this output of grad_node
  /// A note of an observer about the value; copies of the handle keep it. The library itself never
  /// reads it.
  std::uint32_t note = 0;
  // The tape's part. The node keeps the values of forward that it needs alive, and is freed with
  // the last handle.
  Ref<Counted> grad_node;  ///< GradNode; null for leaves and untracked values
  Ref<Counted> grad;       ///< DTensorImpl: the accumulated gradient of a leaf
  Hold grad_memory;        ///< of grad
  std::shared_ptr<const TensorExtras> extras;

 protected:
  void destroy() const override;

 private:
  friend class DTensorWatch;
  mutable std::uint32_t watches_ = 0;
};

/// A reference to a DTensorImpl, null by default. Accessors other than defined() need a defined
/// handle. == is true if two handles are the same object (comparison of elements is the op eq).
class DTensor {
 public:
  DTensor() = default;
  /// A new handle, without gradient. `spec` lives in an arena that outlives it; the caller makes
  /// sure that `local` is the piece that `spec` describes.
  DTensor(Tensor local, const DTensorSpec* spec) : impl_(make_ref<DTensorImpl>()) {
    impl_->local = std::move(local);
    impl_->spec = spec;
  }
  explicit DTensor(Tensor plain) : DTensor(std::move(plain), nullptr) {}
  explicit DTensor(Ref<DTensorImpl> impl) : impl_(std::move(impl)) {}

  /// False for a null handle, which means None.
  bool defined() const { return static_cast<bool>(impl_); }
  /// False for a plain tensor.
  bool distributed() const { return impl_->spec != nullptr; }
  /// This rank's piece or term; of a plain tensor, all of it.
  const Tensor& local() const { return impl_->local; }
  /// Null for a plain tensor.
  const DTensorSpec* spec() const { return impl_->spec; }
  /// Global metadata: the spec's, or the plain tensor's own (M-14).
  const TensorMeta& meta() const { return impl_->spec ? impl_->spec->meta() : impl_->local.meta(); }
  const Dims& shape() const { return meta().shape; }
  DType dtype() const { return meta().dtype; }
  std::int64_t numel() const { return product(shape()); }
  std::size_t ndim() const { return shape().size(); }
  bool requires_grad() const { return impl_->requires_grad; }

  // The functions of these names in api/tensor_ops.h and autograd/, as PyTorch writes them as
  // methods; see there.
  DTensor matmul(const DTensor& other, SourceLine place = {}) const;
  DTensor sum(SourceLine place = {}) const;
  DTensor mean(SourceLine place = {}) const;
  DTensor clone(SourceLine place = {}) const;
  Scalar item(SourceLine place = {}) const;
  DTensor full_tensor(SourceLine place = {}) const;
  DTensor to_local() const;
  DTensor detach() const;
  const DTensor& requires_grad_(bool required = true, SourceLine place = {}) const;
  void backward(SourceLine place = {}) const;
  /// Undefined where torch gives None.
  DTensor grad() const;

  /// For the library's own parts; programs have no use for it.
  DTensorImpl* impl() const { return impl_.get(); }
  /// A separate reference that keeps the handle alive without using it.
  const Ref<DTensorImpl>& ref() const { return impl_; }
  friend bool operator==(const DTensor& a, const DTensor& b) { return a.impl_ == b.impl_; }

 private:
  Ref<DTensorImpl> impl_;
};

/// Points to a handle without keeping its contents: when the last DTensor is dropped, the pieces
/// are freed. Until the watch ends no other handle has the same address. Used by the rank of the
/// handle.
class DTensorWatch {
 public:
  explicit DTensorWatch(const DTensor& x) : impl_(x.impl()) { ++impl_->watches_; }
  DTensorWatch(DTensorWatch&& other) noexcept : impl_(std::exchange(other.impl_, nullptr)) {}
  DTensorWatch& operator=(DTensorWatch&& other) noexcept {
    std::swap(impl_, other.impl_);
    return *this;
  }
  ~DTensorWatch();

  /// Whether some DTensor still holds it.
  bool alive() const { return impl_->use_count() > 0; }
  /// For a handle that is not alive only the address has a meaning.
  DTensorImpl* impl() const { return impl_; }

 private:
  DTensorImpl* impl_;
};

/// The type string of a handle: "f32[8@dp, 16]" or, for a plain tensor, "f32[8, 16]".
std::string type_string(const DTensor& tensor);

}  // namespace shardlab
