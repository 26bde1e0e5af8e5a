// Reading and writing at positions that tensors of indices name together: the indexed dims become
// the rows of a table, whose rows are looked up or written.
#include "ops/index/indexing.h"

#include "ops/family.h"

namespace shardlab {
namespace {

bool indexes_nothing(const ArgumentList& indices) {
  return std::ranges::none_of(indices, [](const Argument& index) { return index.is_tensor(); });
}

/// A call as one on rows: the indexed dims are moved to the front and joined.
class Lookup {
 public:
  Lookup(Calls& calls, const OpRow& row, const Dims& shape, const ArgumentList& indices)
      : calls_(calls), shape_(shape) {
    std::vector<const TensorMeta*> metas;
    for (const Argument& index : indices) {
      metas.push_back(index.is_tensor() ? &index.tensor().meta() : nullptr);
    }
    refuse_masks(row.op, metas);
    indexing_ = read_indices(row.op, metas);
    order_ = indexing_.indexed;
    for (std::int64_t dim = 0; dim < static_cast<std::int64_t>(shape_.size()); ++dim) {
      if (!indexing_.is_indexed(dim)) order_.push_back(dim);
    }
    DTensor rows;
    for (std::size_t i = indexing_.indexed.size(); i-- > 0;) {
      const std::size_t dim = index_of(indexing_.indexed[i]);
      const DTensor steps =
          calls_.one("aten::mul.Scalar", {places_of(indices[dim].tensor(), shape_[dim]), rows_});
      rows = rows.defined() ? calls_.one("aten::add.Tensor", {rows, steps}) : steps;
      rows_ *= shape_[dim];
    }
    positions_ = reshape(calls_, rows, Dims{product(indexing_.broadcast)});
  }

  /// Row of the table for each element of the indices' common shape.
  const DTensor& positions() const { return positions_; }
  Dims result_shape() const { return indexing_.result_shape(shape_); }

  /// Self as [rows, columns], and back.
  DTensor table_of(const DTensor& self) const {
    return reshape(calls_, calls_.one("aten::permute", {self, order_}), Dims{rows_, columns()});
  }
  DTensor from_table(const DTensor& table) const {
    Dims sizes;
    for (const std::int64_t dim : order_) sizes.push_back(shape_[index_of(dim)]);
    return moved_back(reshape(calls_, table, sizes), order_);
  }

  /// The results of the call as [positions, columns], and back.
  DTensor found_of(const DTensor& result) const {
    return reshape(calls_, calls_.one("aten::permute", {result, found_order()}),
                   Dims{product(indexing_.broadcast), columns()});
  }
  DTensor from_found(const DTensor& found) const {
    Dims sizes = indexing_.broadcast;
    for (const std::int64_t dim : other_dims()) sizes.push_back(shape_[index_of(dim)]);
    return moved_back(reshape(calls_, found, sizes), found_order());
  }

 private:
  /// Positions along one dim, counted from its front.
  DTensor places_of(const DTensor& index, std::int64_t size) const {
    const DTensor wide = calls_.one("aten::_to_copy", {index, DType::kI64});
    const DTensor from_end = calls_.one("aten::add.Scalar", {wide, size});
    const DTensor wrapped =
        calls_.one("aten::where.self", {calls_.one("aten::lt.Scalar", {wide, 0}), from_end, wide});
    // A look-up in the list of all places refuses others.
    const DTensor places = calls_.one("aten::arange", {size, DType::kI64});
    const DTensor found = calls_.one("aten::index_select",
                                     {places, 0, reshape(calls_, wrapped, Dims{wrapped.numel()})});
    return reshape(calls_, found, index.shape());
  }

  Dims other_dims() const {
    return {order_.begin() + static_cast<std::ptrdiff_t>(indexing_.indexed.size()), order_.end()};
  }
  std::int64_t columns() const {
    std::int64_t count = 1;
    for (const std::int64_t dim : other_dims()) count *= shape_[index_of(dim)];
    return count;
  }
  /// Dims of the result: those of the indices' common shape first.
  Dims found_order() const {
    Dims order;
    for (std::size_t i = 0; i < indexing_.broadcast.size(); ++i) {
      order.push_back(indexing_.insert_at() + static_cast<std::int64_t>(i));
    }
    for (const std::int64_t dim : other_dims()) order.push_back(indexing_.output_dim(dim));
    return order;
  }
  /// `order` undone.
  DTensor moved_back(const DTensor& x, const Dims& order) const {
    Dims back(order.size(), 0);
    for (std::size_t i = 0; i < order.size(); ++i) {
      back[index_of(order[i])] = static_cast<std::int64_t>(i);
    }
    return contiguous(calls_, calls_.one("aten::permute", {x, back}));
  }

  Calls& calls_;
  Dims shape_;
  Indexing indexing_;
  Dims order_;  // of self's dims in the table
  DTensor positions_;
  std::int64_t rows_ = 1;
};

}  // namespace

bool is_mask(const TensorMeta& index) {
  return index.dtype == DType::kBool || index.dtype == DType::kU8;
}

Dims Indexing::result_shape(const Dims& self) const {
  Dims shape;
  for (std::size_t d = 0; d <= self.size(); ++d) {
    const auto dim = static_cast<std::int64_t>(d);
    if (dim == insert_at()) {
      for (const std::int64_t size : broadcast) shape.push_back(size);
    }
    if (d < self.size() && !is_indexed(dim)) shape.push_back(self[d]);
  }
  return shape;
}

Indexing read_indices(const OpDescriptor& op, std::span<const TensorMeta* const> indices) {
  static const TensorMeta kPositions{{1}, {1}, DType::kI64};
  Indexing result;
  std::vector<const TensorMeta*> present;
  std::int64_t dim = 0;
  for (const TensorMeta* index : indices) {
    const bool mask = index != nullptr && is_mask(*index);
    const std::size_t covered = mask ? index->shape.size() : 1;
    if (index != nullptr) {
      present.push_back(mask ? &kPositions : index);
      const bool gap = !result.indexed.empty() && result.indexed.back() + 1 != dim;
      if (gap) result.adjacent = false;
      for (std::size_t i = 0; i < covered; ++i) {
        result.indexed.push_back(dim + static_cast<std::int64_t>(i));
      }
    }
    dim += static_cast<std::int64_t>(covered);
  }
  result.broadcast = broadcast_shapes(op, present);
  return result;
}

void refuse_masks(const OpDescriptor& op, std::span<const TensorMeta* const> indices) {
  const auto masks = [](const TensorMeta* index) { return index != nullptr && is_mask(*index); };
  if (std::ranges::none_of(indices, masks)) return;
  fail(ErrorKind::kUnsupported, Fix{"x[mask] = number works; else use where or masked_fill"},
       "{}: indexing with a mask depends on data", op.name());
}

void check_indices(const OpDescriptor& op, std::span<const TensorMeta* const> indices,
                   const TensorMeta& self) {
  for (const TensorMeta* index : indices) {
    if (index == nullptr || is_mask(*index)) continue;
    if (index->dtype == DType::kI64 || index->dtype == DType::kI32) continue;
    fail(Fix{"cast it: index.to(torch.int64)"},
         "{}: the dtype of an index must be i64 or i32, not {}", op.name(),
         to_string(index->dtype));
  }
  if (indices.size() > self.shape.size()) {
    fail(Fix{fmt::format("leave out the last {}", indices.size() - self.shape.size())},
         "{}: there are {} indices for a tensor of {} dims", op.name(), indices.size(),
         self.shape.size());
  }
}

Results index_locally(Calls& calls, const OpRow& row, const Arguments& args) {
  const DTensor& self = args[0].tensor();
  const ArgumentList& indices = args[1].list();
  if (indexes_nothing(indices)) return calls("aten::clone", {self});
  const Lookup lookup(calls, row, self.shape(), indices);
  return {lookup.from_found(
      calls.one("aten::index_select", {lookup.table_of(self), 0, lookup.positions()}))};
}

Results index_put_locally(Calls& calls, const OpRow& row, const Arguments& args) {
  const DTensor& self = args[0].tensor();
  const ArgumentList& indices = args[1].list();
  if (indexes_nothing(indices)) {
    fail(ErrorKind::kUnsupported, Fix{"use copy_: x.copy_(values)"}, "{}: there is no index",
         row.name());
  }
  const Lookup lookup(calls, row, self.shape(), indices);
  const DTensor values =
      lookup.found_of(calls.one("aten::expand", {args[2].tensor(), lookup.result_shape()}));
  const DTensor rows = calls.one(
      "aten::expand", {calls.one("aten::unsqueeze", {lookup.positions(), 1}), values.shape()});
  const char* op = args[3].to_bool() ? "aten::scatter_add" : "aten::scatter.src";
  return {lookup.from_table(calls.one(op, {lookup.table_of(self), 0, rows, values}))};
}

}  // namespace shardlab
