// Hooks of a tensor are kept at its place on the tape, where the walk of backward finds them. Hooks
// of a part of a program are a node that passes gradients on.
#include "autograd/hooks.h"

#include "autograd/hook_scope.h"
#include "autograd/on_tape.h"
#include "autograd/view.h"
#include "base/error.h"
#include "tensor/device.h"

namespace shardlab {

namespace {

class LeafPlace final : public TapePlace {
 public:
  LeafPlace() : TapePlace(Kind::kLeaf) {}
};

void check_replacement(const DTensor& before, const DTensor& after) {
  const bool same_mesh =
      before.distributed() == after.distributed() &&
      (!before.distributed() || before.spec()->layout() == after.spec()->layout());
  if (before.shape() == after.shape() && before.dtype() == after.dtype() && same_mesh) return;
  const auto said = [](const DTensor& x) {
    return fmt::format("{} {}", x.distributed() ? "the distributed" : "the plain", type_string(x));
  };
  fail(ErrorKind::kRuntime,
       Fix{"give a gradient of the same shape, dtype and mesh, or None to keep it"},
       "a hook gives {} for the gradient, {}", said(after), said(before));
}

// Zeros with the placements of a tensor, without any reduction pending.
struct Zeros {
  explicit Zeros(const DTensor& x) : meta(x.local().meta()), spec(x.spec()) {}
  DTensor make() const {
    const Tensor memory = empty(*current_rank().device, contiguous_meta(meta.shape, meta.dtype));
    const DTensor zeros = plain_calls().one("aten::full_like", {DTensor(memory), 0.0});
    if (spec == nullptr) return zeros;
    return DTensor(zeros.local(), spec->with(without_partials(spec->placements())));
  }
  TensorMeta meta;
  const DTensorSpec* spec;
};

class HookNode final : public GradNode {
 public:
  HookNode(const std::vector<DTensor>& tensors, MissingGradients missing, GradientsHook hook)
      : GradNode("hooks", tensors.size()), missing_(missing), hook_(std::move(hook)) {
    for (const DTensor& x : tensors) {
      connect(x);
      zeros_.emplace_back(x);
    }
  }

  std::vector<DTensor> run(std::span<const DTensor> grads, Graph) override {
    std::vector<DTensor> given(grads.begin(), grads.end());
    if (missing_ == MissingGradients::kZeros) fill(given);
    const HookScope scope;
    std::vector<DTensor> result = hook_(given);
    check_invariant(result.size() == given.size(), "a hook gives as many gradients as it is given");
    for (std::size_t i = 0; i < given.size(); ++i) {
      if (given[i].defined() && result[i].defined()) check_replacement(given[i], result[i]);
    }
    if (missing_ == MissingGradients::kUndefined) fill(result);
    return result;
  }

 private:
  void fill(std::vector<DTensor>& gradients) const {
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      if (!gradients[i].defined()) gradients[i] = zeros_[i].make();
    }
  }

  std::vector<Zeros> zeros_;
  MissingGradients missing_;
  GradientsHook hook_;
};

}  // namespace

TensorHooks& TapePlace::own_hooks() {
  if (hooks_ == nullptr) hooks_ = std::make_shared<TensorHooks>();
  return *hooks_;
}

void HookHandle::take_off() const {
  const std::shared_ptr<TensorHooks> all = hooks_.lock();
  if (all != nullptr) std::erase_if(all->hooks, [&](const auto& hook) { return hook.id == id_; });
}

HookHandle on_tape::register_hook(const DTensor& x, GradientHook hook) {
  if (!requires_grad(x)) {
    throw Error(ErrorKind::kRuntime, "register_hook: the tensor does not require a gradient")
        .with("op", type_string(x))
        .with("fix", "x.requires_grad_() first, or set requires_grad = true on the input");
  }
  const GradNode::Edge edge = edge_of(x);
  TapePlace* place = edge.node.get();
  if (place == nullptr) {
    if (!x.impl()->grad_node) x.impl()->grad_node = make_ref<LeafPlace>();
    place = static_cast<TapePlace*>(x.impl()->grad_node.get());
  }
  TensorHooks& all = place->own_hooks();
  all.hooks.push_back({++all.made, edge.node ? edge.output : 0, std::move(hook)});
  return HookHandle(place->hooks(), all.made);
}

DTensor after_hooks(const TensorHooks& hooks, std::uint32_t output, DTensor gradient) {
  const HookScope scope;
  const std::vector<TensorHooks::Hook> now = hooks.hooks;  // one may remove itself
  for (const TensorHooks::Hook& hook : now) {
    if (hook.output != output) continue;
    DTensor replaced = hook.run(gradient);
    if (!replaced.defined()) continue;
    check_replacement(gradient, replaced);
    gradient = std::move(replaced);
  }
  return gradient;
}

std::vector<DTensor> on_tape::hook_gradients(const std::vector<DTensor>& tensors,
                                             MissingGradients missing, GradientsHook hook) {
  const auto node = make_ref<HookNode>(tensors, missing, std::move(hook));
  std::vector<DTensor> out;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const DTensor& x = tensors[i];
    if (!records(x)) {
      out.push_back(x);
      continue;
    }
    bring_up_to_date(x);
    const DTensor passed(x.local().snapshot(), x.spec());
    copy_marks(passed, x);
    attach(passed, node, i);
    out.push_back(passed);
  }
  return out;
}

}  // namespace shardlab
