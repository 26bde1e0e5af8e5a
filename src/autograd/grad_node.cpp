#include "autograd/grad_node.h"

#include <algorithm>

namespace shardlab {

GradNode::GradNode(std::string_view name, std::size_t outputs)
    : name_(name), output_count_(outputs), position_(current_rank().position) {}

// A long chain would otherwise recurse once per node: the edges of nodes that die with this one are
// taken over first.
GradNode::~GradNode() {
  Edges dying = std::move(edges_);
  while (!dying.empty()) {
    Edge edge = std::move(dying.back());
    dying.pop_back();
    if (!edge.node || edge.node->use_count() > 1) continue;
    std::move(edge.node->edges_.begin(), edge.node->edges_.end(), std::back_inserter(dying));
    edge.node->edges_.clear();
  }
}

void GradNode::free() {
  freed_ = true;
  free_saved();
}

void GradNode::connect(const DTensor& input) {
  Edge edge;
  if (input.defined() && input.requires_grad()) {
    if (input.impl()->grad_node) {
      edge.node = Ref<GradNode>(static_cast<GradNode*>(input.impl()->grad_node.get()));
      edge.output = input.impl()->output_index;
      depth_ = std::max(depth_, edge.node->depth_ + 1);
    } else {
      edge.leaf = input;
    }
  }
  edges_.push_back(std::move(edge));
}

void attach(const DTensor& result, const Ref<GradNode>& node, std::size_t index) {
  DTensorImpl* impl = result.impl();
  impl->grad_node = node;
  impl->output_index = static_cast<std::uint32_t>(index);
  impl->requires_grad = true;
}

DTensor detached(const DTensor& x) {
  if (!x.defined()) return {};
  DTensor copy(x.local().snapshot(), x.spec());
  copy.impl()->extras = x.impl()->extras;
  copy.impl()->exact = x.impl()->exact;
  copy.impl()->rank_local = x.impl()->rank_local;
  return copy;
}

bool records(const DTensor& x) {
  return x.defined() && x.requires_grad() && (current_rank().mode & kModeAutograd) != 0;
}

}  // namespace shardlab
