// Sorting by merges as calls of the table: runs of one element are merged to runs of two, of four
// and so on, in one launch for all rows and runs; where the first k are wanted, no run gets longer
// than that.
#include <algorithm>

#include "backends/cuda/table_loops.h"

namespace shardlab::cuda {

Sorted TableLoops::merged(const Sorted& runs, SortOrder order, std::int64_t run,
                          std::int64_t kept) {
  MergeCall call{};
  call.compute = runs.keys.dtype();
  call.order = order;
  call.rows = runs.keys.size(0);
  call.size = runs.keys.size(1);
  call.run = run;
  call.kept = kept;
  call.to_size = call.size / (2 * run) * kept + std::min(call.size % (2 * run), kept);
  const Dims shape{call.rows, call.to_size};
  const Sorted to{empty(device(), shape, call.compute), empty(device(), shape, DType::kI64)};
  call.from = readable(runs.keys);
  if (runs.places.defined()) call.stood = static_cast<const std::int64_t*>(readable(runs.places));
  call.to = writable(to.keys);
  call.places = static_cast<std::int64_t*>(writable(to.places));
  issue(table_.merge, call, "sort");
  return to;
}

Sorted TableLoops::sorted(const Tensor& self, const DimMask& dim, SortOrder order,
                          std::int64_t wanted) {
  const RowLayout rows(self, dim);
  const DType compute = compute_dtype_here(self.dtype());
  const Tensor lined = as_contiguous(*this, rows.permuted(), compute);
  const TensorMeta flat = contiguous_meta(Dims{rows.rows(), rows.size()}, compute);
  Sorted sorted{lined.as_view(flat, lined.offset()), {}};
  std::int64_t run = 1;
  do {  // once for a single element, too, to set its place
    const std::int64_t kept = std::min(2 * run, wanted);
    sorted = merged(sorted, order, run, kept);
    run = kept;
  } while (sorted.keys.size(1) > run);
  return sorted;
}

void TableLoops::search(const Search& search) {
  SearchCall call{};
  call.equals = search.equals;
  call.compute = search.sorted.dtype();
  call.order = search.order;
  call.size = search.sorted.shape().back();
  call.count = search.wanted.numel();
  call.per_row = search.per_row;
  if (call.count == 0) return;
  call.sorted = readable(search.sorted);
  call.wanted = readable(search.wanted);
  call.out = static_cast<std::int64_t*>(writable(search.out));
  issue(table_.search, call, "search");
}

}  // namespace shardlab::cuda
