// checked_communicator.h - what all backends do alike before ranks meet: looks at a call's
// arguments, fills in a Call, knows the shape of its result, and answers for groups of one.
#pragma once

#include <cstdint>

#include "backends/shared/call.h"

namespace shardlab::backends {

/// A backend fills in perform, enter_and_wait, split and abort. Checks fail with Value on the rank
/// that called, before the others hear of the call.
class CheckedCommunicator : public Communicator {
 public:
  Tensor all_reduce(const Tensor& x, ReduceOp op, Issue issue) override;
  Tensor all_gather(const Tensor& x, std::int64_t dim, Lengths lengths, Issue issue) override;
  Tensor reduce_scatter(const Tensor& x, std::int64_t dim, Lengths lengths, ReduceOp op,
                        Issue issue) override;
  Tensor all_to_all(const Tensor& x, std::int64_t split_dim, Lengths split_lengths,
                    std::int64_t concat_dim, Lengths concat_lengths, Issue issue) override;
  Tensor broadcast(const Tensor& x, std::int64_t source, const TensorMeta& meta) override;
  Tensor scatter(const Tensor& x, std::int64_t source, std::int64_t dim, Lengths lengths,
                 const TensorMeta& meta) override;
  Tensor gather(const Tensor& x, std::int64_t destination, std::int64_t dim,
                Lengths lengths) override;
  Tensor permute(const Tensor& x, std::int64_t to, std::int64_t from,
                 const TensorMeta& received) override;
  std::vector<Tensor> batch(std::span<const SendRecv> exchange) override;
  std::vector<std::string> all_gather_bytes(std::string_view bytes) override;
  void barrier() override;

 protected:
  /// A call whose result is one tensor of this shape; of call.x, all_reduce and reduce_scatter
  /// bring it contiguous. The result is ignored where the rank gets none (gather, permute). kAsync
  /// only for the four calls that take an Issue; what `call` points to lives no longer than
  /// perform.
  virtual Tensor perform(Call& call, const Dims& shape, DType dtype, Issue issue) = 0;
  /// A call whose result is in its part: batch, all_gather_bytes (also in a group of one); barrier.
  virtual void enter_and_wait(Call& call) = 0;

  /// Notes who calls, from where, and waits for `x`, which may be null or undefined.
  static void begin(Call& call, const Tensor* x);
  void check_peer(std::string_view what, std::int64_t peer) const;

 private:
  void check_dim(const Call& call, std::int64_t dim, std::int64_t ndim) const;
  void check_lengths(const Call& call, Lengths lengths) const;
  void check_piece(const Call& call, std::int64_t dim, std::int64_t wanted) const;
  void check_source(const Call& call, const Tensor& x, const TensorMeta& meta) const;
  void check_reducible(const Call& call) const;
  template <typename... Args>
  [[noreturn]] void refuse(const Call& call, fmt::format_string<Args...> format,
                           Args&&... args) const {
    throw Error(ErrorKind::kValue, fmt::format("{} on group {}: {}", to_string(call.kind), name(),
                                               fmt::format(format, std::forward<Args>(args)...)));
  }
};

}  // namespace shardlab::backends
