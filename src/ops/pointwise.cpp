// Pointwise ops: output dims follow the broadcast input dims, so a row only says which pending
// reductions pass without communication, on ONE mesh dim. The letters are those of PointwiseRule.
#include <cmath>

#include "kernels/kernel_id.h"
#include "kernels/promotion.h"
#include "ops/derive.h"
#include "ops/meta.h"
#include "ops/register.h"

namespace shardlab {
namespace {

constexpr const char* kNone = "";
constexpr const char* kLinear = "ss aa";
constexpr const char* kNonDecreasing = "xx nn";
constexpr const char* kNonDecreasingNumbers = "XX NN";  // of NaN it makes a number
constexpr const char* kNonIncreasing = "nx xn";
constexpr const char* kNegation = "ss aa nx xn";
constexpr const char* kEveryPartial = "ss aa xx nn";
constexpr const char* kAdditive = "sss aaa aar XXr NNr ara";
constexpr const char* kProduct = "ss aa ssr aar srs ara";  // one word fits a number as operand
constexpr const char* kQuotient = "ss aa ssr aar";
constexpr const char* kMaxLike = "xxr xrx nnr nrn xxx";
constexpr const char* kMinLike = "xxr xrx nnr nrn nnn";

/// Variants of which the reference lets no partial pass.
enum class Bare : std::uint8_t { kNeither, kInplace, kOut, kBoth };

struct Names {
  const char* inplace = nullptr;  ///< overload of the in-place variant
  const char* out = nullptr;      ///< overload of the out= variant
  Bare bare = Bare::kNeither;
};

struct PointwiseRow {
  const char* schema;
  MetaFn meta;
  const char* passes;
  KernelId kernel;
  Names variants;
  const char* why;
};

/// c64 -> f32: the magnitude.
std::vector<OutputMeta> meta_real(const MetaArgs& args) {
  std::vector<OutputMeta> outputs = meta_tensors(args);
  outputs[0].meta.dtype = real_dtype(outputs[0].meta.dtype);
  return outputs;
}

/// Truth values count as numbers.
std::vector<OutputMeta> meta_square(const MetaArgs& args) {
  std::vector<OutputMeta> outputs = meta_tensors(args);
  if (outputs[0].meta.dtype == DType::kBool) outputs[0].meta.dtype = DType::kI64;
  return outputs;
}

/// A factor of integers is an integer.
std::vector<OutputMeta> meta_scaled(const MetaArgs& args) {
  std::vector<OutputMeta> outputs = meta_promoted(args);
  const DType dtype = outputs[0].meta.dtype;
  if (is_integral(dtype) && !argument_or_none(args, "alpha").scalar().is_integral()) {
    fail(ErrorKind::kValue, "{}: alpha is a float, the result is {}", args.op().name(),
         to_string(dtype));
  }
  return outputs;
}

/// A bound beyond the range of integers does not restrict anything, unless no integer fulfils it.
void require_bounds(const MetaArgs& args, const Argument& least, const Argument& most,
                    DType dtype) {
  if (!is_integral(dtype)) return;
  const bool too_high =
      least.is_scalar() && least.to_int() > highest_number(dtype).to_int();
  const bool too_low = most.is_scalar() && most.to_int() < lowest_number(dtype).to_int();
  if (!too_high && !too_low) return;
  fail(ErrorKind::kValue, "{}: no {} keeps to the bound {}", args.op().name(), to_string(dtype),
       (too_high ? least : most).text());
}

std::vector<OutputMeta> meta_clamp(const MetaArgs& args) {
  if (args[1].is_none() && args[2].is_none()) {
    fail(ErrorKind::kValue, "{} takes a lower or an upper bound", args.op().name());
  }
  std::vector<OutputMeta> outputs = meta_promoted(args);
  require_bounds(args, args[1], args[2], outputs[0].meta.dtype);
  return outputs;
}
std::vector<OutputMeta> meta_clamp_min(const MetaArgs& args) {
  std::vector<OutputMeta> outputs = meta_promoted(args);
  require_bounds(args, args[1], {}, outputs[0].meta.dtype);
  return outputs;
}
std::vector<OutputMeta> meta_clamp_max(const MetaArgs& args) {
  std::vector<OutputMeta> outputs = meta_promoted(args);
  require_bounds(args, {}, args[1], outputs[0].meta.dtype);
  return outputs;
}

std::vector<OutputMeta> meta_pow_scalar(const MetaArgs& args) {
  std::vector<OutputMeta> outputs = meta_promoted(args);
  if (is_integral(outputs[0].meta.dtype) && args[1].scalar().to_double() < 0) {
    fail(ErrorKind::kValue, "{}: integers have no negative integer powers", args.op().name());
  }
  if (!representable(args[1].scalar(), outputs[0].meta.dtype)) {
    fail(ErrorKind::kValue, "{}: the exponent {} is out of the range of {}", args.op().name(),
         args[1].text(), to_string(outputs[0].meta.dtype));
  }
  return outputs;
}

/// Integers would have to be rounded.
std::vector<OutputMeta> meta_addcdiv(const MetaArgs& args) {
  std::vector<OutputMeta> outputs = meta_tensors(args);
  if (is_integral(outputs[0].meta.dtype)) {
    fail(ErrorKind::kValue, "{} divides floats, not integers", args.op().name());
  }
  return outputs;
}

/// True division gives floats, a rounded one keeps integers.
std::vector<OutputMeta> meta_div_mode(const MetaArgs& args) {
  return args[2].is_none() ? meta_promoted_float(args) : meta_promoted(args);
}

/// The condition takes part in shape and strides, not in the dtype.
std::vector<OutputMeta> meta_where(const MetaArgs& args) {
  Operands operands = tensor_operands(args);
  Operands values = operands;
  values.tensors.erase(values.tensors.begin());
  return {elementwise_meta(args, operands, result_dtype(values))};
}

/// Partials do not pass where the factor is infinite: it would make NaN of terms that are 0, as
/// those of empty pieces are.
const char* factor_filter(const RuleContext& context, std::span<const Placements> inputs) {
  const Argument& number = context.schema.args[1];
  if (!number.is_scalar()) return nullptr;
  const bool divides = context.schema.row->kernel == KernelId::kDiv;
  const double factor =
      divides ? 1 / number.scalar().to_double() : number.scalar().to_double();
  if (!std::isinf(factor)) return nullptr;
  for (const Placement& placement : inputs[0]) {
    if (placement.is_partial()) return "the number makes NaN of a term that is 0";
  }
  return nullptr;
}

constexpr PointwiseRow kRows[] = {  // sorted by name
    {"abs(Tensor self) -> Tensor",
     meta_real, kNone, KernelId::kAbs, {"", "out"}, "|a + b| is not |a| + |b|"},
    {"acos(Tensor self) -> Tensor",
     meta_promoted_float, kNone, KernelId::kAcos, {"", "out"}, "defined on [-1, 1] only"},
    {"add.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor",
     meta_scaled, kNone, KernelId::kAdd, {"Scalar", "Scalar_out"},
     "the number would be added once per rank"},
    {"add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
     meta_scaled, kAdditive, KernelId::kAdd, {"Tensor", "out"},
     "P(sum) + R would count R once per rank; infinities may cancel to NaN, so no P(max)"},
    {"addcdiv(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor",
     meta_addcdiv, kNone, KernelId::kAddcdiv, {"", "out"}, "a quotient inside of a sum"},
    {"addcmul(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor",
     meta_tensors, kNone, KernelId::kAddcmul, {"", "out"}, "a product inside of a sum"},
    {"asin(Tensor self) -> Tensor",
     meta_promoted_float, kNone, KernelId::kAsin, {"", "out"}, "defined on [-1, 1] only"},
    {"atan(Tensor self) -> Tensor",
     meta_promoted_float, kNonDecreasing, KernelId::kAtan, {"", "out"},
     "non-decreasing: it commutes with max and min"},
    {"atan2(Tensor self, Tensor other) -> Tensor",
     meta_promoted_float, kNone, KernelId::kAtan2, {"", "out"}, "depends on both signs"},
    {"bitwise_and.Scalar(Tensor self, Scalar other) -> Tensor",
     meta_promoted, kNone, KernelId::kBitwiseAnd, {"Scalar", "Scalar_out"},
     "bits of a sum are not those of its terms"},
    {"bitwise_and.Scalar_Tensor(Scalar self, Tensor other) -> Tensor",
     meta_promoted, kNone, KernelId::kBitwiseAnd, {nullptr, "Scalar_Tensor_out"},
     "bits of a sum are not those of its terms"},
    {"bitwise_and.Tensor(Tensor self, Tensor other) -> Tensor",
     meta_promoted, kNone, KernelId::kBitwiseAnd, {"Tensor", "Tensor_out"},
     "bits of a sum are not those of its terms"},
    {"bitwise_left_shift.Scalar_Tensor(Scalar self, Tensor other) -> Tensor",
     meta_promoted, kNone, KernelId::kLeftShift, {nullptr, "Scalar_Tensor_out"},
     "bits of a sum are not those of its terms"},
    {"bitwise_left_shift.Tensor(Tensor self, Tensor other) -> Tensor",
     meta_promoted, kNone, KernelId::kLeftShift, {"Tensor", "Tensor_out"},
     "bits of a sum are not those of its terms"},
    {"bitwise_left_shift.Tensor_Scalar(Tensor self, Scalar other) -> Tensor",
     meta_promoted, kNone, KernelId::kLeftShift, {"Tensor_Scalar", "Tensor_Scalar_out"},
     "bits of a sum are not those of its terms"},
    {"bitwise_not(Tensor self) -> Tensor",
     meta_tensors, kNone, KernelId::kBitwiseNot, {"", "out"},
     "bits of a sum are not those of its terms"},
    {"bitwise_or.Scalar(Tensor self, Scalar other) -> Tensor",
     meta_promoted, kNone, KernelId::kBitwiseOr, {"Scalar", "Scalar_out"},
     "bits of a sum are not those of its terms"},
    {"bitwise_or.Scalar_Tensor(Scalar self, Tensor other) -> Tensor",
     meta_promoted, kNone, KernelId::kBitwiseOr, {nullptr, "Scalar_Tensor_out"},
     "bits of a sum are not those of its terms"},
    {"bitwise_or.Tensor(Tensor self, Tensor other) -> Tensor",
     meta_promoted, kNone, KernelId::kBitwiseOr, {"Tensor", "Tensor_out"},
     "bits of a sum are not those of its terms"},
    {"bitwise_right_shift.Scalar_Tensor(Scalar self, Tensor other) -> Tensor",
     meta_promoted, kNone, KernelId::kRightShift, {nullptr, "Scalar_Tensor_out"},
     "bits of a sum are not those of its terms"},
    {"bitwise_right_shift.Tensor(Tensor self, Tensor other) -> Tensor",
     meta_promoted, kNone, KernelId::kRightShift, {"Tensor", "Tensor_out"},
     "bits of a sum are not those of its terms"},
    {"bitwise_right_shift.Tensor_Scalar(Tensor self, Scalar other) -> Tensor",
     meta_promoted, kNone, KernelId::kRightShift, {"Tensor_Scalar", "Tensor_Scalar_out"},
     "bits of a sum are not those of its terms"},
    {"bitwise_xor.Scalar(Tensor self, Scalar other) -> Tensor",
     meta_promoted, kNone, KernelId::kBitwiseXor, {"Scalar", "Scalar_out"},
     "bits of a sum are not those of its terms"},
    {"bitwise_xor.Scalar_Tensor(Scalar self, Tensor other) -> Tensor",
     meta_promoted, kNone, KernelId::kBitwiseXor, {nullptr, "Scalar_Tensor_out"},
     "bits of a sum are not those of its terms"},
    {"bitwise_xor.Tensor(Tensor self, Tensor other) -> Tensor",
     meta_promoted, kNone, KernelId::kBitwiseXor, {"Tensor", "Tensor_out"},
     "bits of a sum are not those of its terms"},
    {"ceil(Tensor self) -> Tensor",
     meta_tensors, kNonDecreasing, KernelId::kCeil, {"", "out"},
     "non-decreasing: it commutes with max and min"},
    {"clamp(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor",
     meta_clamp, kNone, KernelId::kClamp, {"", "out"},
     "bounds hold for the whole, not for terms"},
    {"clamp.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor",
     meta_clamp, kNone, KernelId::kClamp, {"Tensor", "Tensor_out"},
     "bounds hold for the whole, not for terms"},
    {"clamp_max(Tensor self, Scalar max) -> Tensor",
     meta_clamp_max, kNone, KernelId::kClampMax, {"", "out"},
     "bounds hold for the whole, not for terms"},
    {"clamp_max.Tensor(Tensor self, Tensor max) -> Tensor",
     meta_promoted, kMinLike, KernelId::kClampMax, {"Tensor", "Tensor_out", Bare::kBoth},
     "monotone in each operand; a minimum of minima"},
    {"clamp_min(Tensor self, Scalar min) -> Tensor",
     meta_clamp_min, kNone, KernelId::kClampMin, {"", "out"},
     "bounds hold for the whole, not for terms"},
    {"clamp_min.Tensor(Tensor self, Tensor min) -> Tensor",
     meta_promoted, kMaxLike, KernelId::kClampMin, {"Tensor", "Tensor_out", Bare::kBoth},
     "monotone in each operand; a maximum of maxima"},
    {"cos(Tensor self) -> Tensor",
     meta_promoted_float, kNone, KernelId::kCos, {"", "out"}, "neither linear nor monotone"},
    {"cosh(Tensor self) -> Tensor",
     meta_promoted_float, kNone, KernelId::kCosh, {"", "out"}, "neither linear nor monotone"},
    {"div.Scalar(Tensor self, Scalar other) -> Tensor",
     meta_promoted_float, kLinear, KernelId::kDiv, {"Scalar", "Scalar_out"}, "linear"},
    {"div.Scalar_mode(Tensor self, Scalar other, *, str? rounding_mode) -> Tensor",
     meta_div_mode, kNone, KernelId::kDiv, {"Scalar_mode", "Scalar_mode_out"},
     "rounds: not linear"},
    {"div.Tensor(Tensor self, Tensor other) -> Tensor",
     meta_promoted_float, kQuotient, KernelId::kDiv, {"Tensor", "out"}, "linear in the numerator"},
    {"div.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor",
     meta_div_mode, kNone, KernelId::kDiv, {"Tensor_mode", "out_mode"}, "rounds: not linear"},
    {"eq.Scalar(Tensor self, Scalar other) -> Tensor",
     meta_bool, kNone, KernelId::kEq, {"Scalar", "Scalar_out"},
     "terms say nothing about the truth of the whole"},
    {"eq.Tensor(Tensor self, Tensor other) -> Tensor",
     meta_bool, kNone, KernelId::kEq, {"Tensor", "Tensor_out"},
     "terms say nothing about the truth of the whole"},
    {"erf(Tensor self) -> Tensor",
     meta_promoted_float, kNonDecreasing, KernelId::kErf, {"", "out"},
     "non-decreasing: it commutes with max and min"},
    {"erfc(Tensor self) -> Tensor",
     meta_promoted_float, kNonIncreasing, KernelId::kErfc, {"", "out"},
     "non-increasing: max and min swap"},
    {"exp(Tensor self) -> Tensor",
     meta_promoted_float, kNonDecreasing, KernelId::kExp, {"", "out"},
     "non-decreasing: it commutes with max and min"},
    {"exp2(Tensor self) -> Tensor",
     meta_promoted_float, kNonDecreasing, KernelId::kExp2, {"", "out"},
     "non-decreasing: it commutes with max and min"},
    {"expm1(Tensor self) -> Tensor",
     meta_promoted_float, kNonDecreasing, KernelId::kExpm1, {"", "out"},
     "non-decreasing: it commutes with max and min"},
    {"floor(Tensor self) -> Tensor",
     meta_tensors, kNonDecreasing, KernelId::kFloor, {"", "out"},
     "non-decreasing: it commutes with max and min"},
    {"fmod.Scalar(Tensor self, Scalar other) -> Tensor",
     meta_promoted, kNone, KernelId::kFmod, {"Scalar", "Scalar_out"}, "periodic"},
    {"fmod.Tensor(Tensor self, Tensor other) -> Tensor",
     meta_promoted, kNone, KernelId::kFmod, {"Tensor", "Tensor_out"}, "periodic"},
    {"frac(Tensor self) -> Tensor",
     meta_tensors, kNone, KernelId::kFrac, {"", "out"}, "periodic"},
    {"ge.Scalar(Tensor self, Scalar other) -> Tensor",
     meta_bool, kNone, KernelId::kGe, {"Scalar", "Scalar_out"},
     "terms say nothing about the truth of the whole"},
    {"ge.Tensor(Tensor self, Tensor other) -> Tensor",
     meta_bool, kNone, KernelId::kGe, {"Tensor", "Tensor_out"},
     "terms say nothing about the truth of the whole"},
    {"gelu(Tensor self, *, str approximate=\"none\") -> Tensor",
     meta_tensors, kNone, KernelId::kGelu, {"", "out"}, "neither linear nor known to be monotone"},
    {"gelu_backward(Tensor grad_output, Tensor self, *, str approximate=\"none\") -> Tensor",
     meta_tensors, kNone, KernelId::kGeluBackward, {nullptr, "grad_input"},
     "decided by the value of the whole, which terms do not have"},
    {"gt.Scalar(Tensor self, Scalar other) -> Tensor",
     meta_bool, kNone, KernelId::kGt, {"Scalar", "Scalar_out"},
     "terms say nothing about the truth of the whole"},
    {"gt.Tensor(Tensor self, Tensor other) -> Tensor",
     meta_bool, kNone, KernelId::kGt, {"Tensor", "Tensor_out"},
     "terms say nothing about the truth of the whole"},
    {"isfinite(Tensor self) -> Tensor",
     meta_bool, kNone, KernelId::kIsFinite, {}, "terms say nothing about the truth of the whole"},
    {"isinf(Tensor self) -> Tensor",
     meta_bool, kNone, KernelId::kIsInf, {nullptr, "out"},
     "terms say nothing about the truth of the whole"},
    {"isnan(Tensor self) -> Tensor",
     meta_bool, kNone, KernelId::kIsNan, {nullptr, "out"},
     "terms say nothing about the truth of the whole"},
    {"le.Scalar(Tensor self, Scalar other) -> Tensor",
     meta_bool, kNone, KernelId::kLe, {"Scalar", "Scalar_out"},
     "terms say nothing about the truth of the whole"},
    {"le.Tensor(Tensor self, Tensor other) -> Tensor",
     meta_bool, kNone, KernelId::kLe, {"Tensor", "Tensor_out"},
     "terms say nothing about the truth of the whole"},
    {"leaky_relu(Tensor self, Scalar negative_slope=0.01) -> Tensor",
     meta_tensors, kNone, KernelId::kLeakyRelu, {"", "out"},
     "neither linear nor known to be monotone"},
    {"leaky_relu_backward(Tensor grad_output, Tensor self, Scalar negative_slope, bool "
     "self_is_result) -> Tensor",
     meta_tensors, kNone, KernelId::kLeakyReluBackward, {nullptr, "grad_input"},
     "decided by the value of the whole, which terms do not have"},
    {"lerp.Scalar(Tensor self, Tensor end, Scalar weight) -> Tensor",
     meta_tensors, kNone, KernelId::kLerp, {"Scalar", "Scalar_out"},
     "the weight may depend on the element"},
    {"lerp.Tensor(Tensor self, Tensor end, Tensor weight) -> Tensor",
     meta_tensors, kNone, KernelId::kLerp, {"Tensor", "Tensor_out"},
     "the weight may depend on the element"},
    {"log(Tensor self) -> Tensor",
     meta_promoted_float, kNone, KernelId::kLog, {"", "out"}, "undefined at x <= 0"},
    {"log10(Tensor self) -> Tensor",
     meta_promoted_float, kNone, KernelId::kLog10, {"", "out"}, "undefined at x <= 0"},
    {"log1p(Tensor self) -> Tensor",
     meta_promoted_float, kNone, KernelId::kLog1p, {"", "out"}, "undefined at x <= -1"},
    {"log2(Tensor self) -> Tensor",
     meta_promoted_float, kNone, KernelId::kLog2, {"", "out"}, "undefined at x <= 0"},
    {"logical_and(Tensor self, Tensor other) -> Tensor",
     meta_bool, kNone, KernelId::kLogicalAnd, {"", "out"},
     "terms say nothing about the truth of the whole"},
    {"logical_not(Tensor self) -> Tensor",
     meta_bool, kNone, KernelId::kLogicalNot, {"", "out"},
     "terms say nothing about the truth of the whole"},
    {"logical_or(Tensor self, Tensor other) -> Tensor",
     meta_bool, kNone, KernelId::kLogicalOr, {"", "out"},
     "terms say nothing about the truth of the whole"},
    {"logical_xor(Tensor self, Tensor other) -> Tensor",
     meta_bool, kNone, KernelId::kLogicalXor, {"", "out"},
     "terms say nothing about the truth of the whole"},
    {"lt.Scalar(Tensor self, Scalar other) -> Tensor",
     meta_bool, kNone, KernelId::kLt, {"Scalar", "Scalar_out"},
     "terms say nothing about the truth of the whole"},
    {"lt.Tensor(Tensor self, Tensor other) -> Tensor",
     meta_bool, kNone, KernelId::kLt, {"Tensor", "Tensor_out"},
     "terms say nothing about the truth of the whole"},
    {"masked_fill.Scalar(Tensor self, Tensor mask, Scalar value) -> Tensor",
     meta_first, kNone, KernelId::kMaskedFill, {"Scalar", "Scalar_out"},
     "the fill would be counted once per rank"},
    {"maximum(Tensor self, Tensor other) -> Tensor",
     meta_promoted, kMaxLike, KernelId::kMaximum, {nullptr, "out"},
     "monotone in each operand; a maximum of maxima"},
    {"minimum(Tensor self, Tensor other) -> Tensor",
     meta_promoted, kMinLike, KernelId::kMinimum, {nullptr, "out"},
     "monotone in each operand; a minimum of minima"},
    {"mul.Scalar(Tensor self, Scalar other) -> Tensor",
     meta_promoted, kLinear, KernelId::kMul, {"Scalar", "Scalar_out"}, "linear"},
    {"mul.Tensor(Tensor self, Tensor other) -> Tensor",
     meta_promoted, kProduct, KernelId::kMul, {"Tensor", "out"},
     "a product of two sums is no sum of products"},
    {"ne.Scalar(Tensor self, Scalar other) -> Tensor",
     meta_bool, kNone, KernelId::kNe, {"Scalar", "Scalar_out"},
     "terms say nothing about the truth of the whole"},
    {"ne.Tensor(Tensor self, Tensor other) -> Tensor",
     meta_bool, kNone, KernelId::kNe, {"Tensor", "Tensor_out"},
     "terms say nothing about the truth of the whole"},
    {"neg(Tensor self) -> Tensor",
     meta_tensors, kNegation, KernelId::kNeg, {"", "out"}, "linear; max and min swap"},
    {"positive(Tensor(a) self) -> Tensor(a)",
     meta_tensors, kEveryPartial, KernelId::kPositive, {}, "changes no value"},
    {"pow.Scalar(Scalar self, Tensor exponent) -> Tensor",
     meta_promoted, kNone, KernelId::kPow, {nullptr, "Scalar_out"}, "a power of a sum"},
    {"pow.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor",
     meta_pow_scalar, kNone, KernelId::kPow, {"Scalar", "Tensor_Scalar_out"}, "a power of a sum"},
    {"pow.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor",
     meta_promoted, kNone, KernelId::kPow, {"Tensor", "Tensor_Tensor_out"}, "a power of a sum"},
    {"reciprocal(Tensor self) -> Tensor",
     meta_promoted_float, kNone, KernelId::kReciprocal, {"", "out"},
     "neither linear nor monotone across 0"},
    {"relu(Tensor self) -> Tensor",
     meta_tensors, kNonDecreasing, KernelId::kRelu, {"", "out"},
     "non-decreasing: it commutes with max and min"},
    {"remainder.Scalar(Tensor self, Scalar other) -> Tensor",
     meta_promoted, kNone, KernelId::kRemainder, {"Scalar", "Scalar_out"}, "periodic"},
    {"remainder.Scalar_Tensor(Scalar self, Tensor other) -> Tensor",
     meta_promoted, kNone, KernelId::kRemainder, {nullptr, "Scalar_Tensor_out"}, "periodic"},
    {"remainder.Tensor(Tensor self, Tensor other) -> Tensor",
     meta_promoted, kNone, KernelId::kRemainder, {"Tensor", "Tensor_out"}, "periodic"},
    {"round(Tensor self) -> Tensor",
     meta_tensors, kNonDecreasing, KernelId::kRound, {"", "out"},
     "non-decreasing: it commutes with max and min"},
    {"rsqrt(Tensor self) -> Tensor",
     meta_promoted_float, kNone, KernelId::kRsqrt, {"", "out"}, "undefined at x <= 0"},
    {"rsub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor",
     meta_scaled, kNone, KernelId::kRsub, {nullptr, "Scalar_out"},
     "the number would be added once per rank"},
    {"sgn(Tensor self) -> Tensor",
     meta_tensors, kNonDecreasingNumbers, KernelId::kSgn, {"", "out"},
     "the sign of NaN is 0, which the largest of some signs need not be"},
    {"sigmoid(Tensor self) -> Tensor",
     meta_promoted_float, kNonDecreasing, KernelId::kSigmoid, {"", "out"},
     "non-decreasing: it commutes with max and min"},
    {"sigmoid_backward(Tensor grad_output, Tensor output) -> Tensor",
     meta_tensors, kNone, KernelId::kSigmoidBackward, {},
     "decided by the value of the whole, which terms do not have"},
    {"sign(Tensor self) -> Tensor",
     meta_tensors, kNonDecreasingNumbers, KernelId::kSign, {"", "out"},
     "the sign of NaN is 0, which the largest of some signs need not be"},
    {"signbit(Tensor self) -> Tensor",
     meta_bool, kNone, KernelId::kSignbit, {nullptr, "out"},
     "terms say nothing about the truth of the whole"},
    {"silu(Tensor self) -> Tensor",
     meta_tensors, kNone, KernelId::kSilu, {"", "out"}, "neither linear nor known to be monotone"},
    {"silu_backward(Tensor grad_output, Tensor self) -> Tensor",
     meta_tensors, kNone, KernelId::kSiluBackward, {},
     "decided by the value of the whole, which terms do not have"},
    {"sin(Tensor self) -> Tensor",
     meta_promoted_float, kNone, KernelId::kSin, {"", "out"}, "neither linear nor monotone"},
    {"sinh(Tensor self) -> Tensor",
     meta_promoted_float, kNonDecreasing, KernelId::kSinh, {"", "out"},
     "non-decreasing: it commutes with max and min"},
    {"softplus(Tensor self, Scalar beta=1, Scalar threshold=20) -> Tensor",
     meta_tensors, kNone, KernelId::kSoftplus, {nullptr, "out"},
     "neither linear nor known to be monotone"},
    {"softplus_backward(Tensor grad_output, Tensor self, Scalar beta, Scalar threshold) -> "
     "Tensor",
     meta_tensors, kNone, KernelId::kSoftplusBackward, {nullptr, "grad_input"},
     "decided by the value of the whole, which terms do not have"},
    {"sqrt(Tensor self) -> Tensor",
     meta_promoted_float, kNone, KernelId::kSqrt, {"", "out"}, "undefined at x < 0"},
    {"square(Tensor self) -> Tensor",
     meta_square, kNone, KernelId::kSquare, {"", "out"}, "the square of a sum"},
    {"sub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor",
     meta_scaled, kNone, KernelId::kSub, {"Scalar", "Scalar_out"},
     "the number would be subtracted once per rank"},
    {"sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
     meta_scaled, kAdditive, KernelId::kSub, {"Tensor", "out"},
     "P(sum) + R would count R once per rank; infinities may cancel to NaN, so no P(max)"},
    {"tan(Tensor self) -> Tensor",
     meta_promoted_float, kNone, KernelId::kTan, {"", "out"}, "neither linear nor monotone"},
    {"tanh(Tensor self) -> Tensor",
     meta_promoted_float, kNonDecreasing, KernelId::kTanh, {"", "out"},
     "non-decreasing: it commutes with max and min"},
    {"tanh_backward(Tensor grad_output, Tensor output) -> Tensor",
     meta_tensors, kNone, KernelId::kTanhBackward, {},
     "decided by the value of the whole, which terms do not have"},
    {"threshold_backward(Tensor grad_output, Tensor self, Scalar threshold) -> Tensor",
     meta_tensors, kNone, KernelId::kThresholdBackward, {nullptr, "grad_input"},
     "decided by the value of the whole, which terms do not have"},
    {"trunc(Tensor self) -> Tensor",
     meta_tensors, kNonDecreasing, KernelId::kTrunc, {"", "out"},
     "non-decreasing: it commutes with max and min"},
    {"where.self(Tensor condition, Tensor self, Tensor other) -> Tensor",
     meta_where, kNone, KernelId::kWhere, {nullptr, "self_out"},
     "terms follow the condition, which the other branch does not"},
};

/// Registers a variant; a bare one lets no partial pass.
void add_variant(OpRegistry& registry, OpRow row, bool bare) {
  if (bare) row.rule = PointwiseRule{kNone};
  registry.add(std::move(row));
}

}  // namespace

void register_pointwise(OpRegistry& registry) {
  for (const PointwiseRow& entry : kRows) {
    const auto& [inplace, out, bare] = entry.variants;
    OpRow row;
    row.op = parse_op_schema(entry.schema);
    row.meta = entry.meta;
    row.rule = PointwiseRule{entry.passes};
    row.kernel = entry.kernel;
    row.flags = kAllowUneven | kExact;
    const std::string_view passes = entry.passes;
    if (passes == kLinear || passes == kProduct || passes == kQuotient) row.filter = factor_filter;
    row.why = entry.why;
    const OpRow& base = add_with_variants(registry, std::move(row), kNoVariants);
    if (inplace != nullptr) {
      add_variant(registry, inplace_variant(base, inplace),
                  bare == Bare::kInplace || bare == Bare::kBoth);
    }
    if (out != nullptr) {
      add_variant(registry, out_variant(base, out), bare == Bare::kOut || bare == Bare::kBoth);
    }
  }
}

}  // namespace shardlab
