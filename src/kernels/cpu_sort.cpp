// Sorting on the CPU: entries of an element and its place, no two of which are equal.
#include <algorithm>

#include "kernels/cpu_loops.h"
#include "kernels/rows.h"

namespace shardlab {

namespace {

template <SortOrder order, typename T>
struct SortEntry {
  T key;
  std::int64_t place;

  bool operator<(const SortEntry& other) const {
    if (sorts_before(order, key, other.key)) return true;
    return place < other.place && !sorts_before(order, other.key, key);
  }
};

template <SortOrder order, typename T>
void sort_by(Rows<T>& rows, std::int64_t wanted, T* keys, std::int64_t* places) {
  constexpr std::int64_t kMany = 8;
  const std::int64_t size = rows.size();
  const auto entries = scratch<SortEntry<order, T>>(size);
  auto* const first = entries.get();
  for (std::int64_t i = 0; i < rows.count(); ++i) {
    const T* row = rows.row(i);
    for (std::int64_t j = 0; j < size; ++j) first[j] = {row[j], j};
    if (wanted < size / kMany) {
      std::partial_sort(first, first + wanted, first + size);
    } else {
      std::sort(first, first + size);
    }
    for (std::int64_t j = 0; j < wanted; ++j) {
      *keys++ = first[j].key;
      *places++ = first[j].place;
    }
  }
}

}  // namespace

Sorted CpuLoops::sorted(const Tensor& self, const DimMask& dim, SortOrder order,
                        std::int64_t wanted) {
  Sorted made;
  with_compute_type<kNoComplex>(self.dtype(), [&]<typename T>(T) {
    Rows<T> rows(self, dim);
    const Dims shape{rows.count(), wanted};
    made = {empty(device(), shape, dtype_of<T>()), empty(device(), shape, DType::kI64)};
    T* const keys = RowMajorOutput<T>(made.keys).data();
    auto* const places = RowMajorOutput<std::int64_t>(made.places).data();
    switch (order) {
      case SortOrder::kAscending:
        return sort_by<SortOrder::kAscending>(rows, wanted, keys, places);
      case SortOrder::kDescending:
        return sort_by<SortOrder::kDescending>(rows, wanted, keys, places);
      case SortOrder::kNanFirst:
        return sort_by<SortOrder::kNanFirst>(rows, wanted, keys, places);
    }
  });
  return made;
}

void CpuLoops::search(const Search& search) {
  with_compute_type<kNoComplex>(search.sorted.dtype(), [&]<typename T>(T) {
    const RowMajor<T> sorted(search.sorted), wanted(search.wanted);
    std::int64_t* const out = RowMajorOutput<std::int64_t>(search.out).data();
    const std::int64_t size = search.sorted.shape().back();
    for (std::int64_t i = 0; i < search.wanted.numel(); ++i) {
      out[i] = count_before(sorted.data() + i / search.per_row * size, size, wanted.data()[i],
                            search.order, search.equals);
    }
  });
}

}  // namespace shardlab
