// Nodes are numbered in the order in which they were recorded, which is the order that backward
// undoes (the engine of the reference does the same). The counter is shared by all ranks of the
// process: numbers of one rank have gaps, and only their order counts.
#include "autograd/grad_node.h"

#include <atomic>
#include <iterator>

#include "autograd/view.h"

namespace shardlab {

namespace {

// Counts the nodes of all ranks of the process: only the order on one rank matters.
std::atomic<std::uint64_t>& made() {
  static std::atomic<std::uint64_t> count{0};
  return count;
}

std::uint64_t next_in_sequence() { return made().fetch_add(1, std::memory_order_relaxed); }

}  // namespace

std::uint64_t nodes_made() { return made().load(std::memory_order_relaxed); }

GradNode::GradNode(std::string_view name, std::size_t outputs)
    : TapePlace(Kind::kNode),
      name_(name),
      output_count_(outputs),
      sequence_(next_in_sequence()),
      position_(current_rank().position) {}

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

void GradNode::connect(const DTensor& input) {
  const bool wanted = input.defined() && input.requires_grad();
  edges_.push_back(wanted ? edge_of(input) : Edge{});
  // A view may have found its place only now.
  const Ref<GradNode>& node = edges_.back().node;
  if (node && node->sequence_ > sequence_) sequence_ = next_in_sequence();
}

DTensor detached(const DTensor& x) {
  if (!x.defined()) return {};
  bring_up_to_date(x);
  DTensor copy(x.local().snapshot(), x.spec());
  copy_marks(copy, x);
  return copy;
}

void copy_marks(const DTensor& to, const DTensor& from) {
  to.impl()->extras = from.impl()->extras;
  to.impl()->note = from.impl()->note;
}

bool records(const DTensor& x) {
  return x.defined() && x.requires_grad() && (current_rank().mode & kModeAutograd) != 0;
}

}  // namespace shardlab
