// rounds.h - calls of one round, kept alive with the data they point to.
#pragma once

#include <deque>
#include <vector>

#include "backends/shared/call.h"
#include "kernels/cpu_kernels.h"
#include "tensor/cpu_device.h"

namespace shardlab::test {

/// The calls of a group in group order. Members never move once they are made.
class Round {
 public:
  /// Rank after rank: a call of this kind that brings a tensor of this shape.
  Call& add(CollectiveKind kind, const Dims& shape, DType dtype = DType::kF32) {
    tensors_.push_back(empty(*device_, shape, dtype));
    Call& call = bare(kind);
    call.x = &tensors_.back();
    return call;
  }
  Call& bare(CollectiveKind kind) {
    calls_.emplace_back(kind);
    pointers_.push_back(&calls_.back());
    return calls_.back();
  }
  /// A rank that has not come.
  void add_nobody() { pointers_.push_back(nullptr); }

  Lengths lengths(std::vector<std::int64_t> values) {
    lengths_.push_back(std::move(values));
    return lengths_.back();
  }
  /// The part of an all_to_all.
  const Lengths* joined(std::vector<std::int64_t> values) {
    joined_.push_back(lengths(std::move(values)));
    return &joined_.back();
  }
  const TensorMeta* meta(const Dims& shape, DType dtype = DType::kF32) {
    metas_.push_back(contiguous_meta(shape, dtype));
    return &metas_.back();
  }
  Tensor tensor(const Dims& shape, DType dtype = DType::kF32) {
    return empty(*device_, shape, dtype);
  }

  const std::vector<const Call*>& calls() const { return pointers_; }

 private:
  std::unique_ptr<Device> device_ = make_cpu_device(cpu_kernel_table());
  std::deque<Tensor> tensors_;
  std::deque<std::vector<std::int64_t>> lengths_;
  std::deque<Lengths> joined_;
  std::deque<TensorMeta> metas_;
  std::deque<Call> calls_;
  std::vector<const Call*> pointers_;
};

}  // namespace shardlab::test
