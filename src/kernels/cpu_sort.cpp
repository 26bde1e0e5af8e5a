// Sorting on the CPU. Elements become entries of an unsigned key and their place, no two of which
// are equal.
#include <algorithm>

#include "kernels/cpu_loops.h"
#include "kernels/rows.h"
#include "kernels/sort_keys.h"

namespace shardlab {

namespace {

template <SortOrder order, typename Key, typename T>
void sort_by(Rows<T>& rows, std::int64_t wanted, T* keys, std::int64_t* places) {
  constexpr std::int64_t kMany = 8;
  const std::int64_t size = rows.size();
  const auto entries = scratch<SortEntry<Key>>(size);
  SortEntry<Key>* const first = entries.get();
  for (std::int64_t i = 0; i < rows.count(); ++i) {
    const T* row = rows.row(i);
    for (std::int64_t j = 0; j < size; ++j) {
      first[j] = {sort_key<order>(row[j]), static_cast<Key>(j)};
    }
    if (wanted < size / kMany) {
      std::partial_sort(first, first + wanted, first + size);
    } else {
      std::sort(first, first + size);
    }
    for (std::int64_t j = 0; j < wanted; ++j) {
      *keys++ = row[first[j].place];
      *places++ = static_cast<std::int64_t>(first[j].place);
    }
  }
}

// A place has the width of a key: rows that have more places take wide ones.
template <SortOrder order, typename T>
void sort_in(Rows<T>& rows, std::int64_t wanted, T* keys, std::int64_t* places) {
  if (static_cast<std::uint64_t>(rows.size()) <= std::numeric_limits<SortKey<T>>::max()) {
    sort_by<order, SortKey<T>, T>(rows, wanted, keys, places);
  } else {
    sort_by<order, std::uint64_t, T>(rows, wanted, keys, places);
  }
}

}  // namespace

Sorted CpuLoops::sorted(const Tensor& self, const DimMask& dim, SortOrder order,
                        std::int64_t wanted) {
  Sorted made;
  with_compute_type<kNoComplex>(self.dtype(), [&](auto type) {
    using T = decltype(type);
    Rows<T> rows(self, dim);
    const Dims shape{rows.count(), wanted};
    made = {empty(device(), shape, dtype_of<T>()), empty(device(), shape, DType::kI64)};
    T* const keys = RowMajorOutput<T>(made.keys).data();
    auto* const places = RowMajorOutput<std::int64_t>(made.places).data();
    switch (order) {
      case SortOrder::kAscending:
        return sort_in<SortOrder::kAscending>(rows, wanted, keys, places);
      case SortOrder::kDescending:
        return sort_in<SortOrder::kDescending>(rows, wanted, keys, places);
      case SortOrder::kNanFirst:
        return sort_in<SortOrder::kNanFirst>(rows, wanted, keys, places);
    }
  });
  return made;
}

void CpuLoops::search(const Search& search) {
  with_compute_type<kNoComplex>(search.sorted.dtype(), [&](auto type) {
    using T = decltype(type);
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
