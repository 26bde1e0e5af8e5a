// Backward: gradients flow from results to leaves in the order of the reference's engine.
#include <boost/container/small_vector.hpp>

#include <algorithm>
#include <span>
#include <unordered_map>
#include <utility>

#include "autograd/at_place.h"
#include "autograd/grad_mode.h"
#include "autograd/hook_scope.h"
#include "autograd/hooks.h"
#include "autograd/on_tape.h"
#include "autograd/view.h"
#include "base/memory_account.h"
#include "base/rank_context.h"
#include "comm/observer.h"
#include "tensor/device.h"

namespace shardlab {

namespace {

DTensor add_gradients(Calls& calls, const DTensor& a, const DTensor& b) {
  if (!a.defined()) return b;
  return calls.one("aten::add.Tensor", {a, b});
}

// Runs with the position of the op whose gradient is computed, so that reports point to the forward
// line.
class BackwardScope {
 public:
  explicit BackwardScope(const SourcePosition& position) {
    if (position.file != nullptr) current_rank().position = position;
  }

 private:
  // An error keeps the place of the op whose gradient failed, for its report.
  const HookScope scope_;
};

// A walk over the tape from results whose gradients are known to the leaves. Reachable nodes are
// found first; then the node made last runs first, as in the reference. A node is made after all
// that it leads to, so that everything that feeds it has run by then. A leaf counts the edges that
// lead to it: with the last one its gradient is complete, and is delivered before the next node
// runs.
class Walk {
  using Grads = GradNode::Grads;

 public:
  explicit Walk(Graph graph) : graph_(graph), calls_(calls_of(graph)) {}
  // An error may have ended the walk early.
  ~Walk() {
    for (GradNode* node : nodes_) node->visit() = {};
  }
  Walk& operator=(Walk&&) = delete;

  /// Only nodes that lead to `inputs` run.
  void aim_at(const std::vector<DTensor>& inputs) {
    for (const DTensor& input : inputs) {
      const GradNode::Edge edge = edge_of(input);
      if (edge.node) {
        watched_[edge.node.get()];
      } else {
        targets_.push_back(input.impl());
      }
    }
    std::ranges::sort(targets_);
    aimed_ = true;
  }

  /// `complete(leaf, gradient)` is called for each leaf that got one.
  void run(std::span<const Seeded> results, const auto& complete) {
    const GradModeScope mode(records(graph_));
    find(results);
    for (const Seeded& result : results) arrive(edge_of(result.output), result.gradient);
    hand_over(complete);
    for (GradNode* node : nodes_) {
      Grads grads = std::move(node->visit().grads);
      if (node->hooks() != nullptr) run_hooks(*node, grads);
      if (const auto found = watched_.find(node); found != watched_.end()) found->second = grads;
      if (!node->visit().leads_on) continue;
      pass_through(*node, grads);
      hand_over(complete);
    }
  }

  /// Some inputs are not leaves.
  bool watches() const { return !watched_.empty(); }
  DTensor watched(const GradNode::Edge& edge) const {
    const Grads& grads = watched_.at(edge.node.get());
    return edge.output < grads.size() ? grads[edge.output] : DTensor();
  }

 private:
  struct Leaf {
    DTensorImpl* impl = nullptr;
    std::int64_t edges = 0;  // not yet delivered
    DTensor sum;
  };

  void find(std::span<const Seeded> results) {
    for (const Seeded& result : results) reach(edge_of(result.output));
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      for (const GradNode::Edge& edge : nodes_[i]->edges()) reach(edge);
    }
    std::ranges::sort(nodes_, std::ranges::greater(), &GradNode::sequence);
    for (auto node = nodes_.rbegin(); node != nodes_.rend(); ++node) {
      (*node)->visit().leads_on =
          !aimed_ || std::ranges::any_of((*node)->edges(), [&](const GradNode::Edge& edge) {
            return is_wanted(edge);
          });
    }
    boost::container::small_vector<DTensorImpl*, 8> ends;  // one for each edge to a leaf
    const auto expect = [&](const GradNode::Edge& edge) {
      if (edge.leaf.defined() && is_wanted(edge)) ends.push_back(edge.leaf.impl());
    };
    for (const Seeded& result : results) expect(edge_of(result.output));
    for (GradNode* node : nodes_) {
      if (node->visit().leads_on) std::ranges::for_each(node->edges(), expect);
    }
    std::ranges::sort(ends);
    for (DTensorImpl* const leaf : ends) {
      if (leaves_.empty() || leaves_.back().impl != leaf) leaves_.push_back({leaf, 0, {}});
      ++leaves_.back().edges;
    }
  }

  Leaf& leaf_of(const DTensor& x) {
    return *std::ranges::lower_bound(leaves_, x.impl(), {}, &Leaf::impl);
  }

  // The marks of a walk are in the nodes, so that another one may run inside of it on others.
  void reach(const GradNode::Edge& edge) {
    if (!edge.node || edge.node->visit().walk == this) return;
    GradNode::Visit& visit = edge.node->visit();
    if (visit.walk != nullptr) {
      throw Error(ErrorKind::kRuntime, "backward: a hook of another backward asks for it")
          .with("op", std::string(edge.node->name()))
          .with("fix",
                "keep what the hook is given in a list, and call backward after the other one");
    }
    visit.walk = this;
    visit.grads.resize(edge.node->output_count());
    nodes_.push_back(edge.node.get());
  }

  bool is_wanted(const GradNode::Edge& edge) const {
    if (!aimed_) return edge.wanted();
    if (!edge.node) return std::ranges::binary_search(targets_, edge.leaf.impl());
    return edge.node->visit().leads_on || watched_.contains(edge.node.get());
  }

  void arrive(const GradNode::Edge& edge, DTensor gradient) {
    if (!edge.wanted() || !is_wanted(edge)) return;
    if (edge.node) {
      if (!gradient.defined()) return;
      DTensor& slot = edge.node->visit().grads[edge.output];
      slot = add_gradients(calls_, slot, gradient);
      return;
    }
    Leaf& leaf = leaf_of(edge.leaf);
    if (gradient.defined()) leaf.sum = add_gradients(calls_, leaf.sum, gradient);
    if (--leaf.edges > 0 || !leaf.sum.defined()) return;
    const auto* place = static_cast<const TapePlace*>(edge.leaf.impl()->grad_node.get());
    if (place != nullptr && place->hooks() != nullptr) {
      leaf.sum = after_hooks(*place->hooks(), 0, leaf.sum);
    }
    complete_.push_back({edge.leaf, std::move(leaf.sum)});
  }

  void run_hooks(const GradNode& node, Grads& grads) {
    for (std::size_t i = 0; i < grads.size(); ++i) {
      if (!grads[i].defined()) continue;
      grads[i] = after_hooks(*node.hooks(), static_cast<std::uint32_t>(i), std::move(grads[i]));
    }
  }

  void hand_over(const auto& complete) {
    for (Seeded& leaf : complete_) complete(leaf.output, std::move(leaf.gradient));
    complete_.clear();
  }

  /// A node that received no gradient passes none on, and its edges have delivered.
  void pass_through(GradNode& node, const Grads& grads) {
    if (std::ranges::none_of(grads, &DTensor::defined) && !node.runs_without_gradients()) {
      for (const GradNode::Edge& edge : node.edges()) arrive(edge, {});
      return;
    }
    if (node.freed()) {
      throw Error(ErrorKind::kRuntime, "backward ran twice through the same graph")
          .with("op", std::string(node.name()))
          .with("fix", in_language("keep it with Graph::kRetain, or run the forward again",
                                   "keep it with retain_graph=True, or run the forward again"));
    }
    try {
      node.check_saved();  // reported at the program's call of backward
      const BackwardScope scope(node.position());
      Observer* const observer = observer_to_tell();
      if (observer != nullptr) observer->gradient_begins(node.sequence());
      std::vector<DTensor> inputs = node.run({grads.data(), grads.size()}, graph_);
      if (observer != nullptr) observer->gradient_ends();
      check_invariant(inputs.size() == node.edges().size(), "one gradient per tensor argument");
      for (std::size_t i = 0; i < inputs.size(); ++i) arrive(node.edges()[i], std::move(inputs[i]));
    } catch (Error& error) {
      error.with("gradient of", std::string(node.name()));
      throw;
    }
    if (graph_ == Graph::kFree) node.free();
  }

  Graph graph_;
  Calls& calls_;
  bool aimed_ = false;
  boost::container::small_vector<GradNode*, 8> nodes_;  // the one made last first
  boost::container::small_vector<Leaf, 4> leaves_;      // by address
  boost::container::small_vector<Seeded, 2> complete_;
  std::unordered_map<GradNode*, Grads> watched_;
  boost::container::small_vector<DTensorImpl*, 4> targets_;  // by address
};

DTensor seed_for(const DTensor& loss, const DTensor& seed) {
  if (!requires_grad(loss)) {
    throw Error(ErrorKind::kRuntime,
                "backward: nothing that the loss depends on requires a gradient")
        .with("op", fmt::format("loss {}", type_string(loss)))
        .with("fix",
              in_language("x.requires_grad_() on an input, before what is computed from it",
                          "set requires_grad = true on an input, or list it under expect.grads"));
  }
  if (seed.defined()) {
    if (seed.shape() == loss.shape()) return seed;
    throw Error(ErrorKind::kRuntime, "backward: the gradient has another shape than the result")
        .with("op", fmt::format("gradient {}, result {}", type_string(seed), type_string(loss)))
        .with("fix", "pass a gradient of the result's shape");
  }
  if (loss.numel() != 1) {
    throw Error(ErrorKind::kValue, "backward: the loss is not a scalar")
        .with("op", fmt::format("loss {}", type_string(loss)))
        .with("fix", "reduce it first: loss.sum() or loss.mean()");
  }
  // d loss / d loss is 1 on every rank that holds the value; for a partial one every rank's term
  // counts fully, so the gradient is a replica.
  // Made from no tensor of the rank's own: ranks share it, and what follows from it alone.
  DTensor result = plain_calls().one("aten::full", {loss.local().shape(), 1.0, loss.dtype()});
  if (!loss.distributed()) return result;
  return DTensor(result.local(), loss.spec()->with(without_partials(loss.spec()->placements())));
}

/// The gradient that a leaf keeps: row-major memory that nothing else writes to. A gradient may be
/// a view, an expanded one even, or on its way to another leaf as well.
DTensor owned(const DTensor& gradient) {
  const Tensor& local = gradient.local();
  if (!is_contiguous(gradient.meta().shape, gradient.meta().stride) || !local.contiguous()) {
    const TensorMeta meta = contiguous_meta(gradient.shape(), gradient.dtype());
    DTensor dense(clone_contiguous(local),
                  gradient.distributed() ? gradient.spec()->with(meta) : nullptr);
    copy_marks(dense, gradient);
    return dense;
  }
  const bool alone = gradient.ref()->use_count() == 1 && local.storage()->use_count() == 1;
  if (alone) return gradient;
  DTensor copy(Tensor(local.storage()->copy(), local.meta(), local.offset()), gradient.spec());
  copy_marks(copy, gradient);
  return copy;
}

/// An existing gradient is added to in place, as in the reference, and keeps its placements: its
/// other holders see the sum.
void accumulate(const DTensor& leaf, DTensor gradient) {
  const DTensor before = grad_of(leaf);
  if (!before.defined()) {
    const DTensor own = owned(gradient);
    leaf.impl()->grad = own.ref();
    leaf.impl()->grad_memory = Hold(own.local().storage(), HeldFor::kGradient);
  } else {
    plain_calls()("aten::add_.Tensor", {before, gradient});
  }
}

}  // namespace

DTensor grad_of(const DTensor& leaf) {
  if (!leaf.defined()) refuse_undefined("grad");
  if (!leaf.impl()->grad) return {};
  return DTensor(Ref<DTensorImpl>(static_cast<DTensorImpl*>(leaf.impl()->grad.get())));
}

std::vector<DTensor> gradients_of(const std::vector<Seeded>& results,
                                  const std::vector<DTensor>& inputs, Graph graph) {
  Walk walk(graph);
  walk.aim_at(inputs);
  std::vector<DTensor> found(inputs.size());
  walk.run(results, [&](const DTensor& leaf, const DTensor& gradient) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].is_same(leaf)) found[i] = gradient;
    }
  });
  if (!walk.watches()) return found;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (const auto edge = edge_of(inputs[i]); edge.node) found[i] = walk.watched(edge);
  }
  return found;
}

namespace on_tape {

void require_grad(const DTensor& x) {
  if (is_integral(x.dtype())) {
    throw Error(ErrorKind::kValue, "only floating and complex tensors can require a gradient")
        .with("op", type_string(x))
        .with("fix", "leave requires_grad out, or make the tensor of a floating dtype");
  }
  x.impl()->requires_grad = true;
  const MemoryAccount* const memory = current_rank().memory;
  if (memory == nullptr || memory->parameters_read || !is_leaf(x) || !x.local().defined()) return;
  x.local().storage()->become_input();
}

void require_no_grad(const DTensor& x) {
  if (!is_leaf(x)) {
    throw Error(ErrorKind::kRuntime, "requires_grad can be taken from leaves only")
        .with("op", type_string(x))
        .with("fix", "use x.detach()");
  }
  x.impl()->requires_grad = false;
}

void drop_grad(const DTensor& leaf) {
  leaf.impl()->grad = nullptr;
  leaf.impl()->grad_memory = Hold();
}

void backward(const DTensor& loss, const DTensor& seed, Graph graph) {
  if (records(graph)) {
    fail(ErrorKind::kUnsupported,
         Fix{in_language("gradients(loss, inputs, {}, Graph::kCreate) gives them instead",
                         "grad(loss, inputs, create_graph=True) gives them instead")},
         "backward: a leaf cannot hold a gradient that is recorded, which holds the leaf");
  }
  DTensor gradient;
  {
    const BackwardScope scope({});
    gradient = seed_for(loss, seed);
  }
  const Seeded result{loss, std::move(gradient)};
  Walk(graph).run({&result, 1}, [](const DTensor& leaf, DTensor arrived) {
    const BackwardScope scope({});
    accumulate(leaf, std::move(arrived));
    if (Observer* const observer = observer_to_tell()) observer->leaf_written(leaf);
  });
}

std::vector<DTensor> gradients(const DTensor& loss, const std::vector<DTensor>& inputs,
                               const DTensor& seed, Graph graph) {
  const BackwardScope scope({});
  return gradients_of({{loss, seed_for(loss, seed)}}, inputs, graph);
}

}  // namespace on_tape

}  // namespace shardlab
