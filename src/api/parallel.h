// parallel.h - tensor-parallel styles for programs in C++: the placement of a layer's weights on
// one mesh dim, and of its input and output. Placements on other mesh dims stay as they are.
// Differentiable. Names as in torch.distributed.tensor.parallel.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/tensor_ops.h"
#include "mesh/placement.h"

namespace shardlab {

/// A value brought to `placement` on one mesh dim; a shard's dim may count from the end. The same
/// handle when the value has this placement already.
///   fails  Value: a plain tensor, or no such mesh dim
DTensor on_mesh_dim(Operand x, std::string_view mesh_dim, Placement placement);

/// A linear layer: weight [out, in], bias [out] or undefined.
struct LinearWeights {
  DTensor weight = {};
  DTensor bias = {};
};

// Each style takes plain or distributed weights; plain ones are placed without communication.
/// Rows of the weight, so columns of the result: weight and bias S(0).
LinearWeights column_wise_weights(const LinearWeights& weights, const MeshLayout* mesh,
                                  std::string_view mesh_dim);
/// Columns of the weight: weight S(1), bias replicated.
LinearWeights row_wise_weights(const LinearWeights& weights, const MeshLayout* mesh,
                               std::string_view mesh_dim);

/// x replicated in; the result is cut along its last dim, or placed as `output`.
DTensor column_wise(Operand x, const LinearWeights& weights, std::string_view mesh_dim,
                    Placement output = Placement::shard(-1));
/// x cut along its last dim; the pending sum becomes `output`.
DTensor row_wise(Operand x, const LinearWeights& weights, std::string_view mesh_dim,
                 Placement output = Placement::replicate());
/// For layers that work row by row (norms, dropout): x cut along its sequence dim.
DTensor sequence_parallel(Operand x, std::string_view mesh_dim, std::int64_t dim = 1);

/// Options of the loss for classes and samples.
struct ClassLoss {
  DTensor weight = {};               ///< one number per class, or undefined
  std::string reduction = "mean";    ///< "mean", "sum" or "none"
  std::int64_t ignore_index = -100;  ///< samples of this class do not count
};
/// cross_entropy of logits whose classes, the last dim, are cut on one mesh dim: three all_reduces
/// of a number per sample instead of a gather of the logits, and none in backward. Logits [samples,
/// classes] or [classes], target [samples] or []; a plain target is a replica.
///   fails  Value: classes that are not cut on exactly one mesh dim, an unknown reduction
DTensor loss_parallel(Operand logits, const DTensor& target, const ClassLoss& loss = {});

using NamedTensors = std::map<std::string, DTensor>;
/// Parameters, by name with `*` for any run of characters, and the shape of their type:
/// {"layers.*.w1", "[_, _@tp]"}. "_" means a size that the pattern leaves open.
using ShardPattern = std::pair<std::string, std::string>;
/// Places every parameter by the first pattern that its name matches; others are left as they are,
/// plain ones replicated.
///   fails  Value: a pattern that no name matches, or a type that does not fit the parameter
NamedTensors shard(const NamedTensors& parameters, const MeshLayout* mesh,
                   const std::vector<ShardPattern>& patterns, SourceLine place = {});

}  // namespace shardlab
