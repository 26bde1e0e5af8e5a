// Cross entropy over logits whose classes are cut: three small all_reduces instead of a gather of
// the logits, and none on the way back. As torch.distributed.tensor.parallel.loss_parallel does it.
#include "ops/loss/loss_parallel.h"

#include "ops/family.h"

namespace shardlab {
namespace {

DTensor without_terms(Calls& calls, const DTensor& x) {
  return calls.redistribute(x, without_partials(x.spec()->placements()));
}

// One loss, forward or back: logits [samples, classes] or [classes], target [samples] or [].
class ParallelLoss {
 public:
  ParallelLoss(Calls& calls, const Arguments& args)
      : calls_(calls), args_(args), reduction_(loss_reduction(args[3])) {
    const DTensor& logits = args[0].tensor();
    if (logits.ndim() < 1 || logits.ndim() > 2) {
      fail(Fix{"make them [samples, classes]: logits.flatten(0, -2)"},
           "loss_parallel takes logits of 1 or 2 dims, not {}", logits.ndim());
    }
    dim_ = logits.ndim() > 1 ? 1 : 0;
    std::size_t cuts = 0;
    for (std::size_t i = 0; logits.distributed() && i < logits.spec()->placements().size(); ++i) {
      if (!logits.spec()->placement(i).is_shard(dim_)) continue;
      mesh_dim_ = i;
      ++cuts;
    }
    if (cuts != 1) {
      throw Error(
          ErrorKind::kValue,
          fmt::format("loss_parallel: the classes are cut on {} mesh dims; they must be cut on one",
                      cuts))
          .with("op", fmt::format("loss_parallel of logits {}",
                                  logits.distributed() ? to_string(logits.spec()->placements())
                                                       : "that are a plain tensor"))
          .with("fix", "cut the last dim once, or use cross_entropy");
    }
    target_ = on_mesh(args[1].tensor());
    known_ = calls.one("ne.Scalar", {target_, args[4]});
    class_ = calls.one("mul.Tensor", {target_, known_});  // ignored targets read class 0
  }

  NllOfPieces forward(const DTensor& logs) {
    const DTensor chosen = whole(calls_.one("gather", {logs, dim_, with_class_dim(class_)}));
    const DTensor losses = calls_.one("neg", {calls_.one("squeeze.dim", {chosen, dim_})});
    const DTensor shares = sample_weights(logs.dtype());
    const DTensor weighted = calls_.one("mul.Tensor", {losses, shares});
    const DTensor counted =
        calls_.one("where.self", {known_, weighted, calls_.one("zeros_like", {weighted})});
    DTensor weight = calls_.one("sum", {shares});
    if (reduction_ == LossReduction::kMean) weight = without_terms(calls_, weight);
    if (reduction_ == LossReduction::kNone) weight = calls_.one("zeros_like", {weight});
    return {reduced(counted, weight), weight};
  }

  /// (softmax - one hot) * share of the sample * gradient of its loss
  DTensor backward(const DTensor& logs, const DTensor& weight, const DTensor& gradient) {
    DTensor rows = calls_.one("mul.Tensor", {sample_weights(logs.dtype()), gradient});
    if (reduction_ == LossReduction::kMean) rows = calls_.one("div.Tensor", {rows, weight});
    const DTensor hit = calls_.one("eq.Tensor", {with_class_dim(class_), classes(logs)});
    const DTensor slope = calls_.one(
        "sub.Tensor", {calls_.one("exp", {logs}), calls_.one("_to_copy", {hit, logs.dtype()})});
    return calls_.one("mul.Tensor", {slope, with_class_dim(rows)});
  }

 private:
  const MeshLayout* layout() const { return args_[0].tensor().spec()->layout(); }

  /// A plain tensor is equal on all ranks: a replica.
  DTensor on_mesh(const DTensor& x) const {
    if (x.distributed()) return x;
    return DTensor(x.local(), layout()->arena().spec(layout(), Placements(layout()->ndim()),
                                                     contiguous_meta(x.shape(), x.dtype())));
  }
  DTensor placed(const DTensor& x, Placement placement) const {
    Placements placements = x.spec()->placements();
    placements[mesh_dim_] = placement;
    return calls_.redistribute(x, placements);
  }
  /// The reduction that is pending where classes are cut, carried out.
  DTensor whole(const DTensor& x) const { return placed(x, Placement::replicate()); }

  DTensor with_class_dim(const DTensor& x) const { return calls_.one("unsqueeze", {x, dim_}); }

  /// This rank's class numbers, laid out like the logits' class dim.
  DTensor classes(const DTensor& logs) const {
    const std::int64_t count = logs.shape()[index_of(dim_)];
    const DTensor all = on_mesh(calls_.one("arange", {count, target_.dtype()}));
    const Placement& cut = args_[0].tensor().spec()->placement(mesh_dim_);
    const Placement along = cut.is_strided_shard() ? Placement::strided_shard(0, cut.split_factor)
                                                   : Placement::shard(0);
    const DTensor own = placed(all, along);
    return dim_ == 0 ? own : calls_.one("unsqueeze", {own, 0});
  }

  /// The weight of each sample: that of its class, 0 when ignored.
  DTensor sample_weights(DType dtype) const {
    const DTensor counts = calls_.one("_to_copy", {known_, dtype});
    if (!args_[2].is_tensor()) return counts;
    const DTensor weight = on_mesh(args_[2].tensor());
    const DTensor flat = reshape(calls_, class_, Dims{class_.numel()});
    const DTensor picked = calls_.one("index_select", {weight, 0, flat});
    return calls_.one("mul.Tensor", {reshape(calls_, picked, class_.shape()), counts});
  }

  DTensor reduced(const DTensor& losses, const DTensor& weight) const {
    if (reduction_ == LossReduction::kNone) return losses;
    const DTensor sum = calls_.one("sum", {losses});
    return reduction_ == LossReduction::kSum ? sum : calls_.one("div.Tensor", {sum, weight});
  }

  Calls& calls_;
  const Arguments& args_;
  LossReduction reduction_;
  std::int64_t dim_ = 0;
  std::size_t mesh_dim_ = 0;
  DTensor target_, known_, class_;
};

Results loss_parallel(Calls& calls, const OpRow&, const Arguments& args) {
  ParallelLoss loss(calls, args);
  const DTensor& logits = args[0].tensor();
  const DTensor logs = log_softmax_of_pieces(calls, logits, logits.ndim() > 1 ? 1 : 0);
  NllOfPieces result = loss.forward(logs);
  return {result.loss, logs, result.total_weight};
}

std::vector<DTensor> loss_parallel_gradient(const GradContext& context) {
  if (context.needs(2)) {
    fail(ErrorKind::kUnsupported, Fix{"pass weight.detach()"},
         "loss_parallel: the weights of the classes have no gradient");
  }
  const DTensor& gradient = context.grads[0];
  if (!gradient.defined() || !context.needs(0)) return {};
  return {nll_gradient_of_pieces(context.calls, context.inputs, context.outputs[1].tensor(),
                                 context.outputs[2].tensor(), gradient)};
}

}  // namespace

DTensor log_softmax_of_pieces(Calls& calls, const DTensor& logits, std::int64_t dim) {
  const DType dtype = logits.dtype();
  DTensor x = without_terms(calls, logits);
  if (is_half(dtype)) x = calls.one("_to_copy", {x, DType::kF32});
  const DTensor largest = without_terms(calls, calls.one("amax", {x, Dims{dim}, true}));
  const DTensor shifted = calls.one("sub.Tensor", {x, largest});
  const DTensor total = without_terms(
      calls, calls.one("sum.dim_IntList", {calls.one("exp", {shifted}), Dims{dim}, true}));
  const DTensor logs = calls.one("sub.Tensor", {shifted, calls.one("log", {total})});
  return is_half(dtype) ? calls.one("_to_copy", {logs, dtype}) : logs;
}

NllOfPieces nll_of_pieces(Calls& calls, const Arguments& args, const DTensor& logs) {
  return ParallelLoss(calls, args).forward(logs);
}

DTensor nll_gradient_of_pieces(Calls& calls, const Arguments& args, const DTensor& logs,
                               const DTensor& total_weight, const DTensor& gradient) {
  return ParallelLoss(calls, args).backward(logs, total_weight, gradient);
}

void register_loss_parallel(OpRegistry& registry) {
  OpRow row;
  row.op = parse_op_schema(
      "shardlab::loss_parallel(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, "
      "int ignore_index=-100) -> (Tensor loss, Tensor log_probabilities, Tensor total_weight)");
  row.compute = Handler{loss_parallel};
  row.gradient = {loss_parallel_gradient, "target weight result1 result2"};
  row.flags = kCollective;
  row.why = "ranks share each sample's maximum, sum and chosen class, not the logits";
  registry.add(std::move(row));
}

}  // namespace shardlab
