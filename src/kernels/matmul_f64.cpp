// Products in f64: skinny ones by the loop of our own, all others through Eigen.
#include "kernels/eigen_multiply.h"
#include "kernels/skinny_multiply.h"

namespace shardlab {

void multiply(const MatrixView<double>& out, const MatrixView<const double>& a,
              const MatrixView<const double>& b) {
  if (!multiply_skinny(out, a, b)) eigen_multiply(out, a, b);
}

}  // namespace shardlab
