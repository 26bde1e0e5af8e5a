// Differentiable redistribute, from_local and to_local.
#include "autograd/autograd.h"
#include "autograd/on_tape.h"
#include "autograd/view.h"
#include "base/rank_context.h"
#include "base/text.h"
#include "comm/device_mesh.h"
#include "comm/observer.h"
#include "dispatch/plain_calls.h"
#include "mesh/local_shape.h"
#include "mesh/type_string.h"
#include "redistribute/redistribute.h"
#include "schema/calls.h"
#include "tensor/device.h"

namespace shardlab {

namespace {

// The cast is local: placements stay what they are, partial terms included.
DTensor cast(const DTensor& x, DType dtype) {
  if (x.dtype() == dtype) return x;
  const Tensor local = plain_calls().one("aten::_to_copy", {DTensor(x.local()), dtype}).local();
  TensorMeta meta = x.meta();
  meta.dtype = dtype;
  DTensor result = x.distributed() ? DTensor(local, x.spec()->with(meta)) : DTensor(local);
  copy_marks(result, x);
  return result;
}

DTensor cast(const DTensor& x, DType dtype, Graph graph) {
  if (!records(graph) || x.dtype() == dtype) return cast(x, dtype);
  return recording_calls().one("aten::_to_copy", {x, dtype});
}

DTensor moved_back(const DTensor& x, const DTensorSpec* target, RedistributeOptions options,
                   Graph graph) {
  options.direction = Direction::kBackward;
  return records(graph) ? on_tape::redistribute(x, target, options, {})
                        : redistribute_tensor(x, target, options);
}

class RedistributeNode : public GradNode {
 public:
  RedistributeNode(DType original, const DTensorSpec* source, RedistributeOptions options,
                   RedistributeDTypes dtypes)
      : GradNode("redistribute"),
        original_(original),
        source_(source),
        options_(options),
        dtypes_(dtypes) {}

  std::vector<DTensor> run(std::span<const DTensor> grads, Graph graph) override {
    const DTensor gradient = cast(grads[0], dtypes_.backward.value_or(original_), graph);
    const DTensorSpec* target = gradient_target(gradient.spec(), source_);
    return {cast(moved_back(gradient, target, options_, graph), original_, graph)};
  }

 private:
  DType original_;
  const DTensorSpec* source_;
  RedistributeOptions options_;
  RedistributeDTypes dtypes_;
};

class ToLocalNode : public GradNode {
 public:
  explicit ToLocalNode(const DTensorSpec* gradient_spec)
      : GradNode("to_local"), spec_(gradient_spec) {}
  std::vector<DTensor> run(std::span<const DTensor> grads, Graph graph) override {
    check_piece(grads[0].local());
    if (records(graph)) return {on_tape::from_local(grads[0], spec_)};
    DTensor gradient(grads[0].local(), spec_);
    report_placed(PlacedRecord::Kind::kFromLocal, grads[0], gradient);
    return {gradient};
  }

 private:
  void check_piece(const Tensor& gradient) const {
    const DeviceMesh& mesh = device_mesh(spec_->layout());
    if (!mesh.participates()) return;
    const Dims expected = local_shape(*spec_, *mesh.coordinate());
    if (expected == gradient.shape()) return;
    throw Error(ErrorKind::kRuntime,
                "to_local: the shape of the gradient is not that of the rank's piece")
        .with("placements", type_string(*spec_))
        .with("op",
              fmt::format("gradient {}, expected [{}] on rank {}", type_string(gradient.meta()),
                          text_of_list(expected, ", "), current_rank().rank))
        .with("fix", "grad_placements say how the local gradients make up the whole one");
  }

  const DTensorSpec* spec_;
};

class FromLocalNode : public GradNode {
 public:
  explicit FromLocalNode(const DTensorSpec* forward) : GradNode("from_local"), spec_(forward) {}
  std::vector<DTensor> run(std::span<const DTensor> grads, Graph graph) override {
    const DTensorSpec* target = gradient_target(grads[0].spec(), spec_);
    // A plain tensor has no label that could express a pending reduction.
    target = target->with(without_partials(target->placements()), target->order());
    const DTensor moved = moved_back(grads[0], target, {}, graph);
    if (records(graph)) return {on_tape::to_local(moved, moved.spec())};
    DTensor gradient(moved.local());
    report_placed(PlacedRecord::Kind::kToLocal, moved, gradient);
    return {gradient};
  }

 private:
  const DTensorSpec* spec_;
};

// " (x cuts dim 1, of 14, into 4 + 4 + 4 + 2)" for the first mesh dim that cuts.
std::string lengths_text(const DTensorSpec& spec) {
  const MeshLayout& layout = *spec.layout();
  for (std::size_t mesh_dim = 0; mesh_dim < layout.ndim(); ++mesh_dim) {
    const Placement& placement = spec.placement(mesh_dim);
    if (!placement.is_shard()) continue;
    const auto dim = static_cast<std::size_t>(placement.dim);
    return fmt::format(" ({} cuts dim {}, of {}, into {})", layout.names()[mesh_dim], dim,
                       spec.shape()[dim], text_of_list(lengths_along(spec, mesh_dim, dim), " + "));
  }
  return {};
}

void record(const DTensor& input, const DTensor& result, GradNode* raw) {
  const Ref<GradNode> node(raw);
  node->connect(input);
  attach(result, node, 0);
}

}  // namespace

namespace on_tape {

DTensor redistribute(const DTensor& x, const DTensorSpec* target,
                     const RedistributeOptions& options, const RedistributeDTypes& dtypes) {
  bring_up_to_date(x);
  const DType forward = dtypes.forward.value_or(x.dtype());
  const DTensor source = cast(x, forward);
  if (target->dtype() != forward) {
    TensorMeta meta = target->meta();
    meta.dtype = forward;
    target = target->with(meta);
  }
  DTensor result = redistribute_tensor(source, target, options);
  if (!records(x)) return result;
  // A separate handle, so that the tape distinguishes input and result; in memory they are one.
  if (result.is_same(x)) {
    result = DTensor(x.local(), x.spec());
    copy_marks(result, x);
    note_views(plain_calls().find("aten::alias"), {x}, {result});
  }
  record(x, result, new RedistributeNode(x.dtype(), source.spec(), options, dtypes));
  return result;
}

DTensor from_local(const DTensor& local, const DTensorSpec* spec) {
  bring_up_to_date(local);
  const DeviceMesh& mesh = device_mesh(spec->layout());
  if (mesh.participates()) {
    const Dims expected = local_shape(*spec, *mesh.coordinate());
    if (expected != local.shape()) {
      throw Error(ErrorKind::kValue, "from_local: the local tensor is not this rank's piece")
          .with("placements", type_string(*spec))
          .with("op", fmt::format("local {}, expected [{}] on rank {}", type_string(local.meta()),
                                  text_of_list(expected, ", "), current_rank().rank))
          .with("fix",
                fmt::format("give each rank its piece{}, or pass as shape= sizes that are cut like "
                            "the pieces; other lengths have no placement",
                            lengths_text(*spec)));
    }
  }
  // A rank outside holds nothing, whatever value it was given (D-37).
  DTensor result(
      mesh.participates() ? local.local() : empty(*local.local().device(), Dims{0}, local.dtype()),
      spec);
  report_placed(PlacedRecord::Kind::kFromLocal, local, result);
  if (records(local)) record(local, result, new FromLocalNode(spec));
  return result;
}

DTensor to_local(const DTensor& x, const DTensorSpec* gradient) {
  bring_up_to_date(x);
  DTensor result(x.local());
  report_placed(PlacedRecord::Kind::kToLocal, x, result);
  note_local(x, result);
  if (records(x)) record(x, result, new ToLocalNode(gradient));
  return result;
}

}  // namespace on_tape

}  // namespace shardlab
