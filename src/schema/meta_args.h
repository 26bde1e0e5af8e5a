// meta_args.h - shape inference as a row declares it: the arguments that a meta function sees, and
// the sizes, strides and dtypes that it gives.
#pragma once

#include <boost/container/small_vector.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

#include "schema/argument.h"
#include "schema/op_descriptor.h"

namespace shardlab {

/// Null for None.
using MetaList = InlineVector<const TensorMeta*, 4>;

/// Arguments as shape inference sees them: tensors are metas (global ones in propagation, local
/// ones when outputs are allocated), all else as given.
class MetaArgs {
 public:
  /// `metas`: all tensor arguments in argument order, lists flattened; null for None.
  MetaArgs(const OpDescriptor& op, const Arguments& args, MetaList metas);

  /// The op's schema, and the arguments by schema index.
  const OpDescriptor& op() const { return *op_; }
  const Argument& operator[](std::size_t index) const { return (*args_)[index]; }
  std::size_t size() const { return args_->size(); }
  /// Meta of the tensor argument at schema index `index`; null when None.
  const TensorMeta* tensor(std::size_t index) const;
  /// Metas of a Tensor[] argument.
  std::span<const TensorMeta* const> tensors(std::size_t index) const;

 private:
  const OpDescriptor* op_;
  const Arguments* args_;
  MetaList metas_;
  // Per argument, index of its first meta; size() + 1 entries.
  InlineVector<std::uint32_t, 12> first_;
};

/// One result of shape inference; `present` false = there is no such tensor (masked off).
struct OutputMeta {
  TensorMeta meta;
  bool present = true;
};
/// Each tensor result has one, Tensor[] flattened. Most ops have one, which needs no memory of its
/// own: shapes are inferred at every call, to compare the local pieces with the placements.
using OutputMetas = boost::container::small_vector<OutputMeta, 2>;
/// Shape, stride and dtype of every tensor result (K-22). Fails with Value where the op refuses the
/// call. Pure.
using MetaFn = OutputMetas (*)(const MetaArgs& args);

}  // namespace shardlab
