// Exchanges are linear maps from the tensors that all ranks send to those that all ranks receive;
// the adjoint of each is another one of them. A sum that every rank receives is its own adjoint:
// every rank's result depends on every rank's term. The adjoint of sending from one rank to all is
// a sum, and the other way round.
#include "api/exchange.h"

#include <utility>

#include "autograd/grad_node.h"
#include "base/error.h"
#include "comm/observer.h"
#include "dispatch/plain_calls.h"

namespace shardlab {

namespace {

using Kind = CollectiveKind;

Tensor performed(const Exchange& exchange, const DTensor& operand) {
  ProcessGroup& group = *exchange.group;
  const Tensor& x = operand.local();
  switch (exchange.kind) {
    case Kind::kAllReduce:
      return group.all_reduce(x, exchange.op);
    case Kind::kAllGather:
      return group.all_gather(x, exchange.dim, exchange.received);
    case Kind::kReduceScatter:
      return group.reduce_scatter(x, exchange.dim, exchange.sent, exchange.op);
    case Kind::kAllToAll:
      return group.all_to_all(x, exchange.split_dim, exchange.sent, exchange.dim,
                              exchange.received);
    case Kind::kBroadcast:
      return group.broadcast(x, exchange.root, contiguous_meta(x.shape(), x.dtype()));
    case Kind::kReduce: {
      const Tensor sum = group.reduce(x, exchange.root, ReduceOp::kSum);
      return sum.defined() ? sum : plain_calls().one("aten::zeros_like", {operand}).local();
    }
    default:
      fail(ErrorKind::kInternal, "a program has no {}", to_string(exchange.kind));
  }
}

Exchange adjoint(Exchange exchange) {
  switch (exchange.kind) {
    case Kind::kAllGather:
      exchange.kind = Kind::kReduceScatter;
      break;
    case Kind::kReduceScatter:
      exchange.kind = Kind::kAllGather;
      break;
    case Kind::kAllToAll:
      std::swap(exchange.dim, exchange.split_dim);
      break;
    case Kind::kBroadcast:
      exchange.kind = Kind::kReduce;
      break;
    case Kind::kReduce:
      exchange.kind = Kind::kBroadcast;
      break;
    default:
      break;
  }
  std::swap(exchange.sent, exchange.received);
  return exchange;
}

class ExchangeNode final : public GradNode {
 public:
  explicit ExchangeNode(const Exchange& exchange)
      : GradNode(to_string(exchange.kind)), adjoint_(adjoint(exchange)) {}
  // Recorded where a gradient of the gradient is wanted: exchanged() checks whether the tape runs.
  std::vector<DTensor> run(std::span<const DTensor> grads, Graph) override {
    return {exchanged(adjoint_, grads[0])};
  }

 private:
  Exchange adjoint_;
};

}  // namespace

bool carries_gradients(Kind kind, ReduceOp op) {
  if (kind == Kind::kAllReduce) return op == ReduceOp::kSum || op == ReduceOp::kAvg;
  return kind != Kind::kReduceScatter || op == ReduceOp::kSum;
}

DTensor exchanged(const Exchange& exchange, const DTensor& x) {
  DTensor result(performed(exchange, x));
  report_placed(PlacedRecord::Kind::kCollected, x, result);
  if (!records(x)) return result;
  const auto node = make_ref<ExchangeNode>(exchange);
  node->connect(x);
  attach(result, node, 0);
  return result;
}

}  // namespace shardlab
