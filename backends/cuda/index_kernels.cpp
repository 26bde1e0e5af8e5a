// Lookups and scatters at indices that are data, and the loss that is made of them.
#include "backends/cuda/kernels.h"
#include "kernels/scatter_reduction.h"

namespace shardlab::cuda {

namespace {

Tensor at_least_one_dim(const Tensor& tensor) {
  if (tensor.dim() > 0) return tensor;
  return tensor.as_view({{1}, {1}, tensor.dtype()}, tensor.offset());
}

Runs whole(std::int64_t size) {
  Runs runs;
  runs.count = 1;
  runs.size[0] = size;
  return runs;
}

Runs runs_of(const DimMap& map) {
  Runs runs;
  if (map.runs.size() > kMaxRuns) {
    fail(ErrorKind::kUnsupported, "device cuda looks up indices in at most {} runs", kMaxRuns);
  }
  for (const IndexRun& run : map.runs) {
    runs.offset[runs.count] = run.offset;
    runs.size[runs.count++] = run.size;
  }
  return runs;
}

struct Lookup {
  Tensor out;
  Tensor source;
  std::size_t dim;  // of the source
  Tensor index;     // broadcasts to the output
  std::int64_t extent;
  Runs here;
  Tensor mask;  // undefined: none
};

// out[c] = source[c with c[dim] = index[c]]; the other dims of the source line up with the
// output's.
void look_up(Ops& ops, const Lookup& lookup, std::string_view what) {
  const Tensor& out = lookup.out;
  if (out.numel() == 0) return;
  LookupCall call{};
  call.out.dtype = out.dtype();
  call.out.data = writable(out);
  Walk walk(out.shape());
  walk.add(call.out, out.stride());
  Dims stride = lookup.source.stride();
  stride[lookup.dim] = 0;
  call.source.data = readable(lookup.source);
  call.source.dtype = lookup.source.dtype();
  walk.add(call.source, stride);
  walk.add_read(call.index, lookup.index);
  call.shape = walk.finish();
  call.step = lookup.source.stride()[lookup.dim];
  call.extent = lookup.extent;
  call.here = lookup.here;
  if (lookup.mask.defined()) call.mask = static_cast<std::uint8_t*>(writable(lookup.mask));
  ops.lookup(call);
  ops.check_indices(what);
}

}  // namespace

Tensor picked(Ops& ops, const Tensor& values, const Tensor& index) {
  const Tensor out = empty(ops.device(), index.shape(), values.dtype());
  look_up(ops, {out, values, 1, index, values.size(1), whole(values.size(1)), {}}, "picked");
  return out;
}

namespace {

// [n, columns] of the output [indices..., columns], and the n indices as a column.
struct TableLookup {
  TableLookup(Ops& ops, const Tensor& out, const Tensor& index) {
    check_invariant(out.contiguous(), "a lookup's output is contiguous");
    const std::int64_t columns = out.shape().back(), count = index.numel();
    rows = out.as_view(contiguous_meta(Dims{count, columns}, out.dtype()), out.offset());
    const Tensor flat = as_contiguous(ops, index, index.dtype());
    column = flat.as_view({{count, 1}, {1, 1}, index.dtype()}, flat.offset());
  }
  Tensor rows;
  Tensor column;
};

// embedding(weight, indices, padding_idx, scale_grad_by_freq, sparse)
void embedding(Ops& ops, const KernelCall& call) {
  const Tensor& weight = tensor_arg(call, 0);
  const TableLookup table(ops, call.outputs[0], tensor_arg(call, 1));
  look_up(ops, {table.rows, weight, 0, table.column, weight.size(0), whole(weight.size(0)), {}},
          "embedding");
}

// The same where `view` gives the rows of the table that are here: the others give zeros and a set
// mask.
void embedding_masked(Ops& ops, const KernelCall& call) {
  check_invariant(call.view != nullptr, "a masked lookup knows the table's position");
  const Tensor& weight = tensor_arg(call, 0);
  const TableLookup table(ops, call.outputs[0], tensor_arg(call, 1));
  const std::int64_t extent = call.view->global_shape[0];
  const Runs here = runs_of(call.view->dims[0]);
  look_up(ops, {table.rows, weight, 0, table.column, extent, here, {}}, "embedding");
  // The mask has one element per index: a lookup of one column that is not used.
  const Tensor& mask = call.outputs[1];
  if (mask.numel() == 0) return;
  const Tensor zeros = empty(ops.device(), Dims{1, 1}, DType::kBool);
  fill(ops, zeros, Scalar(0));
  const Tensor unused = empty(ops.device(), table.column.shape(), DType::kBool);
  const Tensor set = empty(ops.device(), table.column.shape(), DType::kBool);
  const Tensor source = zeros.as_view({{1, 1}, {0, 1}, DType::kBool}, zeros.offset());
  look_up(ops, {unused, source, 0, table.column, extent, here, set}, "embedding");
  convert(ops, mask, set.as_view(contiguous_meta(mask.shape(), DType::kBool), 0));
}

// index_select(self, dim, index)
void index_select(Ops& ops, const KernelCall& call) {
  const Tensor &out = call.outputs[0], &self = tensor_arg(call, 0);
  if (self.dim() == 0) return convert(ops, out, self);
  const std::size_t dim = wrapped_dim(int_arg(call, 1), self.shape().size());
  const Tensor index = as_contiguous(ops, tensor_arg(call, 2), tensor_arg(call, 2).dtype());
  Dims shape(self.shape().size(), 1);
  shape[dim] = index.numel();
  const Tensor along = index.as_view(contiguous_meta(shape, index.dtype()), index.offset());
  look_up(ops, {out, self, dim, along, self.size(dim), whole(self.size(dim)), {}}, "index_select");
}

// gather(self, dim, index, sparse_grad)
void gather(Ops& ops, const KernelCall& call) {
  const Tensor self = at_least_one_dim(tensor_arg(call, 0));
  const std::size_t dim = wrapped_dim(int_arg(call, 1), self.shape().size());
  look_up(ops,
          {at_least_one_dim(call.outputs[0]),
           self,
           dim,
           at_least_one_dim(tensor_arg(call, 2)),
           self.size(dim),
           whole(self.size(dim)),
           {}},
          "gather");
}

// The same where `view` gives the part of self that is here.
void gather_masked(Ops& ops, const KernelCall& call) {
  check_invariant(call.view != nullptr, "a masked lookup knows the position of self");
  const Tensor self = at_least_one_dim(tensor_arg(call, 0));
  const std::size_t dim = wrapped_dim(int_arg(call, 1), self.shape().size());
  const Tensor mask = at_least_one_dim(call.outputs[1]);
  const Tensor set = empty(ops.device(), mask.shape(), DType::kBool);
  look_up(ops,
          {at_least_one_dim(call.outputs[0]), self, dim, at_least_one_dim(tensor_arg(call, 2)),
           call.view->global_shape[dim], runs_of(call.view->dims[dim]), set},
          "gather");
  convert(ops, mask, set);
}

struct Scatter {
  ScatterCall::Mode mode;
  Tensor out;  // contiguous, of a compute dtype
  std::size_t dim;
  Tensor index;
  LocalArg value;      // a tensor of the index's shape or larger, or a number
  Tensor counts = {};  // undefined: not counted
};

void scatter_into(Ops& ops, const Scatter& scatter, std::string_view what) {
  const Tensor& index = scatter.index;
  if (index.numel() == 0) return;
  ScatterCall call{};
  call.mode = scatter.mode;
  call.compute = scatter.out.dtype();
  call.length = index.size(scatter.dim);
  call.extent = scatter.out.size(scatter.dim);
  if (scatter.counts.defined()) {
    call.counts = static_cast<std::int64_t*>(writable(scatter.counts));
  }
  const auto without_dim = [&](Dims dims) {
    dims.erase(scatter.dim);
    return dims;
  };
  Walk walk(without_dim(index.shape()));
  const auto add = [&](Place& place, const Tensor& tensor, void* data, std::int64_t& step) {
    place.data = data;
    place.dtype = tensor.dtype();
    step = tensor.stride()[scatter.dim];
    walk.add(place, without_dim(tensor.stride()));
  };
  add(call.out, scatter.out, writable(scatter.out), call.out_step);
  add(call.index, index, readable(index), call.index_step);
  if (const auto* value = std::get_if<Tensor>(&scatter.value)) {
    add(call.value, *value, readable(*value), call.value_step);
  } else {
    const Scalar& number = std::get<Scalar>(scatter.value);
    call.value.real = number.to_double();
    call.value.integer = integer_part(number);
    walk.add(call.value, Dims(index.shape().size() - 1, 0));
  }
  call.lines = walk.finish();
  ops.scatter(call);
  ops.check_indices(what);
}

// scatter(self, dim, index, src or value) and scatter_add, in order along dim.
template <ScatterCall::Mode mode>
void scatter(Ops& ops, const KernelCall& call) {
  const Tensor out = at_least_one_dim(call.outputs[0]);
  const Tensor result =
      empty(ops.device(), out.shape(), compute_dtype_here(call.outputs[0].dtype()));
  convert(ops, result, at_least_one_dim(tensor_arg(call, 0)));
  const std::size_t dim = wrapped_dim(int_arg(call, 1), out.shape().size());
  LocalArg value = call.args[3];
  if (const auto* tensor = std::get_if<Tensor>(&value)) value = at_least_one_dim(*tensor);
  scatter_into(ops, {mode, result, dim, at_least_one_dim(tensor_arg(call, 2)), value}, "scatter");
  convert(ops, out, result);
}

ScatterCall::Mode mode_of(ScatterReduction reduction) {
  switch (reduction) {
    case ScatterReduction::kProduct:
      return ScatterCall::Mode::kMultiply;
    case ScatterReduction::kLargest:
      return ScatterCall::Mode::kLargest;
    case ScatterReduction::kLeast:
      return ScatterCall::Mode::kLeast;
    default:  // of a mean the sum
      return ScatterCall::Mode::kAdd;
  }
}

// scatter_reduce(self, dim, index, src, reduce, include_self)
void scatter_reduce(Ops& ops, const KernelCall& call) {
  const Tensor out = at_least_one_dim(call.outputs[0]);
  const DType compute = compute_dtype_here(out.dtype());
  Tensor result = empty(ops.device(), out.shape(), compute);
  convert(ops, result, at_least_one_dim(tensor_arg(call, 0)));
  const Tensor counts = empty(ops.device(), out.shape(), DType::kI64);
  fill(ops, counts, Scalar(scalar_arg(call, 5).to_bool() ? 1 : 0));
  const std::size_t dim = wrapped_dim(int_arg(call, 1), out.shape().size());
  const ScatterReduction reduction = scatter_reduction_named(*optional_text_arg(call, 4)).value();
  scatter_into(ops,
               {mode_of(reduction), result, dim, at_least_one_dim(tensor_arg(call, 2)),
                at_least_one_dim(tensor_arg(call, 3)), counts},
               "scatter");
  if (reduction == ScatterReduction::kMean) {
    const Tensor shares =
        computed(ops, Element::kMaximum, DType::kI64, out.shape(), {counts, Scalar(1)});
    const Element divided = compute == DType::kI64 ? Element::kDivFloor : Element::kDiv;
    result = computed(ops, divided, compute, out.shape(), {result, shares});
  }
  convert(ops, out, result);
}

// embedding_dense_backward(grad_output, indices, num_weights, padding_idx, scale_grad_by_freq)
void embedding_backward(Ops& ops, const KernelCall& call) {
  const Tensor &out = call.outputs[0], &index = tensor_arg(call, 1);
  if (scalar_arg(call, 4).to_bool()) {
    fail(ErrorKind::kUnsupported, "device cuda has no embedding gradient by frequency");
  }
  const DType compute = compute_dtype_here(out.dtype());
  const Tensor result = empty(ops.device(), out.shape(), compute);
  fill(ops, result, Scalar(0));
  const Tensor grad = as_contiguous(ops, tensor_arg(call, 0), tensor_arg(call, 0).dtype());
  const TableLookup table(ops, grad, index);
  Tensor rows = table.rows;
  const std::int64_t padding = int_arg(call, 3);
  if (padding >= 0) {
    const Tensor skipped = empty(ops.device(), table.column.shape(), DType::kBool);
    const LocalArg compared[] = {table.column, Scalar(padding)};
    pointwise(ops, Element::kEq, DType::kI64, skipped, compared);
    rows = computed(ops, Element::kWhere, compute, rows.shape(), {skipped, Scalar(0.0), rows});
  }
  // One index for all columns of a row.
  const Tensor wide = table.column.as_view(
      {rows.shape(), {table.column.stride()[0], 0}, index.dtype()}, table.column.offset());
  scatter_into(ops, {ScatterCall::Mode::kAdd, result, 0, wide, rows}, "embedding");
  convert(ops, out, result);
}

enum class LossReduction : std::int64_t { kNone = 0, kMean = 1, kSum = 2 };

// Targets of nll_loss: classes as a column, 0 where ignored, and the weight of each row, 0 there.
struct Targets {
  Targets(Ops& ops, const Tensor& target, const Tensor* weight, std::int64_t class_count,
          std::int64_t ignored, DType dtype)
      : compute(dtype) {
    const Tensor flat = as_contiguous(ops, target, DType::kI64);
    const std::int64_t rows = target.numel();
    const Tensor given = flat.as_view({{rows, 1}, {1, 1}, DType::kI64}, flat.offset());
    skipped = empty(ops.device(), given.shape(), DType::kBool);
    const LocalArg compared[] = {given, Scalar(ignored)};
    pointwise(ops, Element::kEq, DType::kI64, skipped, compared);
    classes =
        computed(ops, Element::kWhere, DType::kI64, given.shape(), {skipped, Scalar(0), given});
    Tensor chosen = empty(ops.device(), given.shape(), compute);
    if (weight == nullptr) {
      fill(ops, chosen, Scalar(1.0));
    } else {
      const Tensor line = as_contiguous(ops, *weight, compute);
      const Tensor source = line.as_view({{class_count, 1}, {1, 1}, compute}, line.offset());
      look_up(ops, {chosen, source, 0, classes, class_count, whole(class_count), {}}, "nll_loss");
    }
    weights =
        computed(ops, Element::kWhere, compute, given.shape(), {skipped, Scalar(0.0), chosen});
  }
  DType compute;
  Tensor skipped;
  Tensor classes;
  Tensor weights;
};

// self [N, C] or [C] as [N, C].
Tensor as_scores(const Tensor& self) {
  if (self.dim() == 2) return self;
  return self.as_view({{1, self.size(0)}, {0, self.stride()[0]}, self.dtype()}, self.offset());
}

Tensor total(Ops& ops, const Tensor& column) {
  return fold(ops, Fold::kSum, column.dtype(), RowView(column, DimMask{1, 1}));
}

// nll_loss_forward(self, target, weight, reduction, ignore_index) -> output, total_weight
void nll_loss(Ops& ops, const KernelCall& call) {
  const Tensor scores = as_scores(tensor_arg(call, 0));
  const DType compute = compute_dtype_here(scores.dtype());
  const auto reduction = static_cast<LossReduction>(int_arg(call, 3));
  const Targets targets(ops, tensor_arg(call, 1), optional_tensor_arg(call, 2), scores.size(1),
                        int_arg(call, 4), compute);
  const Tensor picked = empty(ops.device(), targets.classes.shape(), scores.dtype());
  look_up(ops, {picked, scores, 1, targets.classes, scores.size(1), whole(scores.size(1)), {}},
          "nll_loss");
  const Tensor weighed =
      computed(ops, Element::kMul, compute, picked.shape(), {picked, targets.weights});
  const Tensor losses =
      computed(ops, Element::kWhere, compute, picked.shape(),
               {targets.skipped, Scalar(0.0),
                computed(ops, Element::kNeg, compute, picked.shape(), {weighed})});
  const Tensor &out = call.outputs[0], &total_weight = call.outputs[1];
  const auto shaped = [](const Tensor& values, const Tensor& as) {
    return values.as_view(contiguous_meta(as.shape(), values.dtype()), values.offset());
  };
  if (reduction == LossReduction::kNone) {
    convert(ops, out, shaped(losses, out));
    return fill(ops, total_weight, Scalar(0.0));
  }
  const Tensor weight_sum = total(ops, targets.weights);
  Tensor loss = total(ops, losses);
  if (reduction == LossReduction::kMean) {
    loss = computed(ops, Element::kDiv, compute, loss.shape(), {loss, weight_sum});
  }
  convert(ops, out, shaped(loss, out));
  convert(ops, total_weight, shaped(weight_sum, total_weight));
}

// nll_loss_backward(grad_output, self, target, weight, reduction, ignore_index, total_weight)
void nll_loss_backward(Ops& ops, const KernelCall& call) {
  const Tensor scores = as_scores(tensor_arg(call, 1));
  const DType compute = compute_dtype_here(scores.dtype());
  const auto reduction = static_cast<LossReduction>(int_arg(call, 4));
  const Targets targets(ops, tensor_arg(call, 2), optional_tensor_arg(call, 3), scores.size(1),
                        int_arg(call, 5), compute);
  const std::int64_t rows = targets.classes.numel();
  const Tensor flat = as_contiguous(ops, tensor_arg(call, 0), compute);
  const bool each = reduction == LossReduction::kNone;
  Tensor incoming = flat.as_view({{rows, 1}, {each ? 1 : 0, 1}, compute}, flat.offset());
  if (reduction == LossReduction::kMean) {
    const Tensor& sum = tensor_arg(call, 6);
    const Tensor one = sum.as_view({{1, 1}, {1, 1}, sum.dtype()}, sum.offset());
    incoming = computed(ops, Element::kDiv, compute, incoming.shape(), {incoming, one});
  }
  const Tensor scaled =
      computed(ops, Element::kMul, compute, incoming.shape(), {targets.weights, incoming});
  const Tensor slopes = computed(ops, Element::kWhere, compute, scaled.shape(),
                                 {targets.skipped, Scalar(0.0),
                                  computed(ops, Element::kNeg, compute, scaled.shape(), {scaled})});
  const Tensor result = empty(ops.device(), scores.shape(), compute);
  fill(ops, result, Scalar(0));
  scatter_into(ops, {ScatterCall::Mode::kAssign, result, 1, targets.classes, slopes}, "nll_loss");
  const Tensor& out = call.outputs[0];
  convert(ops, out, result.as_view(contiguous_meta(out.shape(), compute), result.offset()));
}

}  // namespace

void add_index_kernels(CudaKernelTable& table) {
  table.set(KernelId::kEmbedding, embedding);
  table.set(KernelId::kEmbeddingMasked, embedding_masked);
  table.set(KernelId::kEmbeddingDenseBackward, embedding_backward);
  table.set(KernelId::kIndexSelect, index_select);
  table.set(KernelId::kGather, gather);
  table.set(KernelId::kGatherMasked, gather_masked);
  table.set(KernelId::kScatter, scatter<ScatterCall::Mode::kAssign>);
  table.set(KernelId::kScatterAdd, scatter<ScatterCall::Mode::kAdd>);
  table.set(KernelId::kScatterReduce, scatter_reduce);
  table.set(KernelId::kNllLossForward, nll_loss);
  table.set(KernelId::kNllLossBackward, nll_loss_backward);
}

}  // namespace shardlab::cuda
