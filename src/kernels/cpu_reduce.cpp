// Folds on the CPU. Integers are computed in i64, f16 and bf16 in f32, rounded once.
#include <cstring>

#include "kernels/cpu_loops.h"
#include "kernels/row_reduce.h"

namespace shardlab {

namespace {

template <typename Op>
void fold_by(DType compute, const Tensor& self, const DimMask& reduced, const Tensor& out) {
  with_compute_type<kAllKinds>(compute, [&]<typename T>(T) {
    if constexpr (Complex<T> && (std::is_same_v<Op, MaxOp> || std::is_same_v<Op, MinOp>)) {
      refuse_dtype(compute);
    } else {
      const auto results = reduce_with<Op, T>(self, RowLayout(self, reduced));
      store_row_major(out, results.get(), dtype_of<T>());
    }
  });
}

// Whether a byte is not 0: all are where the first one is and each equals the next.
bool has_true(const unsigned char* bytes, std::size_t count) {
  return count > 0 && (bytes[0] != 0 || std::memcmp(bytes, bytes + 1, count - 1) != 0);
}

// Every byte but 0 is true, as in bytes that are viewed as bools.
template <bool any>
void fold_truth(const Tensor& self, const DimMask& reduced, const Tensor& out) {
  Rows<bool> rows(self, reduced);
  const auto truths = scratch<bool>(rows.count());
  const auto size = static_cast<std::size_t>(rows.size());
  for (std::int64_t i = 0; i < rows.count(); ++i) {
    const auto* row = reinterpret_cast<const unsigned char*>(rows.row(i));
    truths[i] = any ? has_true(row, size) : std::memchr(row, 0, size) == nullptr;
  }
  store_row_major(out, truths.get(), DType::kBool);
}

}  // namespace

void CpuLoops::fold(Fold fold, DType compute, const Tensor& self, const DimMask& reduced,
                    const Tensor& out) {
  switch (fold) {
    case Fold::kSum:
      return fold_by<SumOp>(compute, self, reduced, out);
    case Fold::kProduct:
      return fold_by<ProdOp>(compute, self, reduced, out);
    case Fold::kMax:
      return fold_by<MaxOp>(compute, self, reduced, out);
    case Fold::kMin:
      return fold_by<MinOp>(compute, self, reduced, out);
    case Fold::kAny:
      return fold_truth<true>(self, reduced, out);
    case Fold::kAll:
      return fold_truth<false>(self, reduced, out);
    case Fold::kLast:
      break;
  }
}

}  // namespace shardlab
