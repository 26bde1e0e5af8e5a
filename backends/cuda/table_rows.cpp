// Folds, running values and spreads of rows as calls of the table. A fold gives each row
// to one block of threads, so a few long rows are cut first.
#include <algorithm>

#include "backends/cuda/pieces.h"
#include "backends/cuda/table_loops.h"

namespace shardlab::cuda {

namespace {

constexpr std::int64_t kLeastPiece = 8192;  // elements: some for each thread of a block
constexpr std::int64_t kMostPieces = 2048;  // of all rows: more blocks than a GPU runs at once

DType folded_dtype(const FoldCall& call) {
  return call.fold == Fold::kAny || call.fold == Fold::kAll ? DType::kBool : call.compute;
}

}  // namespace

Rows rows_of(const RowLayout& layout) {
  Rows rows;
  Walk walk(layout.permuted().shape());
  walk.add_read(rows.source, layout.permuted());
  rows.shape = walk.finish();
  rows.rows = layout.rows();
  rows.size = layout.size();
  return rows;
}

Pieces pieces_of(std::int64_t rows, std::int64_t size) {
  const auto parts = [](std::int64_t all, std::int64_t part) { return (all + part - 1) / part; };
  const std::int64_t wanted = std::min(parts(size, kLeastPiece), kMostPieces / rows);
  if (wanted <= 1) return {1, size};
  const std::int64_t piece = parts(size, wanted);
  return {parts(size, piece), piece};
}

void TableLoops::fold_rows(FoldCall call) {
  if (call.rows.rows == 0) return;
  const std::int64_t rows = call.rows.rows;
  const Pieces cut = pieces_of(rows, call.rows.size);
  call.pieces = {1, call.rows.size};
  if (cut.per_row == 1) return issue(table_.fold, call, "reduction");
  const Tensor folded = empty(device(), Dims{rows, cut.per_row}, folded_dtype(call));
  FoldCall first = call;
  first.pieces = cut;
  first.out = writable(folded);
  issue(table_.fold, first, "reduction");
  call.rows = rows_of(RowLayout(folded, DimMask{0, 1}));
  call.pieces = {1, cut.per_row};
  issue(table_.fold, call, "reduction");
}

void TableLoops::fold(Fold fold, DType compute, const Tensor& self, const DimMask& reduced,
                      const Tensor& out) {
  const RowLayout layout(self, reduced);
  FoldCall call{};
  call.fold = fold;
  call.compute = compute_dtype_here(compute);
  call.rows = rows_of(layout);
  const Tensor values = empty(device(), Dims{layout.rows()}, folded_dtype(call));
  call.out = writable(values);
  fold_rows(call);
  put_rows(*this, out, values);
}

void TableLoops::scan(Scan kind, const Tensor& self, const DimMask& dim, const Tensor& out,
                      const Tensor& places) {
  const RowLayout layout(self, dim);
  const Dims& shape = layout.permuted().shape();
  const Tensor values = empty(device(), shape, compute_dtype_here(out.dtype()));
  ScanCall call{};
  call.scan = kind;
  call.compute = values.dtype();
  call.out = writable(values);
  call.rows = rows_of(layout);
  Tensor stood;
  if (places.defined()) {
    stood = empty(device(), shape, DType::kI64);
    call.indices = static_cast<std::int64_t*>(writable(stood));
  }
  if (call.rows.shape.count > 0) issue(table_.scan, call, "running value");
  convert(RowLayout(out, dim).permuted(), values);
  if (stood.defined()) convert(RowLayout(places, dim).permuted(), stood);
}

void TableLoops::spread(const Tensor& self, const DimMask& reduced, const Tensor& means,
                        const Tensor& squares) {
  const DType wide = DType::kF64;
  Dims shape = self.shape();
  for (std::size_t d = 0; d < shape.size(); ++d) shape[d] = reduced[d] ? 1 : shape[d];
  const Tensor sums = folded(*this, Fold::kSum, wide, self, reduced, shape);
  const Scalar count(static_cast<double>(row_size(self, reduced)));
  const Tensor mean = computed(*this, Element::kDiv, wide, shape, {sums, count});
  const Tensor away = computed(*this, Element::kSub, wide, self.shape(), {self, mean});
  const Tensor distances = computed(*this, Element::kSquare, wide, self.shape(), {away});
  fold(Fold::kSum, wide, distances, reduced, squares);
  put_rows(*this, means, mean);
}

}  // namespace shardlab::cuda
