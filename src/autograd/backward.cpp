#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <exception>
#include <span>
#include <unordered_map>

#include "autograd/autograd.h"
#include "autograd/grad_node.h"
#include "base/rank_context.h"
#include "tensor/device.h"

namespace shardlab {

namespace {

DTensor add_gradients(const DTensor& a, const DTensor& b) {
  if (!a.defined()) return b;
  return plain_calls().one("aten::add.Tensor", {a, b});
}

// Runs with the position of the op whose gradient is computed, so that reports point to the forward
// line.
class BackwardScope {
 public:
  explicit BackwardScope(const SourcePosition& position)
      : rank_(current_rank()), position_(rank_.position), pass_(rank_.pass) {
    if (position.file != nullptr) rank_.position = position;
    rank_.pass = Pass::kBackward;
  }
  ~BackwardScope() {
    // An error keeps the place of the op whose gradient failed, for its report.
    if (std::uncaught_exceptions() == uncaught_) rank_.position = position_;
    rank_.pass = pass_;
  }
  BackwardScope(const BackwardScope&) = delete;
  BackwardScope& operator=(const BackwardScope&) = delete;

 private:
  RankContext& rank_;
  SourcePosition position_;
  Pass pass_;
  const int uncaught_ = std::uncaught_exceptions();
};

// Walks the tape from the loss: deepest node first, so that a node runs after everything that feeds
// it. Equal depths go by discovery order, which is the same on every rank.
class Walk {
  using Grads = GradNode::Grads;

 public:
  Walk() = default;
  // An error may have ended it early.
  ~Walk() {
    for (const Ready& left : ready_) leave(*left.node);
  }
  Walk(const Walk&) = delete;
  Walk& operator=(const Walk&) = delete;

  void start(const DTensor& root, DTensor gradient) { arrive(edge_of(root), std::move(gradient)); }

  /// Nodes whose gradients are asked for directly: they are noted, not only passed through.
  void watch(GradNode* node) { watched_[node]; }

  void run() {
    while (!ready_.empty()) {
      std::ranges::pop_heap(ready_, {}, &Ready::turn);
      const Ref<GradNode> node = std::move(ready_.back().node);
      ready_.pop_back();
      const Grads grads = std::move(node->visit().grads);
      leave(*node);
      if (const auto found = watched_.find(node.get()); found != watched_.end()) {
        found->second = grads;
      }
      pass_through(*node, grads);
    }
  }

  std::span<const std::pair<DTensor, DTensor>> leaves() const {
    return {leaves_.data(), leaves_.size()};
  }
  DTensor watched(GradNode* node, std::size_t output) const {
    const auto& grads = watched_.at(node);
    return output < grads.size() ? grads[output] : DTensor();
  }

  static GradNode::Edge edge_of(const DTensor& x) {
    GradNode::Edge edge;
    if (x.impl()->grad_node) {
      edge.node = Ref<GradNode>(static_cast<GradNode*>(x.impl()->grad_node.get()));
      edge.output = x.impl()->output_index;
    } else {
      edge.leaf = x;
    }
    return edge;
  }

 private:
  struct Ready {
    Ref<GradNode> node;
    std::pair<std::uint64_t, std::int64_t> turn;  // depth, then earlier discovery first
  };

  static void leave(GradNode& node) {
    node.visit().walk = nullptr;
    node.visit().grads.clear();
  }

  DTensor& pending(const Ref<GradNode>& node, std::uint32_t output) {
    GradNode::Visit& visit = node->visit();
    if (visit.walk != this) {
      visit.walk = this;
      visit.grads.resize(node->output_count());
      ready_.push_back({node, {node->depth(), -++discovered_}});
      std::ranges::push_heap(ready_, {}, &Ready::turn);
    }
    return visit.grads[output];
  }

  void arrive(const GradNode::Edge& edge, DTensor gradient) {
    if (!gradient.defined()) return;
    if (edge.node) {
      DTensor& slot = pending(edge.node, edge.output);
      slot = add_gradients(slot, gradient);
    } else if (edge.leaf.defined()) {
      for (auto& [leaf, sum] : leaves_) {
        if (leaf == edge.leaf) {
          sum = add_gradients(sum, gradient);
          return;
        }
      }
      leaves_.emplace_back(edge.leaf, std::move(gradient));
    }
  }

  void pass_through(GradNode& node, const Grads& grads) {
    if (node.freed()) {
      throw Error(ErrorKind::kRuntime, "backward ran twice through the same graph")
          .with("op", std::string(node.name()))
          .with("fix", "run the forward again before the second backward");
    }
    const BackwardScope scope(node.position());
    try {
      const std::vector<DTensor> inputs = node.run({grads.data(), grads.size()});
      check_invariant(inputs.size() == node.edges().size(), "one gradient per tensor argument");
      for (std::size_t i = 0; i < inputs.size(); ++i) arrive(node.edges()[i], inputs[i]);
    } catch (Error& error) {
      error.with("gradient of", std::string(node.name()));
      throw;
    }
    node.free();
  }

  boost::container::small_vector<Ready, 4> ready_;  // a heap
  std::unordered_map<GradNode*, Grads> watched_;
  boost::container::small_vector<std::pair<DTensor, DTensor>, 4> leaves_;
  std::int64_t discovered_ = 0;
};

DTensor seed_for(const DTensor& loss, const DTensor& seed) {
  if (!loss.requires_grad()) {
    throw Error(ErrorKind::kRuntime,
                "backward: nothing that the loss depends on requires a gradient")
        .with("op", fmt::format("loss {}", type_string(loss)))
        .with("fix", "set requires_grad = true on an input, or list it under expect.grads");
  }
  if (seed.defined()) return seed;
  if (loss.numel() != 1) {
    throw Error(ErrorKind::kValue, "backward: the loss is not a scalar")
        .with("op", fmt::format("loss {}", type_string(loss)))
        .with("fix", "reduce it first: loss.sum() or loss.mean()");
  }
  // d loss / d loss is 1 wherever the value lies; for a partial one every rank's term counts fully,
  // so the gradient is a replica.
  Tensor one = empty(*current_rank().device, loss.local().meta());
  DTensor result = plain_calls().one("aten::full_like", {DTensor(one), 1.0});
  if (!loss.distributed()) return result;
  return DTensor(result.local(), loss.spec()->with(without_partials(loss.spec()->placements())));
}

}  // namespace

void require_grad(const DTensor& x) {
  if (is_integral(x.dtype())) {
    throw Error(ErrorKind::kValue, "only floating and complex tensors can require a gradient")
        .with("op", type_string(x));
  }
  if (x.impl()->grad_node) {
    throw Error(ErrorKind::kValue, "requires_grad is set on inputs, not on results of ops")
        .with("op", type_string(x));
  }
  x.impl()->requires_grad = true;
}

DTensor grad_of(const DTensor& leaf) {
  if (!leaf.impl()->grad) return {};
  return DTensor(Ref<DTensorImpl>(static_cast<DTensorImpl*>(leaf.impl()->grad.get())));
}

void backward(const DTensor& loss, const DTensor& seed) {
  Walk walk;
  {
    const BackwardScope scope({});
    walk.start(loss, seed_for(loss, seed));
  }
  walk.run();
  for (const auto& [leaf, gradient] : walk.leaves()) {
    const BackwardScope scope({});
    leaf.impl()->grad = add_gradients(grad_of(leaf), gradient).ref();
  }
}

std::vector<DTensor> gradients(const DTensor& loss, const std::vector<DTensor>& inputs,
                               const DTensor& seed) {
  const BackwardScope scope({});
  return gradients_of({{loss, seed_for(loss, seed)}}, inputs);
}

std::vector<DTensor> gradients_of(const std::vector<Seeded>& results,
                                  const std::vector<DTensor>& inputs) {
  Walk walk;
  for (const DTensor& input : inputs) {
    if (const auto edge = Walk::edge_of(input); edge.node) walk.watch(edge.node.get());
  }
  for (const Seeded& result : results) walk.start(result.output, result.gradient);
  walk.run();
  std::vector<DTensor> result;
  for (const DTensor& input : inputs) {
    const GradNode::Edge edge = Walk::edge_of(input);
    if (edge.node) {
      result.push_back(walk.watched(edge.node.get(), edge.output));
      continue;
    }
    DTensor found;
    for (const auto& [leaf, gradient] : walk.leaves()) {
      if (leaf == edge.leaf) found = gradient;
    }
    result.push_back(found);
  }
  return result;
}

}  // namespace shardlab
