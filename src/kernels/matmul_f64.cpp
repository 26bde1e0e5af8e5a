// Products in f64: skinny ones by the loop of our own, all others through Eigen.
#include "kernels/tile_multiply.h"
#include "kernels/wide_products.h"

namespace shardlab {

template const Products<double>& own_products<double>();

void multiply(const MatrixView<double>& out, const MatrixView<const double>& a,
              const MatrixView<const double>& b) {
  if (out.rows == 1 || out.columns == 1) return eigen_multiply(out, a, b);
  const WideProducts* wide = wide_products();
  multiply_with(wide != nullptr ? wide->f64 : own_products<double>(), out, a, b);
}

}  // namespace shardlab
