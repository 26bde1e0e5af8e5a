// expression.h - formulas over tensors as one writes them on paper: each operator is a call of an
// op, on global values in gradients and parts, on a rank's pieces in local programs.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "schema/calls.h"

namespace shardlab {

/// In `dtype`; itself when it is of that dtype.
inline DTensor cast_to(Calls& calls, const DTensor& x, DType dtype) {
  return x.dtype() == dtype ? x : calls.one("aten::_to_copy", {x, dtype});
}

/// Conjugated; itself where it is real.
inline DTensor conjugated(Calls& calls, const DTensor& x) {
  return is_complex(x.dtype()) ? calls.one("aten::conj_physical", {x}) : x;
}

/// 0, 1, .., count - 1: whole on each rank of the mesh of `like`, if it has one.
inline DTensor counted(Calls& calls, const DTensor& like, std::int64_t count,
                       DType dtype = DType::kI64) {
  const DTensor ones = calls.one("aten::new_ones", {like, Dims{count}, dtype});
  return calls.one("aten::sub.Scalar", {calls.one("aten::cumsum", {ones, 0}), 1});
}

/// A value in a formula; lives no longer than the calls that it was made with. Operands broadcast,
/// dtypes are promoted, and failures are those of the ops.
///
/// Ops are issued in the order in which they are written. C++ leaves the order of the operands of
/// a - b and of a function's arguments to the compiler, and each takes another: where both operands
/// are computed on the spot, the operator is refused, and x * y - z * w is (x * y).minus(z * w), as
/// an object comes before the arguments of its member.
class Expression {
 public:
  Expression(Calls& calls, DTensor value) : calls_(&calls), value_(std::move(value)) {}
  const DTensor& value() const { return value_; }
  /// Its value, where a tensor is a result or an argument.
  operator DTensor() const { return value_; }
  operator Argument() const { return value_; }
  Calls& calls() const { return *calls_; }

  /// The result of an op with one tensor argument: of("aten::cos").
  Expression of(std::string_view op) const { return {*calls_, calls_->one(op, {value_})}; }
  /// The result of an op with a second argument, a number or a tensor.
  Expression with(std::string_view op, const Argument& other) const {
    return {*calls_, calls_->one(op, {value_, other})};
  }
  /// Changed in place by an op that writes its first argument, "aten::mul_.Tensor": for a value
  /// that was computed here and that nothing else holds.
  Expression changed(std::string_view op, const Expression& other) const {
    calls_->one(op, {value_, other.value_});
    return *this;
  }
  /// `value` where `mask` holds, itself elsewhere.
  Expression filled(const Expression& mask, Scalar value) const {
    return {*calls_, calls_->one("aten::masked_fill.Scalar", {value_, mask.value_, value})};
  }
  /// `yes` where this mask is true, elsewhere `no`.
  Expression choose(const Expression& yes, const Expression& no) const {
    return {*calls_, calls_->one("aten::where.self", {value_, yes.value_, no.value_})};
  }
  Expression choose(Expression&& yes, Expression&& no) const = delete;  // name the first one
  /// In `dtype`; itself when it is of that dtype.
  Expression to(DType dtype) const { return {*calls_, cast_to(*calls_, value_, dtype)}; }
  /// Conjugated; itself where it is real.
  Expression conjugate() const { return {*calls_, conjugated(*calls_, value_)}; }

  Expression operator-() const { return of("aten::neg"); }
  Expression operator!() const { return of("aten::logical_not"); }
  Expression operator+(const Expression& b) const { return with("aten::add.Tensor", b.value_); }
  Expression operator-(const Expression& b) const { return with("aten::sub.Tensor", b.value_); }
  Expression operator*(const Expression& b) const { return with("aten::mul.Tensor", b.value_); }
  Expression operator/(const Expression& b) const { return with("aten::div.Tensor", b.value_); }
  Expression operator+(Expression&& b) && = delete;  // both computed here: (..).plus(..)
  Expression operator-(Expression&& b) && = delete;
  Expression operator*(Expression&& b) && = delete;
  Expression operator/(Expression&& b) && = delete;
  Expression plus(const Expression& b) const { return *this + b; }
  Expression minus(const Expression& b) const { return *this - b; }
  Expression times(const Expression& b) const { return *this * b; }
  Expression over(const Expression& b) const { return *this / b; }
  Expression operator+(double b) const { return with("aten::add.Scalar", b); }
  Expression operator-(double b) const { return with("aten::sub.Scalar", b); }
  Expression operator*(double b) const { return with("aten::mul.Scalar", b); }
  Expression operator/(double b) const { return with("aten::div.Scalar", b); }
  // For these C++ itself guarantees that the left one is first.
  Expression operator&&(const Expression& b) const { return with("aten::logical_and", b.value_); }
  Expression operator||(const Expression& b) const { return with("aten::logical_or", b.value_); }
  // Masks: b is a number or another Expression's value.
  Expression lt(const Argument& b) const { return compared("lt", b); }
  Expression le(const Argument& b) const { return compared("le", b); }
  Expression gt(const Argument& b) const { return compared("gt", b); }
  Expression ge(const Argument& b) const { return compared("ge", b); }
  Expression eq(const Argument& b) const { return compared("eq", b); }

 private:
  Expression compared(std::string_view relation, const Argument& b) const {
    return with(
        std::string("aten::") + std::string(relation) + (b.is_tensor() ? ".Tensor" : ".Scalar"), b);
  }

  Calls* calls_;
  DTensor value_;
};

/// The one element of a tensor, where a size or a position depends on it.
///   fails  Unsupported: on ranks outside of its mesh, which do not have it
inline std::int64_t integer_in(Calls& calls, const DTensor& x) {
  const Results read = calls("aten::_local_scalar_dense", {x});
  if (read[0].is_scalar()) return read[0].to_int();
  fail(ErrorKind::kUnsupported,
       Fix{"use a mesh of the whole world, or make the call inside the mesh only"},
       "a size that depends on values is not known on ranks outside of the mesh");
}

}  // namespace shardlab
