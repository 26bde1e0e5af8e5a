// Look-ups, scatters and draws as calls of the table.
#include "backends/cuda/table_loops.h"

namespace shardlab::cuda {

namespace {

Runs whole(std::int64_t size) {
  Runs runs;
  runs.count = 1;
  runs.size[0] = size;
  return runs;
}

Runs runs_of(const DimMap& map) {
  Runs runs;
  if (map.runs.size() > kMaxRuns) {
    fail(ErrorKind::kUnsupported, "device cuda takes at most {} runs of a dim", kMaxRuns);
  }
  for (const IndexRun& run : map.runs) {
    runs.offset[runs.count] = run.offset;
    runs.size[runs.count++] = run.size;
  }
  return runs;
}

}  // namespace

void TableLoops::look_up(const Lookup& lookup) {
  const Tensor &out = lookup.out, &source = lookup.source;
  if (out.numel() == 0) return;
  LookupCall call{};
  call.item_bytes = item_bytes(out.dtype());
  call.out.dtype = out.dtype();
  call.out.data = writable(out);
  Walk walk(out.shape());
  walk.add(call.out, out.stride());
  Dims stride = source.stride();
  stride[lookup.dim] = 0;
  call.source.data = readable(source);
  call.source.dtype = source.dtype();
  walk.add(call.source, stride);
  walk.add_read(call.index, lookup.index);
  if (lookup.mask.defined()) {
    walk.add_read(call.mask, lookup.mask);
    call.mask.data = writable(lookup.mask);
  }
  call.shape = walk.finish();
  call.step = source.stride()[lookup.dim];
  const LocalView* view = lookup.view;
  call.extent = view == nullptr ? source.size(lookup.dim) : view->global_shape[lookup.dim];
  call.here = view == nullptr ? whole(call.extent) : runs_of(view->dims[lookup.dim]);
  issue(table_.lookup, call, "lookup");
  check_indices(lookup.words.op);
}

void TableLoops::scatter(const Scatter& scatter) {
  const Tensor& index = scatter.index;
  if (index.numel() == 0) return;
  ScatterCall call{};
  call.mode = scatter.mode;
  call.compute = compute_dtype_here(scatter.out.dtype());
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
  issue(table_.scatter, call, "scatter");
  check_indices(scatter.words.op);
}

// The walk of the output with its places; dims are not joined, because each has its own runs.
void TableLoops::draw(const Draw& draw) {
  const Tensor& out = draw.out;
  compute_dtype_here(out.dtype());
  if (out.dim() > kMaxDims) {
    fail(ErrorKind::kUnsupported, "device cuda draws tensors of at most {} dims", kMaxDims);
  }
  if (out.numel() == 0) return;
  DrawCall call{};
  call.law = draw.law;
  call.seed = draw.random.seed;
  call.offset = draw.random.offset;
  const Dims& global_shape = draw.view == nullptr ? out.shape() : draw.view->global_shape;
  const Dims global_stride = contiguous_strides(global_shape);
  call.shape.dims = static_cast<int>(out.dim());
  call.shape.count = out.numel();
  call.out.dtype = out.dtype();
  call.out.data = writable(out);
  if (draw.chances.defined()) {
    call.chances.data = readable(draw.chances);
    call.chances.dtype = draw.chances.dtype();
  }
  for (std::size_t dim = 0; dim < out.shape().size(); ++dim) {
    call.shape.size[dim] = out.size(dim);
    call.out.stride[dim] = out.stride()[dim];
    if (draw.chances.defined()) call.chances.stride[dim] = draw.chances.stride()[dim];
    call.global_stride[dim] = global_stride[dim];
    call.here[dim] = draw.view == nullptr ? whole(out.size(dim)) : runs_of(draw.view->dims[dim]);
  }
  issue(table_.draw, call, "draw");
}

}  // namespace shardlab::cuda
