// cpu_loops.h - the loops of the CPU: walks over memory in its own order (strided_loop.h), others
// in files of their own.
#pragma once

#include "kernels/convert.h"
#include "kernels/elementwise.h"
#include "kernels/loops.h"

namespace shardlab {

/// Without state, for any thread. Memory between loops does not count as that of a device.
class CpuLoops final : public Loops {
 public:
  Device& device() override;
  void convert(const Tensor& out, const Tensor& source) override { convert_tensor(out, source); }
  void fill(const Tensor& out, const Scalar& number) override { fill_tensor(out, number); }
  void run(Element function, DType promoted, const Tensor& out,
           std::span<const LocalArg> operands) override {
    run_elementwise(function, promoted, out, operands);
  }
  void look_up(const Lookup& lookup) override;
  void scatter(const Scatter& scatter) override;
  void fold(Fold fold, DType compute, const Tensor& self, const DimMask& reduced,
            const Tensor& out) override;
  void scan(Scan scan, const Tensor& self, const DimMask& dim, const Tensor& values,
            const Tensor& places) override;
  void spread(const Tensor& self, const DimMask& reduced, const Tensor& means,
              const Tensor& squares) override;
  void multiply(const Tensor& out, const Tensor& a, const Tensor& b) override;
  void draw(const Draw& draw) override;
  Sorted sorted(const Tensor& self, const DimMask& dim, SortOrder order,
                std::int64_t wanted) override;
  void search(const Search& search) override;
  void largest(const Largest& largest) override;
};

CpuLoops& cpu_loops();

}  // namespace shardlab
