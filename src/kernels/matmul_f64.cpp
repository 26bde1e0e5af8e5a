// Products in f64: skinny ones by the loop of our own, all others through Eigen.
#include "kernels/skinny_multiply.h"
#include "kernels/wide_panels.h"

namespace shardlab {

template void multiply_in_panels(const MatrixView<double>&, const MatrixView<const double>&,
                                 const MatrixView<const double>&, WideKernels::Multiply<double>);

void multiply(const MatrixView<double>& out, const MatrixView<const double>& a,
              const MatrixView<const double>& b) {
  if (multiply_skinny(out, a, b)) return;
  const WideKernels* wide = wide_kernels();
  multiply_in_panels(out, a, b, wide == nullptr ? nullptr : wide->multiply_f64);
}

}  // namespace shardlab
