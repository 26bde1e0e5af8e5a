// Products in f64: skinny ones by the loop of our own, all others through Eigen.
#include "kernels/tile_multiply.h"

namespace shardlab {

void multiply(const MatrixView<double>& out, const MatrixView<const double>& a,
              const MatrixView<const double>& b) {
  multiply_real(out, a, b);
}

}  // namespace shardlab
