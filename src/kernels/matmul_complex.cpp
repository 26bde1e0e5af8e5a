// Complex products through Eigen, in a unit of their own because Eigen takes long to compile.
#include <complex>

#include "kernels/eigen_multiply.h"

namespace shardlab {

void multiply(const MatrixView<std::complex<float>>& out,
              const MatrixView<const std::complex<float>>& a,
              const MatrixView<const std::complex<float>>& b) {
  eigen_multiply<std::complex<float>>(out, a, b);
}

void multiply(const MatrixView<std::complex<double>>& out,
              const MatrixView<const std::complex<double>>& a,
              const MatrixView<const std::complex<double>>& b) {
  eigen_multiply<std::complex<double>>(out, a, b);
}

}  // namespace shardlab
