// process_group.h - a named, ordered set of ranks with its communicator, and the one place where
// collectives are counted and observed. One object per rank, used by that rank only.
#pragma once

#include <memory>
#include <string>

#include "comm/communicator.h"

namespace shardlab {

/// One collective as entered by one rank.
struct CollectiveRecord {
  CollectiveKind kind = CollectiveKind::kBarrier;
  std::string group;  ///< mesh dim name, several joined by "_", or "world"
  std::int64_t group_size = 0;
  DType dtype = DType::kF32;
  Dims input_shape;              ///< this rank's input
  ReduceOp op = ReduceOp::kSum;  ///< reductions only
  double sent_bytes = 0;         ///< what a ring would send from this rank (scenarios/README.md)
  SourcePosition position;
};

/// Forwards to the communicator and tells the running rank's observer.
class ProcessGroup {
 public:
  ProcessGroup(std::unique_ptr<Communicator> communicator, std::string name)
      : communicator_(std::move(communicator)), name_(std::move(name)) {}

  const std::string& name() const { return name_; }
  std::int64_t rank() const { return communicator_->rank(); }
  std::int64_t size() const { return communicator_->size(); }
  std::span<const std::int64_t> ranks() const { return communicator_->ranks(); }
  /// Uncounted access: placing inputs, verification, control.
  Communicator& communicator() { return *communicator_; }

  Tensor all_reduce(const Tensor& x, ReduceOp op, Issue issue = Issue::kWait);
  Tensor all_gather(const Tensor& x, std::int64_t dim, Lengths lengths, Issue issue = Issue::kWait);
  Tensor reduce_scatter(const Tensor& x, std::int64_t dim, Lengths lengths, ReduceOp op,
                        Issue issue = Issue::kWait);
  Tensor all_to_all(const Tensor& x, std::int64_t split_dim, Lengths split_lengths,
                    std::int64_t concat_dim, Lengths concat_lengths, Issue issue = Issue::kWait);
  Tensor broadcast(const Tensor& x, std::int64_t source, const TensorMeta& meta);
  Tensor permute(const Tensor& x, std::int64_t to, std::int64_t from, const TensorMeta& received);
  std::vector<Tensor> batch(std::span<const SendRecv> exchange);
  void barrier();

 private:
  std::unique_ptr<Communicator> communicator_;
  std::string name_;
};

}  // namespace shardlab
