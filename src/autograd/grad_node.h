// grad_node.h - one recorded step of the tape: where gradients come from and where they go on to.
// A node belongs to one rank.
#pragma once

#include <boost/container/small_vector.hpp>
#include <span>
#include <string_view>
#include <vector>

#include "base/rank_context.h"
#include "mesh/dtensor.h"

namespace shardlab {

class GradNode : public Counted {
 public:
  /// Where the gradient of one tensor argument goes: another node's output, a leaf, or nowhere.
  struct Edge {
    Ref<GradNode> node;
    std::uint32_t output = 0;
    DTensor leaf;
    bool wanted() const { return static_cast<bool>(node) || leaf.defined(); }
  };

  using Edges = boost::container::small_vector<Edge, 3>;
  using Grads = boost::container::small_vector<DTensor, 2>;
  /// What a walk over the tape has brought here so far.
  struct Visit {
    const void* walk = nullptr;  ///< null: none came by
    Grads grads;                 ///< one per output; undefined: none flowed in
  };

  /// `name` outlives the node.
  explicit GradNode(std::string_view name, std::size_t outputs = 1);
  ~GradNode() override;

  /// One gradient per edge (undefined = none) from one per output (undefined = none flowed in).
  virtual std::vector<DTensor> run(std::span<const DTensor> grads) = 0;
  /// Drops what was saved for run(). A freed node can't run again.
  void free();

  /// Connects the next tensor argument; an undefined handle or one that needs no gradient goes
  /// nowhere.
  void connect(const DTensor& input);
  void reserve(std::size_t edges) { edges_.reserve(edges); }
  const Edges& edges() const { return edges_; }
  std::size_t output_count() const { return output_count_; }
  /// Larger than that of every node it leads to.
  std::uint64_t depth() const { return depth_; }
  std::string_view name() const { return name_; }
  const SourcePosition& position() const { return position_; }
  bool freed() const { return freed_; }
  Visit& visit() { return visit_; }

 protected:
  virtual void free_saved() = 0;
  void set_output_count(std::size_t count) { output_count_ = count; }

 private:
  std::string_view name_;
  std::size_t output_count_;
  Edges edges_;
  std::uint64_t depth_ = 0;
  SourcePosition position_;
  Visit visit_;
  bool freed_ = false;
};

/// A result and the gradient that flows into it.
struct Seeded {
  DTensor output, gradient;
};
/// Gradients of several results together with respect to `inputs`, leaving leaves alone; undefined
/// where none of them depends.
std::vector<DTensor> gradients_of(const std::vector<Seeded>& results,
                                  const std::vector<DTensor>& inputs);

/// Makes `result` output `index` of `node`.
void attach(const DTensor& result, const Ref<GradNode>& node, std::size_t index);
/// A handle to the same value without a place on the tape; later in-place ops on `x` do not reach
/// it.
DTensor detached(const DTensor& x);
/// True when the tape records on this rank and the tensor takes part.
bool records(const DTensor& x);

}  // namespace shardlab
