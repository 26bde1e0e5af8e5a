// Products in c128, through Eigen.
#include <complex>

#include "kernels/eigen_multiply.h"

namespace shardlab {

void multiply(const MatrixView<std::complex<double>>& out,
              const MatrixView<const std::complex<double>>& a,
              const MatrixView<const std::complex<double>>& b) {
  eigen_multiply<std::complex<double>>(out, a, b);
}

}  // namespace shardlab
