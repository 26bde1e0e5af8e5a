// Look-ups and scatters at indices that are data, and the loss that is made of them.
#include "kernels/element_types.h"
#include "kernels/kernel_args.h"
#include "kernels/kernel_table.h"
#include "kernels/scatter_reduction.h"

namespace shardlab {

namespace {

// A tensor without dims as one of one element; others as they are.
Tensor at_least_one_dim(const Tensor& tensor) {
  if (tensor.dim() > 0) return tensor;
  return tensor.as_view({{1}, {1}, tensor.dtype()}, tensor.offset());
}

// Row-major elements in another shape.
Tensor shaped(const Tensor& values, const Dims& shape) {
  return values.as_view(contiguous_meta(shape, values.dtype()), values.offset());
}

// [n, columns] of the output [indices..., columns], and the n indices as a column.
struct TableLookup {
  TableLookup(Loops& loops, const Tensor& out, const Tensor& index)
      : rows(shaped(out, Dims{index.numel(), out.shape().back()})),
        column(shaped(as_contiguous(loops, index, index.dtype()), Dims{index.numel(), 1})) {
    check_invariant(out.contiguous(), "a lookup's output is contiguous");
  }
  Tensor rows;
  Tensor column;
};

// embedding(weight, indices, padding_idx, scale_grad_by_freq, sparse). Masked: `view` gives the
// rows of the table that are here, the others give zeros and a set mask.
void embedding(Loops& loops, const KernelCall& call) {
  const TableLookup table(loops, call.outputs[0], tensor_arg(call, 1));
  Lookup lookup{table.rows, tensor_arg(call, 0), 0, table.column, {"embedding"}};
  if (call.kernel == KernelId::kEmbedding) return loops.look_up(lookup);
  lookup.view = call.view;
  lookup.mask = empty(loops.device(), table.column.shape(), DType::kBool);
  loops.look_up(lookup);
  put_rows(loops, call.outputs[1], lookup.mask);
}

// index_select(self, dim, index)
void index_select(Loops& loops, const KernelCall& call) {
  const Tensor &out = call.outputs[0], &self = tensor_arg(call, 0);
  if (self.dim() == 0) return loops.convert(out, self);
  const std::size_t dim = wrapped_dim(int_arg(call, 1), self.shape().size());
  const Tensor index = as_contiguous(loops, tensor_arg(call, 2), tensor_arg(call, 2).dtype());
  Dims shape(self.shape().size(), 1);
  shape[dim] = index.numel();
  loops.look_up({out, self, dim, shaped(index, shape), {"index_select"}});
}

// gather(self, dim, index, sparse_grad). Masked: `view` gives the part of self that is here.
void gather(Loops& loops, const KernelCall& call) {
  const Tensor self = at_least_one_dim(tensor_arg(call, 0));
  const std::size_t dim = wrapped_dim(int_arg(call, 1), self.shape().size());
  Lookup lookup{at_least_one_dim(call.outputs[0]),
                self,
                dim,
                at_least_one_dim(tensor_arg(call, 2)),
                {"gather"}};
  if (call.kernel == KernelId::kGatherMasked) {
    lookup.view = call.view;
    lookup.mask = at_least_one_dim(call.outputs[1]);
  }
  loops.look_up(lookup);
}

// scatter(self, dim, index, src or value) and scatter_add, in order along dim.
template <Fold mode>
void scatter(Loops& loops, const KernelCall& call) {
  const Tensor out = at_least_one_dim(call.outputs[0]);
  const Tensor result = empty(loops.device(), out.shape(), compute_dtype(out.dtype()));
  loops.convert(result, at_least_one_dim(tensor_arg(call, 0)));
  const std::size_t dim = wrapped_dim(int_arg(call, 1), out.shape().size());
  LocalArg value = call.args[3];
  if (const auto* tensor = std::get_if<Tensor>(&value)) value = at_least_one_dim(*tensor);
  loops.scatter({mode, result, dim, at_least_one_dim(tensor_arg(call, 2)), value, {"scatter"}});
  loops.convert(out, result);
}

// scatter_reduce(self, dim, index, src, reduce, include_self)
void scatter_reduce(Loops& loops, const KernelCall& call) {
  const Tensor out = at_least_one_dim(call.outputs[0]);
  const DType compute = compute_dtype(out.dtype());
  Tensor result = empty(loops.device(), out.shape(), compute);
  loops.convert(result, at_least_one_dim(tensor_arg(call, 0)));
  const Tensor counts =
      filled(loops, out.shape(), DType::kI64, Scalar(scalar_arg(call, 5).to_bool() ? 1 : 0));
  const std::size_t dim = wrapped_dim(int_arg(call, 1), out.shape().size());
  const ScatterReduction reduction = scatter_reduction_named(*optional_text_arg(call, 4)).value();
  loops.scatter({fold_of(reduction),
                 result,
                 dim,
                 at_least_one_dim(tensor_arg(call, 2)),
                 at_least_one_dim(tensor_arg(call, 3)),
                 {"scatter_reduce"},
                 counts});
  if (reduction == ScatterReduction::kMean) {
    if (compute == DType::kI64) {  // the sum wraps in its own dtype
      loops.convert(out, result);
      loops.convert(result, out);
    }
    const Tensor shares =
        computed(loops, Element::kMaximum, DType::kI64, out.shape(), {counts, Scalar(1)});
    const Element divided = compute == DType::kI64 ? Element::kDivFloor : Element::kDiv;
    result = computed(loops, divided, compute, out.shape(), {result, shares});
  }
  loops.convert(out, result);
}

// 1 / the number of uses of each row's index, of [n, 1].
Tensor shares_of(Loops& loops, const Tensor& index, std::int64_t rows, DType compute) {
  const Tensor uses = filled(loops, Dims{rows, 1}, DType::kI64, Scalar(0));
  loops.scatter({Fold::kSum, uses, 0, index, Scalar(1), {"embedding"}});
  const Tensor counted = picked(loops, uses, 0, index, {"embedding"});
  return computed(loops, Element::kDiv, compute, index.shape(), {Scalar(1.0), counted});
}

// embedding_dense_backward(grad_output, indices, num_weights, padding_idx, scale_grad_by_freq)
void embedding_backward(Loops& loops, const KernelCall& call) {
  const Tensor &out = call.outputs[0], &index = tensor_arg(call, 1);
  const DType compute = compute_dtype(out.dtype());
  const Tensor result = filled(loops, out.shape(), compute, Scalar(0));
  const Tensor grad = as_contiguous(loops, tensor_arg(call, 0), tensor_arg(call, 0).dtype());
  const TableLookup table(loops, grad, index);
  const Dims& column = table.column.shape();
  Tensor rows = table.rows;
  if (scalar_arg(call, 4).to_bool()) {
    const Tensor shares = shares_of(loops, table.column, out.size(0), compute);
    rows = computed(loops, Element::kMul, compute, rows.shape(), {rows, shares});
  }
  const std::int64_t padding = int_arg(call, 3);
  if (padding >= 0) {
    const Tensor skipped =
        tested(loops, Element::kEq, DType::kI64, column, {table.column, Scalar(padding)});
    rows = computed(loops, Element::kWhere, compute, rows.shape(), {skipped, Scalar(0.0), rows});
  }
  // One index for all columns of a row.
  const Tensor wide =
      table.column.as_view({rows.shape(), {1, 0}, index.dtype()}, table.column.offset());
  loops.scatter({Fold::kSum, result, 0, wide, rows, {"embedding"}});
  loops.convert(out, result);
}

enum class LossReduction : std::int64_t { kNone = 0, kMean = 1, kSum = 2 };

// Targets of nll_loss: classes as a column, 0 where ignored, and the weight of each row, 0 there.
struct Targets {
  Targets(Loops& loops, const Tensor& target, const Tensor* weight, std::int64_t class_count,
          std::int64_t ignored, DType compute)
      : words{"nll_loss", "target",
              fmt::format("give logits of more classes, or {} (ignore_index) where there is none",
                          ignored)} {
    const Dims column{target.numel(), 1};
    const Tensor given = shaped(as_contiguous(loops, target, DType::kI64), column);
    skipped = tested(loops, Element::kEq, DType::kI64, column, {given, Scalar(ignored)});
    classes = computed(loops, Element::kWhere, DType::kI64, column, {skipped, Scalar(0), given});
    LocalArg chosen = Scalar(1.0);
    if (weight != nullptr) {
      const Tensor line = shaped(as_contiguous(loops, *weight, compute), {class_count, 1});
      chosen = picked(loops, line, 0, classes, words);
    }
    weights = computed(loops, Element::kWhere, compute, column, {skipped, Scalar(0.0), chosen});
  }
  IndexWords words;
  Tensor skipped;
  Tensor classes;
  Tensor weights;
};

// self [N, C] or [C] as [N, C].
Tensor as_scores(const Tensor& self) {
  if (self.dim() == 2) return self;
  return self.as_view({{1, self.size(0)}, {0, self.stride()[0]}, self.dtype()}, self.offset());
}

// -values, 0 where rows are skipped.
Tensor negated(Loops& loops, const Tensor& values, const Targets& targets) {
  const DType compute = values.dtype();
  const Tensor negative = computed(loops, Element::kNeg, compute, values.shape(), {values});
  return computed(loops, Element::kWhere, compute, values.shape(),
                  {targets.skipped, Scalar(0.0), negative});
}

// nll_loss_forward(self, target, weight, reduction, ignore_index) -> output, total_weight
void nll_loss(Loops& loops, const KernelCall& call) {
  const Tensor scores = as_scores(tensor_arg(call, 0));
  const DType compute = compute_dtype(scores.dtype());
  const auto reduction = static_cast<LossReduction>(int_arg(call, 3));
  const Targets targets(loops, tensor_arg(call, 1), optional_tensor_arg(call, 2), scores.size(1),
                        int_arg(call, 4), compute);
  const Tensor likely = picked(loops, scores, 1, targets.classes, targets.words);
  const Tensor losses = negated(
      loops, computed(loops, Element::kMul, compute, likely.shape(), {likely, targets.weights}),
      targets);
  const Tensor &out = call.outputs[0], &total_weight = call.outputs[1];
  const DimMask all{1, 1};
  // One row without a batch is its own sum: the reference gives its weight whatever the reduction.
  if (reduction == LossReduction::kNone && tensor_arg(call, 0).dim() == 2) {
    loops.fill(total_weight, Scalar(0.0));
    return loops.convert(out, shaped(losses, out.shape()));
  }
  const Tensor weight = folded(loops, Fold::kSum, compute, targets.weights, all, Dims{});
  loops.convert(total_weight, weight);
  if (reduction == LossReduction::kNone) return loops.convert(out, shaped(losses, out.shape()));
  const Tensor loss = folded(loops, Fold::kSum, compute, losses, all, Dims{});
  if (reduction == LossReduction::kSum) return loops.convert(out, loss);
  loops.run(Element::kDiv, compute, out, {loss, weight});
}

// nll_loss_backward(grad_output, self, target, weight, reduction, ignore_index, total_weight)
void nll_loss_backward(Loops& loops, const KernelCall& call) {
  const Tensor scores = as_scores(tensor_arg(call, 1));
  const DType compute = compute_dtype(scores.dtype());
  const auto reduction = static_cast<LossReduction>(int_arg(call, 4));
  const Targets targets(loops, tensor_arg(call, 2), optional_tensor_arg(call, 3), scores.size(1),
                        int_arg(call, 5), compute);
  const std::int64_t rows = targets.classes.numel();
  const Tensor flat = as_contiguous(loops, tensor_arg(call, 0), compute);
  const bool each = reduction == LossReduction::kNone;
  Tensor incoming = flat.as_view({{rows, 1}, {each ? 1 : 0, 1}, compute}, flat.offset());
  if (reduction == LossReduction::kMean) {
    const Tensor& sum = tensor_arg(call, 6);
    const Tensor one = sum.as_view({{1, 1}, {1, 1}, sum.dtype()}, sum.offset());
    incoming = computed(loops, Element::kDiv, compute, incoming.shape(), {incoming, one});
  }
  const Tensor slopes = negated(
      loops, computed(loops, Element::kMul, compute, incoming.shape(), {targets.weights, incoming}),
      targets);
  const Tensor result = filled(loops, scores.shape(), compute, Scalar(0));
  loops.scatter({Fold::kLast, result, 1, targets.classes, slopes, targets.words});
  loops.convert(call.outputs[0], shaped(result, call.outputs[0].shape()));
}

}  // namespace

void add_lookup_kernels(KernelTable& table) {
  table.set(KernelId::kEmbedding, embedding);
  table.set(KernelId::kEmbeddingMasked, embedding);
  table.set(KernelId::kEmbeddingDenseBackward, embedding_backward);
  table.set(KernelId::kIndexSelect, index_select);
  table.set(KernelId::kGather, gather);
  table.set(KernelId::kGatherMasked, gather);
  table.set(KernelId::kScatter, scatter<Fold::kLast>);
  table.set(KernelId::kScatterAdd, scatter<Fold::kSum>);
  table.set(KernelId::kScatterReduce, scatter_reduce);
  table.set(KernelId::kNllLossForward, nll_loss);
  table.set(KernelId::kNllLossBackward, nll_loss_backward);
}

}  // namespace shardlab
