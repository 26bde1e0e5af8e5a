// collectives.h - collectives that a program asks for: on a rank's own, plain tensors, over one
// group. They carry no gradients; redistribute() does. Every rank of the group takes part, with
// tensors of one dtype and of shapes that fit. Dims may count from the end.
#pragma once

#include <cstdint>

#include "base/reduce_op.h"
#include "comm/process_group.h"
#include "mesh/operand.h"

namespace shardlab {

// All fail with Value for a distributed tensor, Unsupported for one that requires a gradient,
// Runtime where ranks bring what does not fit together.
DTensor all_reduce(Operand x, ReduceOp op, ProcessGroup& group);
/// What all ranks bring, one after the other along `dim`; all bring as much.
DTensor all_gather(Operand x, std::int64_t dim, ProcessGroup& group);
/// This rank's chunk, along `dim`, of the reduction; chunks as those of Shard.
DTensor reduce_scatter(Operand x, std::int64_t dim, ReduceOp op, ProcessGroup& group);
/// Rank i gets the i-th chunk along `split_dim`; what arrives is put together along `concat_dim`.
DTensor all_to_all(Operand x, std::int64_t split_dim, std::int64_t concat_dim, ProcessGroup& group);
/// What the rank at place `source` of the group brings. Fails with Value for no such place.
DTensor broadcast(Operand x, std::int64_t source, ProcessGroup& group);
void barrier(ProcessGroup& group, SourceLine place = {});

}  // namespace shardlab
