// The products that matrix products are compared with. Eigen's block sizes are one value for the
// process, which the library fixes: a product of the floor sets those of the machine and puts the
// fixed ones back.
#include <benchmark/benchmark.h>

#include <array>
#include <memory>
#include <vector>

#include "kernels/eigen_core.h"
#include "tests/bench/kernel_floors.h"

namespace shardlab {

namespace {

// Sets the cache sizes that Eigen asks the machine for, while it lives.
class MachineCaches {
 public:
  MachineCaches() {
    Eigen::internal::manage_caching_sizes(Eigen::GetAction, &fixed_[0], &fixed_[1], &fixed_[2]);
    // Asked once: a virtual machine takes long to answer.
    static const std::array<int, 3> found = [] {
      std::array<int, 3> sizes{};
      Eigen::internal::queryCacheSizes(sizes[0], sizes[1], sizes[2]);
      return sizes;
    }();
    Eigen::setCpuCacheSizes(found[0], found[1], found[2]);
  }
  ~MachineCaches() { Eigen::setCpuCacheSizes(fixed_[0], fixed_[1], fixed_[2]); }
  MachineCaches(const MachineCaches&) = delete;
  MachineCaches& operator=(const MachineCaches&) = delete;

 private:
  std::ptrdiff_t fixed_[3] = {};
};

template <typename T>
TimedWork product_of_matrices(std::int64_t batch, std::int64_t rows, std::int64_t inner,
                              std::int64_t columns) {
  using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  struct Operands {
    Matrix a, b, out;
  };
  auto operands = std::make_shared<std::vector<Operands>>();
  for (std::int64_t i = 0; i < batch; ++i) {
    operands->push_back({Matrix::Constant(rows, inner, T(0.5)),
                         Matrix::Constant(inner, columns, T(0.25)), Matrix::Zero(rows, columns)});
  }
  return [operands] {
    const MachineCaches caches;
    for (Operands& one : *operands) one.out.noalias() = one.a * one.b;
    benchmark::DoNotOptimize(operands->back().out.data());
  };
}

}  // namespace

TimedWork eigen_floor(DType dtype, std::int64_t batch, std::int64_t rows, std::int64_t inner,
                      std::int64_t columns) {
  return dtype == DType::kF64 ? product_of_matrices<double>(batch, rows, inner, columns)
                              : product_of_matrices<float>(batch, rows, inner, columns);
}

}  // namespace shardlab
