// One spatial dim of a convolution reads input i = o stride - padding + k dilation for output o and
// tap k of `kernel`. A rank that owns outputs [o0, o1) of a cut dim therefore needs the inputs from
// o0 stride - padding up to (o1 - 1) stride - padding + dilation (kernel - 1), those outside of the
// tensor left out (inputs_of). It fetches them from the ranks that own them by the chunk rule,
// however many those are, and calls the ordinary local kernel.
//
// The padding of the local kernel is then the distance between its first window and the first input
// that was fetched: with n0 the global index of that input, local output j = o - o0 reads local
// input j stride - (padding + n0 - o0 stride) + k dilation, so that the padding passed is padding +
// n0 - o0 stride. It is the part of the real padding that the tensor's edge still leaves, and 0 for
// a rank in the middle. Reads of the kernel behind the last element are padding, too, because its
// output's size is given.
//
// The gradient of the input is the same with the roles exchanged. Input i is read by the outputs o
// with i + padding - dilation (kernel - 1) <= o stride <= i + padding (outputs_of); a rank that
// owns inputs from i0 on fetches the gradients of these outputs, from q0 on, and the padding
// becomes padding + i0 - q0 stride. So each rank computes the whole gradient of its own inputs, and
// nothing is added up between ranks. The gradients of weight and bias are sums over all outputs:
// every cut of the input leaves a term (terms_of).
//
// Placements: the rule decides as if the cut spatial dims were whole, and the cuts are put back on
// top of its choice (choose). A tensor dim that two mesh dims cut keeps the first cut only.
#include "dispatch/convolution.h"

#include <algorithm>

#include "base/rank_context.h"
#include "comm/device_mesh.h"
#include "dispatch/halo.h"
#include "dispatch/observed_op.h"
#include "dispatch/prepare.h"
#include "kernels/kernel_id.h"
#include "mesh/local_shape.h"
#include "ops/core/meta.h"
#include "propagate/propagator.h"
#include "schema/op_registry.h"

namespace shardlab {

namespace {

// The numbers of a convolution, one per spatial dim.
struct Windows {
  Dims stride, padding, dilation;
  bool transposed = false;
  std::int64_t groups = 1;
};

Dims per_dim(const Argument& given, std::size_t count) {
  const Dims& values = given.ints();
  if (values.size() == count) return values;
  return Dims(count, values[0]);
}

// `first` is the place of stride among the arguments.
Windows windows_of(const Arguments& args, std::size_t first, std::size_t ndim) {
  const std::size_t count = ndim - 2;
  return {per_dim(args[first], count), per_dim(args[first + 1], count),
          per_dim(args[first + 2], count), args[first + 3].to_bool(), args[first + 5].to_int()};
}

// Input elements that outputs `out` of a spatial dim read.
DimRange inputs_of(const Windows& w, std::size_t dim, std::int64_t kernel, const DimRange& out,
                   std::int64_t length) {
  if (out.size() == 0) return {};
  const std::int64_t stride = w.stride[dim], padding = w.padding[dim];
  const std::int64_t reach = w.dilation[dim] * (kernel - 1) + 1;
  return intersection({out.begin * stride - padding, (out.end - 1) * stride - padding + reach},
                      {0, length});
}

// Outputs that read any of the inputs `in`.
DimRange outputs_of(const Windows& w, std::size_t dim, std::int64_t kernel, const DimRange& in,
                    std::int64_t length) {
  if (in.size() == 0) return {};
  const std::int64_t stride = w.stride[dim], padding = w.padding[dim];
  const std::int64_t low = in.begin + padding - w.dilation[dim] * (kernel - 1);
  const std::int64_t first = low <= 0 ? 0 : (low + stride - 1) / stride;
  return intersection({first, (in.end - 1 + padding) / stride + 1}, {0, length});
}

// The cut of a tensor dim: at most one.
struct SpatialCut {
  std::size_t mesh_dim;
  std::size_t tensor_dim;
};
std::vector<SpatialCut> spatial_cuts(const Placements& placements, const Windows& w) {
  std::vector<SpatialCut> cuts;
  if (w.transposed) return cuts;
  for (std::size_t i = 0; i < placements.size(); ++i) {
    if (!placements[i].is_plain_shard() || placements[i].dim < 2) continue;
    const auto dim = static_cast<std::size_t>(placements[i].dim);
    const bool again = std::any_of(cuts.begin(), cuts.end(),
                                   [&](const SpatialCut& cut) { return cut.tensor_dim == dim; });
    if (!again) cuts.push_back({i, dim});
  }
  return cuts;
}

DimRange piece(std::int64_t length, std::int64_t count, std::int64_t index) {
  const Chunk chunk = chunk_of(length, count, index);
  return {chunk.offset, chunk.offset + chunk.size};
}

// A call of one rank's kernel on windows of the whole: everything outside of `a` is padding.
Tensor run_kernel(KernelId kernel, const Tensor& a, const Tensor& b, const TensorMeta& meta,
                  const Windows& w, const Dims& padding) {
  Device& device = *current_rank().device;
  const Tensor result = empty(device, meta);
  const LocalArg args[] = {a, b, w.stride, padding, w.dilation, Scalar(w.groups)};
  device.run({.kernel = kernel, .args = args, .outputs = {&result, 1}});
  return result;
}

// Data common to a convolution and its gradient: layout of all tensors, and this rank's ranges.
class Cutting {
 public:
  Cutting(const DTensorSpec* input, const DTensorSpec* weight, const DTensorSpec* output,
          const Windows& windows, const DeviceMesh* mesh)
      : input_(input->shape()),
        output_(output->shape()),
        kernel_(weight->shape()),
        windows_(windows),
        cuts_(spatial_cuts(input->placements(), windows)),
        mesh_(mesh) {}

  /// The input with all columns that this rank's outputs read.
  Tensor with_halo(const Tensor& input) const {
    return exchanged(input, &Cutting::own_input, &Cutting::needed_input);
  }
  /// The gradient of the output with all columns that read this rank's inputs.
  Tensor gradient_with_halo(const Tensor& gradient) const {
    return exchanged(gradient, &Cutting::own_output, &Cutting::needed_output);
  }
  /// Padding as the kernel sees it between with_halo's input and this rank's outputs.
  Dims forward_padding() const { return padding(&Cutting::needed_input, &Cutting::own_output); }
  /// The same between this rank's inputs and gradient_with_halo's gradient.
  Dims backward_padding() const { return padding(&Cutting::own_input, &Cutting::needed_output); }

 private:
  using RangeOf = DimRange (Cutting::*)(const SpatialCut&, std::int64_t index) const;

  Tensor exchanged(Tensor piece, RangeOf own, RangeOf needed) const {
    for (const SpatialCut& cut : cuts_) {
      piece = exchange_halo(
          piece, cut.tensor_dim, mesh_->group(cut.mesh_dim),
          [&](std::int64_t index) { return (this->*own)(cut, index); },
          [&](std::int64_t index) { return (this->*needed)(cut, index); });
    }
    return piece;
  }
  Dims padding(RangeOf inputs, RangeOf outputs) const {
    Dims padding = windows_.padding;
    for (const SpatialCut& cut : cuts_) {
      const std::size_t dim = cut.tensor_dim - 2;
      const std::int64_t first = (this->*outputs)(cut, index(cut)).begin;
      padding[dim] += (this->*inputs)(cut, index(cut)).begin - first * windows_.stride[dim];
    }
    return padding;
  }
  std::int64_t index(const SpatialCut& cut) const { return (*mesh_->coordinate())[cut.mesh_dim]; }
  std::int64_t count(const SpatialCut& cut) const { return mesh_->layout()->size(cut.mesh_dim); }
  DimRange own_input(const SpatialCut& cut, std::int64_t index) const {
    return piece(input_[cut.tensor_dim], count(cut), index);
  }
  DimRange own_output(const SpatialCut& cut, std::int64_t index) const {
    return piece(output_[cut.tensor_dim], count(cut), index);
  }
  DimRange needed_input(const SpatialCut& cut, std::int64_t index) const {
    return inputs_of(windows_, cut.tensor_dim - 2, kernel_[cut.tensor_dim], own_output(cut, index),
                     input_[cut.tensor_dim]);
  }
  DimRange needed_output(const SpatialCut& cut, std::int64_t index) const {
    return outputs_of(windows_, cut.tensor_dim - 2, kernel_[cut.tensor_dim], own_input(cut, index),
                      output_[cut.tensor_dim]);
  }

  Dims input_, output_, kernel_;
  Windows windows_;
  std::vector<SpatialCut> cuts_;
  const DeviceMesh* mesh_;
};

// Facts about a convolution once its inputs' placements are chosen.
struct Chosen {
  OpSchema schema;  ///< of the forward call
  OutputSharding sharding;
};

// The rule sees the input with its cut spatial dims whole; those cuts are kept on top of its
// choice.
Chosen choose(const DTensorSpec* input, const DTensorSpec* weight, const Argument& bias,
              const Arguments& numbers, const Windows& w) {
  const std::vector<SpatialCut> cuts = spatial_cuts(input->placements(), w);
  Placements whole = input->placements();
  for (const SpatialCut& cut : cuts) whole[cut.mesh_dim] = Placement::replicate();
  Chosen chosen;
  Propagator& propagator = *current_rank().propagator;
  chosen.schema.row = &propagator.registry().at("aten::convolution");
  chosen.schema.layout = input->layout();
  chosen.schema.args = {cuts.empty() ? input : input->with(whole), weight, bias};
  chosen.schema.args.insert(chosen.schema.args.end(), numbers.begin(), numbers.end());
  chosen.sharding = *propagator.propagate(chosen.schema);
  chosen.schema.args[0] = input;
  if (cuts.empty()) return chosen;
  const auto keep_cuts = [&](const DTensorSpec*& spec) {
    Placements placements = spec->placements();
    for (Placement& placement : placements) {  // a spatial dim is cut once
      if (placement.is_shard() && placement.dim >= 2) placement = Placement::replicate();
    }
    for (const SpatialCut& cut : cuts) {
      placements[cut.mesh_dim] = Placement::shard(static_cast<std::int64_t>(cut.tensor_dim));
    }
    spec = spec->with(placements);
  };
  keep_cuts(chosen.sharding.inputs[0]);
  keep_cuts(chosen.sharding.outputs[0]);
  // A spec of equal content is the same one, unless the input has an order of its own.
  if (chosen.sharding.inputs[0]->placements() == input->placements()) {
    chosen.sharding.inputs[0] = input;
  }
  chosen.sharding.needs_redistribute =
      chosen.sharding.inputs[0] != input || chosen.sharding.inputs[1] != weight;
  return chosen;
}

void add_bias(const Tensor& sums, const Tensor& bias, const Tensor& output) {
  if (output.numel() == 0) return;
  TensorMeta meta = contiguous_meta(Dims(static_cast<std::size_t>(output.dim()), 1), bias.dtype());
  meta.shape[1] = bias.size(0);
  meta.stride[1] = bias.stride()[0];
  const LocalArg args[] = {sums, bias.as_view(meta, bias.offset()), Scalar(1)};
  current_rank().device->run({.kernel = KernelId::kAdd, .args = args, .outputs = {&output, 1}});
}

KernelId forward_kernel(const Windows& w) {
  return w.transposed ? KernelId::kConvolutionInputGrad : KernelId::kConvolution;
}

// Halves are rounded once, behind the bias; as in the reference not those of f16 that are spread.
Tensor convolved(const Tensor& input, const Tensor& weight, const Tensor& bias,
                 const TensorMeta& meta, const Windows& w, const Dims& padding) {
  const bool once = meta.dtype == DType::kBF16 || (meta.dtype == DType::kF16 && !w.transposed);
  TensorMeta wide = meta;
  if (bias.defined() && once) wide.dtype = DType::kF32;
  const Tensor sums = run_kernel(forward_kernel(w), input, weight, wide, w, padding);
  if (!bias.defined()) return sums;
  const Tensor output = wide.dtype == meta.dtype ? sums : empty(*current_rank().device, meta);
  add_bias(sums, bias, output);
  return output;
}

TensorMeta inferred(const OpRow& row, const Arguments& args, std::vector<Tensor> tensors,
                    std::size_t output) {
  const LocalCall call{.row = &row, .args = &args, .tensors = tensors};
  return infer_local(call)[output].meta;
}

Results plain_convolution(const OpRow& row, const Arguments& args, const Unwrapped& call) {
  std::vector<Tensor> locals;
  for (const TensorSlot& slot : call.slots) {
    locals.push_back(slot.handle.defined() ? slot.handle.local() : Tensor());
  }
  const TensorMeta meta = inferred(row, args, locals, 0);
  const Windows w = windows_of(args, 3, locals[0].shape().size());
  return {DTensor(convolved(locals[0], locals[1], locals[2], meta, w, w.padding))};
}

enum Sought : std::size_t { kOfInput, kOfWeight, kOfBias };

bool wanted(const Arguments& args, Sought which) { return args[10].list()[which].to_bool(); }

// Locals of convolution_backward: gradients that are not wanted stay undefined.
struct LocalGradients {
  Tensor of[3];
};

LocalGradients local_gradients(const Arguments& args, std::span<const Tensor> locals,
                               const Windows& w, const Cutting* cutting) {
  const Tensor &gradient = locals[0], &input = locals[1], &weight = locals[2];
  LocalGradients result;
  if (wanted(args, kOfInput)) {
    const Tensor whole = cutting != nullptr ? cutting->gradient_with_halo(gradient) : gradient;
    const Dims padding = cutting != nullptr ? cutting->backward_padding() : w.padding;
    const KernelId kernel = w.transposed ? KernelId::kConvolution : KernelId::kConvolutionInputGrad;
    result.of[kOfInput] = run_kernel(kernel, whole, weight,
                                     contiguous_meta(input.shape(), input.dtype()), w, padding);
  }
  if (wanted(args, kOfWeight)) {
    const Tensor whole = cutting != nullptr ? cutting->with_halo(input) : input;
    const Dims padding = cutting != nullptr ? cutting->forward_padding() : w.padding;
    result.of[kOfWeight] =
        run_kernel(KernelId::kConvolutionWeightGrad, w.transposed ? gradient : whole,
                   w.transposed ? whole : gradient, contiguous_meta(weight.shape(), weight.dtype()),
                   w, padding);
  }
  if (wanted(args, kOfBias)) {
    Dims dims;
    for (std::int64_t i = 0; i < gradient.dim(); ++i) {
      if (i != 1) dims.push_back(i);
    }
    const Tensor sums = empty(*current_rank().device, Dims{gradient.size(1)}, weight.dtype());
    const LocalArg sum_args[] = {gradient, dims, Scalar(false), std::monostate{}};
    current_rank().device->run({.kernel = KernelId::kSum, .args = sum_args, .outputs = {&sums, 1}});
    result.of[kOfBias] = sums;
  }
  return result;
}

const DTensorSpec* whole(const DTensorSpec* spec) {
  return spec->with(without_partials(spec->placements()));
}

// Every cut of the input makes a term of the weight's gradient.
Placements terms_of(const DTensorSpec* input) {
  Placements placements = input->placements();
  for (Placement& placement : placements) {
    placement = placement.is_shard() ? Placement::partial(ReduceOp::kSum) : Placement::replicate();
  }
  return placements;
}

Results plain_gradients(const Arguments& args, const Unwrapped& call) {
  std::vector<Tensor> locals;
  for (const TensorSlot& slot : call.slots) locals.push_back(slot.handle.local());
  const Windows w = windows_of(args, 4, locals[1].shape().size());
  const LocalGradients made = local_gradients(args, locals, w, nullptr);
  Results results;
  for (const Tensor& local : made.of) {
    results.push_back(local.defined() ? Argument(DTensor(local)) : Argument());
  }
  return results;
}

// Shape inference refuses arguments that do not fit; its result follows from the arguments here.
void check_shapes(const OpRow& row, const Arguments& args, const Unwrapped& call) {
  MetaList metas;
  for (const TensorSlot& slot : call.slots) {
    const bool left_out = slot.spec == nullptr && !slot.handle.defined();
    metas.push_back(left_out               ? nullptr
                    : slot.spec != nullptr ? &slot.spec->meta()
                                           : &slot.handle.local().meta());
  }
  infer_metas(row, args, std::move(metas));
}

}  // namespace

Results handle_convolution(Calls&, const OpRow& row, const Arguments& args) {
  const Unwrapped call = unwrap(row, args);
  if (!call.distributed) return plain_convolution(row, args, call);
  check_shapes(row, args, call);
  const DTensorSpec* input = call.slots[0].spec;
  const Windows w = windows_of(args, 3, input->ndim());
  const Chosen chosen = choose(input, call.slots[1].spec, call.schema.args[2],
                               Arguments(args.begin() + 3, args.end()), w);
  const DeviceMesh& mesh = device_mesh(call.schema.layout);
  const ObservedOp observed(call.schema, chosen.sharding);
  const LocalTensors locals = prepare_inputs(call, chosen.sharding, mesh);
  const DTensorSpec* output = chosen.sharding.outputs[0];
  if (!mesh.participates()) return {DTensor(outsider_value(*output), output)};
  const Cutting cutting(chosen.sharding.inputs[0], call.slots[1].spec, output, w, &mesh);
  const Tensor result =
      convolved(cutting.with_halo(locals[0]), locals[1], locals[2],
                local_meta(*output, *mesh.coordinate()), w, cutting.forward_padding());
  return {DTensor(result, output)};
}

Results handle_convolution_backward(Calls&, const OpRow& row, const Arguments& args) {
  const Unwrapped call = unwrap(row, args);
  check_shapes(row, args, call);
  if (!call.distributed) return plain_gradients(args, call);
  const DTensorSpec *gradient = call.slots[0].spec, *input = call.slots[1].spec,
                    *weight = call.slots[2].spec;
  const Windows w = windows_of(args, 4, input->ndim());
  const Chosen chosen =
      choose(input, weight, Argument(), Arguments(args.begin() + 4, args.begin() + 10), w);
  const DTensorSpec* laid_out = chosen.sharding.inputs[0];
  OutputSharding sharding;
  sharding.inputs = {whole(chosen.sharding.outputs[0]->with(gradient->meta())), whole(laid_out),
                     chosen.sharding.inputs[1]};
  const Placements terms = terms_of(sharding.inputs[1]);
  const auto fresh = [&](const Placements& placements, const Dims& shape) {
    return input->arena().spec(input->layout(), placements,
                               contiguous_meta(shape, weight->dtype()));
  };
  sharding.outputs = {fresh(sharding.inputs[1]->placements(), input->shape()),
                      fresh(terms, weight->shape()), fresh(terms, Dims{gradient->shape()[1]})};
  for (const Sought which : {kOfInput, kOfWeight, kOfBias}) {
    if (!wanted(args, which)) sharding.outputs[which] = nullptr;
  }
  const DeviceMesh& mesh = device_mesh(call.schema.layout);
  const ObservedOp observed(call.schema, sharding);
  const LocalTensors locals = prepare_inputs(call, sharding, mesh);
  LocalGradients made;
  if (mesh.participates()) {
    const Cutting cutting(sharding.inputs[1], weight, sharding.inputs[0], w, &mesh);
    made = local_gradients(args, {locals.data(), locals.size()}, w, &cutting);
  }
  Results results;
  for (const Sought which : {kOfInput, kOfWeight, kOfBias}) {
    const DTensorSpec* spec = sharding.outputs[which];
    if (spec == nullptr) {
      results.emplace_back();
    } else {
      results.push_back(
          DTensor(mesh.participates() ? made.of[which] : outsider_value(*spec), spec));
    }
  }
  return results;
}

}  // namespace shardlab
