// The shape of a result follows from the call of one rank: lengths give the pieces of all ranks.
#include "comm/call.h"

namespace shardlab {

namespace {

TensorMeta with_size(const TensorMeta& meta, std::int32_t dim, std::int64_t size) {
  Dims shape = meta.shape;
  shape[static_cast<std::size_t>(dim)] = size;
  return contiguous_meta(shape, meta.dtype);
}

}  // namespace

bool gives_tensor(CollectiveKind kind) {
  return kind != CollectiveKind::kBatch && kind != CollectiveKind::kAllGatherBytes &&
         kind != CollectiveKind::kBarrier && kind != CollectiveKind::kSplit;
}

TensorMeta result_meta(const Call& call, std::int64_t rank) {
  check_invariant(gives_tensor(call.kind), "only some collectives give a tensor");
  const auto own = static_cast<std::size_t>(rank);
  switch (call.kind) {
    case CollectiveKind::kAllReduce:
    case CollectiveKind::kReduce:
      return contiguous_meta(call.x->shape(), call.x->dtype());
    case CollectiveKind::kReduceScatter:
      return with_size(call.x->meta(), call.dim, call.lengths[own]);
    case CollectiveKind::kAllToAll:
      return with_size(with_size(call.x->meta(), call.dim, call.lengths[own]), call.concat_dim,
                       call.concat_lengths().total());
    case CollectiveKind::kScatter:
      return with_size(*call.expected, call.dim, call.lengths[own]);
    case CollectiveKind::kSend:
      return contiguous_meta(Dims{0}, call.x->dtype());
    case CollectiveKind::kBroadcast:
    case CollectiveKind::kPermute:
    case CollectiveKind::kRecv:
      return contiguous_meta(call.expected->shape, call.expected->dtype);
    default:  // all_gather, gather
      return with_size(call.x->meta(), call.dim, call.lengths.total());
  }
}

bool reducible(DType dtype, ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kProduct:
      return true;
    case ReduceOp::kAvg:
      return !is_integral(dtype);
    case ReduceOp::kMax:
    case ReduceOp::kMin:
      return !is_complex(dtype);
    case ReduceOp::kBitAnd:
    case ReduceOp::kBitOr:
    case ReduceOp::kBitXor:
      return is_integral(dtype);
  }
  return false;
}

}  // namespace shardlab
