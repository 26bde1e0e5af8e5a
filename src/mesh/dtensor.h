// dtensor.h - the handle programs hold: a local tensor and, when distributed, the spec it is a
// piece of (M-14). A plain tensor is a handle without spec. Counted; in-place ops return the same
// handle.
// Used by one rank.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "base/rank_context.h"
#include "base/source_line.h"
#include "mesh/spec.h"
#include "tensor/tensor.h"

namespace shardlab {

enum class KeepDim : std::uint8_t;  // api/tensor_ops.h, as Range and Variance
struct Range;
struct Variance;
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
  /// RankContext::identity of the rank that made it; 0: none did.
  const std::uint64_t maker = identity_here();

 protected:
  void destroy() const override;

 private:
  friend class DTensorWatch;
  static std::uint64_t identity_here() {
    const RankContext* rank = current_rank_or_null();
    return rank == nullptr ? 0 : rank->identity;
  }
  mutable std::uint32_t watches_ = 0;
};

/// A reference to a DTensorImpl, null by default. Accessors other than defined() fail with Value on
/// a null handle. Operators are ops, == as well; is_same() compares handles.
///
/// Spelling: as in LibTorch. An op that is a method and a function there is both here (a method is
/// the function of its name with x first); what LibTorch has once, as gelu or cat, is a function
/// here, but for the methods of the first block.
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
  bool distributed() const { return held("distributed").spec != nullptr; }
  /// This rank's piece or term; of a plain tensor, all of it.
  const Tensor& local() const { return held("local").local; }
  /// Null for a plain tensor.
  const DTensorSpec* spec() const { return held("spec").spec; }
  /// Global metadata: the spec's, or the plain tensor's own (M-14).
  const TensorMeta& meta() const { return meta_of("meta"); }
  const Dims& shape() const { return meta_of("shape").shape; }
  DType dtype() const { return meta_of("dtype").dtype; }
  std::int64_t numel() const { return product(meta_of("numel").shape); }
  std::size_t ndim() const { return meta_of("ndim").shape.size(); }
  bool requires_grad() const { return held("requires_grad").requires_grad; }
  /// Whether both handles are one object.
  bool is_same(const DTensor& other) const { return impl_ == other.impl_; }
  /// Whether the one element is not zero; a distributed tensor is made whole first.
  ///   fails  Value: more elements, or none
  explicit operator bool() const;

  Scalar item(SourceLine place = {}) const;
  DTensor full_tensor(SourceLine place = {}) const;
  DTensor to_local() const;
  DTensor detach() const;
  const DTensor& requires_grad_(bool required = true, SourceLine place = {}) const;
  void backward(SourceLine place = {}) const;
  /// Undefined where torch gives None.
  DTensor grad() const;

  // Each a function of api/tensor_ops.h, too; see there.
#define SHARDLAB_LIST(...) __VA_ARGS__
#define SHARDLAB_DEFAULT(value) = value
#define SHARDLAB_METHOD(result, name, parameters, arguments) \
  result name(SHARDLAB_LIST parameters SourceLine place = {}) const;
#define SHARDLAB_METHODS(name)                                     \
  DTensor name(const DTensor& other, SourceLine place = {}) const; \
  DTensor name(Scalar other, SourceLine place = {}) const;
#include "mesh/tensor_methods.inc"
#undef SHARDLAB_METHODS
#undef SHARDLAB_METHOD
#undef SHARDLAB_DEFAULT
#undef SHARDLAB_LIST

  /// For the library's own parts; programs have no use for it.
  DTensorImpl* impl() const { return impl_.get(); }
  /// A separate reference that keeps the handle alive without using it.
  const Ref<DTensorImpl>& ref() const { return impl_; }

 private:
  const DTensorImpl& held(const char* accessor) const {
    if (!impl_) [[unlikely]]
      refuse_undefined(accessor);
    return *impl_;
  }
  const TensorMeta& meta_of(const char* accessor) const {
    const DTensorImpl& impl = held(accessor);
    return impl.spec != nullptr ? impl.spec->meta() : impl.local.meta();
  }

  Ref<DTensorImpl> impl_;
};

/// For searches: whether a handle is the object that `x` is, which outlives the search.
inline auto same_as(const DTensor& x) {
  return [&x](const DTensor& other) { return other.is_same(x); };
}

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
