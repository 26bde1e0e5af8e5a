// Elementary functions; integers and bool become f32 first.
#include "kernels/elementwise.h"
#include "kernels/kernel_table.h"
#include "kernels/math_functors.h"
#include "kernels/vector_math.h"

namespace shardlab {

namespace {

constexpr unsigned kFloatKinds = kRealKind | kComplexKind;

using element::Acos;
using element::Asin;
using element::Atan;
using element::Cosh;
using element::Erf;
using element::Erfc;
using element::Exp2;
using element::Expm1;
using element::Log10;
using element::Log1p;
using element::Log2;
using element::Rsqrt;
using element::Sinh;
using element::Sqrt;
using element::Tan;

}  // namespace

void add_unary_math_kernels(KernelTable& table) {
  table.set(KernelId::kExp, float_kernel<Exp, 1, kFloatKinds>);
  table.set(KernelId::kExp2, float_kernel<Exp2, 1, kFloatKinds>);
  table.set(KernelId::kExpm1, float_kernel<Expm1, 1, kFloatKinds>);
  table.set(KernelId::kLog, float_kernel<Log, 1, kFloatKinds>);
  table.set(KernelId::kLog2, float_kernel<Log2, 1, kFloatKinds>);
  table.set(KernelId::kLog10, float_kernel<Log10, 1, kFloatKinds>);
  table.set(KernelId::kLog1p, float_kernel<Log1p, 1, kFloatKinds>);
  table.set(KernelId::kSqrt, float_kernel<Sqrt, 1, kFloatKinds>);
  table.set(KernelId::kRsqrt, float_kernel<Rsqrt, 1, kFloatKinds>);
  table.set(KernelId::kSin, float_kernel<Sin, 1, kFloatKinds>);
  table.set(KernelId::kCos, float_kernel<Cos, 1, kFloatKinds>);
  table.set(KernelId::kTan, float_kernel<Tan, 1, kFloatKinds>);
  table.set(KernelId::kAsin, float_kernel<Asin, 1, kFloatKinds>);
  table.set(KernelId::kAcos, float_kernel<Acos, 1, kFloatKinds>);
  table.set(KernelId::kAtan, float_kernel<Atan, 1, kFloatKinds>);
  table.set(KernelId::kSinh, float_kernel<Sinh, 1, kFloatKinds>);
  table.set(KernelId::kCosh, float_kernel<Cosh, 1, kFloatKinds>);
  table.set(KernelId::kTanh, float_kernel<Tanh, 1, kFloatKinds>);
  table.set(KernelId::kErf, float_kernel<Erf, 1, kRealKind>);
  table.set(KernelId::kErfc, float_kernel<Erfc, 1, kRealKind>);
  table.set(KernelId::kSigmoid, float_kernel<Sigmoid, 1, kFloatKinds>);
}

}  // namespace shardlab
