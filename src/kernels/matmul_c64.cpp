// Products in c64, through Eigen.
#include <complex>

#include "kernels/eigen_multiply.h"

namespace shardlab {

void multiply(const MatrixView<std::complex<float>>& out,
              const MatrixView<const std::complex<float>>& a,
              const MatrixView<const std::complex<float>>& b) {
  eigen_multiply<std::complex<float>>(out, a, b);
}

}  // namespace shardlab
