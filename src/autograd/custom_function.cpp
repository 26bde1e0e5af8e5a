// Forward runs while nothing is recorded; then one node is put between its arguments and results,
// which calls backward and checks its results by the rules of the reference's engine.
#include "autograd/custom_function.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "autograd/grad_mode.h"
#include "autograd/hook_scope.h"
#include "autograd/on_tape.h"
#include "autograd/view.h"
#include "base/error.h"
#include "mesh/type_string.h"

namespace shardlab {

namespace {

bool is_among(const std::vector<DTensor>& tensors, const DTensor& x) {
  return std::ranges::any_of(tensors, same_as(x));
}

// The gradient of a backward that is once_differentiable: running it is an error.
class OnceNode final : public GradNode {
 public:
  OnceNode(std::shared_ptr<const CustomFunction> function, std::span<const DTensor> gradients,
           std::size_t outputs)
      : GradNode(function->name, outputs), function_(std::move(function)) {
    for (const DTensor& gradient : gradients) connect(gradient);
  }
  std::vector<DTensor> run(std::span<const DTensor>, Graph) override {
    fail(ErrorKind::kRuntime,
         Fix{"leave once_differentiable out, if backward is made of ops with gradients"},
         "{}: differentiated twice, and its backward is once_differentiable", function_->name);
  }

 private:
  std::shared_ptr<const CustomFunction> function_;
};

}  // namespace

class CustomNode final : public GradNode {
 public:
  CustomNode(std::shared_ptr<FunctionContext> context,
             std::shared_ptr<const CustomFunction> function, const std::vector<DTensor>& arguments,
             const std::vector<DTensor>& results)
      : GradNode(function->name, results.size()),
        context_(std::move(context)),
        function_(std::move(function)) {
    const auto shape_of = [](const DTensor& x) { return x.defined() ? without_values(x) : x; };
    for (const DTensor& x : arguments) {
      connect(x);
      arguments_.push_back(shape_of(x));
    }
    for (const DTensor& x : results) results_.push_back(shape_of(x));
    for (const DTensor& x : std::exchange(context_->saved_, {})) keep(x, arguments, results);
    context_->node_ = this;
  }
  ~CustomNode() override { context_->node_ = nullptr; }
  CustomNode& operator=(CustomNode&&) = delete;

  bool runs_without_gradients() const override { return true; }

  void visit_saved(const std::function<void(const DTensor& x)>& visit) const override {
    for (const Saved& saved : saved_) {
      if (saved.value.defined()) visit(saved.value);
    }
  }

  std::vector<DTensor> run(std::span<const DTensor> grads, Graph graph) override {
    Calls& calls = calls_of(graph);
    std::vector<DTensor> given(grads.begin(), grads.end());
    for (std::size_t i = 0; context_->materialize_ && i < given.size(); ++i) {
      if (given[i].defined() || !results_[i].defined()) continue;
      given[i] = calls.one("aten::zeros_like", {results_[i]});
    }
    std::vector<DTensor> found = called(given);
    check(found);
    found.resize(arguments_.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      found[i] = edges()[i].wanted() && found[i].defined() ? fitted(calls, found[i], i) : DTensor();
    }
    return records(graph) && function_->once_differentiable ? only_once(grads, found) : found;
  }

  std::vector<DTensor> saved() const {
    if (freed_) {
      fail(ErrorKind::kRuntime,
           Fix{"keep the graph of the first backward: retain_graph=True, Graph::kRetain"},
           "{}: what it saved for backward is gone", function_->name);
    }
    std::vector<DTensor> values;
    for (std::size_t i = 0; i < saved_.size(); ++i) values.push_back(unpacked(i));
    return values;
  }
  std::vector<std::pair<std::size_t, DTensor>> saved_results() const {
    std::vector<std::pair<std::size_t, DTensor>> values;
    for (const Saved& saved : saved_) {
      if (saved.result) values.emplace_back(*saved.result, on_tape_again(saved));
    }
    return values;
  }

 protected:
  bool free_saved() override {
    saved_.clear();
    freed_ = true;
    return false;  // it may run again, unless it reads what it saved
  }

 private:
  // A result without its place on the tape, which would hold itself. While backward runs, one
  // handle has its place.
  struct Saved {
    DTensor value;
    mutable DTensor lent;
    std::optional<std::uint32_t> result;
    Hold memory;
    Ref<Storage> versioned;
    std::uint64_t version = 0;
  };

  void keep(const DTensor& x, const std::vector<DTensor>& arguments,
            const std::vector<DTensor>& results) {
    Saved& saved = saved_.emplace_back(Saved{x, {}, {}, {}, {}});
    if (!x.defined()) return;
    saved.memory = Hold(x.local().storage(), HeldFor::kBackward);
    saved.versioned = versioned_storage(x);
    saved.version = saved.versioned->version();
    const auto found = std::ranges::find_if(results, same_as(x));
    if (found == results.end() || is_among(arguments, x)) return;
    saved.result = static_cast<std::uint32_t>(found - results.begin());
    saved.value = DTensor(x.local(), x.spec());
    copy_marks(saved.value, x);
  }

  DTensor unpacked(std::size_t index) const {
    const Saved& saved = saved_[index];
    if (!saved.value.defined()) return {};
    if (saved.versioned->version() != saved.version) {
      throw Error(ErrorKind::kRuntime,
                  fmt::format("{}: a tensor that it saved for backward was modified by an in-place "
                              "op",
                              function_->name))
          .with("op", fmt::format("saved tensor {}: {}", index, type_string(saved.value)))
          .with("fix", "clone it before the in-place op, or save the clone");
    }
    return saved.result ? on_tape_again(saved) : saved.value;
  }

  DTensor on_tape_again(const Saved& saved) const {
    if (saved.lent.defined()) return saved.lent;
    DTensor value(saved.value.local(), saved.value.spec());
    copy_marks(value, saved.value);
    attach(value, Ref<GradNode>(const_cast<CustomNode*>(this)), *saved.result);
    if (running_) saved.lent = value;
    return value;
  }

  // Handles that are lent hold this node, which holds them: they end with the run.
  struct Running {
    explicit Running(const CustomNode& node) : node(node) { node.running_ = true; }
    ~Running() {
      node.running_ = false;
      for (const Saved& saved : node.saved_) saved.lent = {};
    }
    Running& operator=(Running&&) = delete;
    const CustomNode& node;
  };

  std::vector<DTensor> called(const std::vector<DTensor>& given) const {
    const HookScope scope;
    const GradModeScope mode(grad_enabled() && !function_->once_differentiable);
    const Running running(*this);
    return function_->backward(*context_, given);
  }

  void check(const std::vector<DTensor>& found) const {
    const auto extra = found.begin() + std::ssize(arguments_);
    const bool missing = found.size() < arguments_.size();
    if (missing || std::any_of(extra, found.end(), [](const DTensor& x) { return x.defined(); })) {
      fail(ErrorKind::kRuntime,
           Fix{"return one gradient for each argument of forward, None for those that need none"},
           "{}: backward gave {} gradients, forward has {} arguments", function_->name,
           found.size(), arguments_.size());
    }
    for (std::size_t i = 0; i < arguments_.size(); ++i) {
      if (arguments_[i].defined() || !found[i].defined()) continue;
      throw Error(ErrorKind::kRuntime,
                  fmt::format("{}: backward gave a gradient for argument {}, which is no tensor",
                              function_->name, i))
          .with("op", fmt::format("gradient {}", type_string(found[i])))
          .with("fix", "return None in its place");
    }
  }

  DTensor fitted(Calls& calls, const DTensor& gradient, std::size_t index) const {
    const DTensor& of = arguments_[index];
    const bool same_mesh = gradient.distributed() == of.distributed() &&
                           (!of.distributed() || gradient.spec()->layout() == of.spec()->layout());
    if (!same_mesh) {
      const auto said = [](const DTensor& x) { return x.distributed() ? "distributed" : "plain"; };
      throw Error(ErrorKind::kRuntime,
                  fmt::format("{}: backward gave a {} gradient for argument {}, which is {}",
                              function_->name, said(gradient), index, said(of)))
          .with("op",
                fmt::format("gradient {}, argument {}", type_string(gradient), type_string(of)))
          .with("fix", "give a gradient on the argument's mesh: from_local(), or to_local()");
    }
    return fitted_gradient(calls, gradient, of, function_->name, fmt::format("argument {}", index),
                           "return a gradient of the argument's shape");
  }

  // If these gradients are recorded, their place on the tape is a node that fails.
  std::vector<DTensor> only_once(std::span<const DTensor> grads,
                                 const std::vector<DTensor>& found) const {
    const auto recorded = [](const DTensor& x) { return x.defined() && requires_grad(x); };
    if (std::ranges::none_of(grads, recorded)) return found;
    const auto node = make_ref<OnceNode>(function_, grads, found.size());
    std::vector<DTensor> out;
    for (std::size_t i = 0; i < found.size(); ++i) {
      out.push_back(found[i].defined() ? detached(found[i]) : DTensor());
      if (found[i].defined()) attach(out.back(), node, i);
    }
    return out;
  }

  std::shared_ptr<FunctionContext> context_;
  std::shared_ptr<const CustomFunction> function_;
  std::vector<DTensor> arguments_, results_;  // without values; undefined: no tensor
  std::vector<Saved> saved_;
  bool freed_ = false;
  mutable bool running_ = false;
};

std::shared_ptr<FunctionContext> FunctionContext::of(const std::vector<DTensor>& arguments) {
  std::vector<bool> needs;
  for (const DTensor& x : arguments) needs.push_back(x.defined() && shardlab::requires_grad(x));
  return std::make_shared<FunctionContext>(std::move(needs));
}

std::vector<DTensor> FunctionContext::saved_tensors() const {
  return node_ != nullptr ? node_->saved() : saved_;
}

std::vector<std::pair<std::size_t, DTensor>> FunctionContext::saved_results() const {
  if (node_ == nullptr) return {};
  return node_->saved_results();
}

bool FunctionContext::has_gradient(const DTensor& result) const {
  return result.defined() && !is_integral(result.dtype()) && !is_among(constant_, result);
}

std::vector<DTensor> on_tape::with_gradient(const std::shared_ptr<FunctionContext>& context,
                                            const std::shared_ptr<const CustomFunction>& function,
                                            const std::vector<DTensor>& arguments,
                                            const std::vector<DTensor>& results) {
  const bool recorded = std::ranges::any_of(arguments, [](const DTensor& x) { return records(x); });
  Ref<GradNode> node;
  if (recorded) node = make_ref<CustomNode>(context, function, arguments, results);
  std::vector<DTensor> given;
  for (const DTensor& result : results) {
    // A result that already has a place keeps it.
    const bool taken = result.defined() && (is_among(arguments, result) ||
                                            is_among(given, result) || requires_grad(result));
    given.push_back(taken ? on_tape::detach(result) : result);
    if (!node || !context->has_gradient(result)) continue;
    attach(given.back(), node, given.size() - 1);
  }
  return given;
}

}  // namespace shardlab
