// grad_node.h - one recorded step of the tape: the source of gradients and their next steps. A node
// belongs to one rank.
#pragma once

#include <boost/container/small_vector.hpp>

#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "autograd/tape.h"
#include "base/rank_context.h"
#include "dispatch/plain_calls.h"
#include "mesh/dtensor.h"

namespace shardlab {

struct TensorHooks;  // autograd/hooks.h

/// The object in DTensorImpl::grad_node: the node of an op, a view (autograd/view.h), which points
/// to its base and through it to its node, or the hooks of a leaf.
class TapePlace : public Counted {
 public:
  bool is_view() const { return kind_ == Kind::kView; }
  bool is_node() const { return kind_ == Kind::kNode; }
  /// Called with gradients that arrive here; null: none.
  const std::shared_ptr<TensorHooks>& hooks() const { return hooks_; }
  /// Makes them where there are none.
  TensorHooks& own_hooks();

 protected:
  enum class Kind : std::uint8_t { kNode, kView, kLeaf };
  explicit TapePlace(Kind kind) : kind_(kind) {}

 private:
  std::shared_ptr<TensorHooks> hooks_;
  Kind kind_;
};

/// The gradient of one recorded call, with edges to the places of its inputs. Kept alive by the
/// handles of its results and by nodes that lead to it. Used by its own rank.
class GradNode : public TapePlace {
 public:
  /// The destination of one tensor argument's gradient: another node's output, a leaf, or nothing.
  struct Edge {
    Ref<GradNode> node;
    std::uint32_t output = 0;
    DTensor leaf;
    bool wanted() const { return static_cast<bool>(node) || leaf.defined(); }
  };

  using Edges = boost::container::small_vector<Edge, 3>;
  using Grads = boost::container::small_vector<DTensor, 2>;
  /// Marks of the current walk over the tape.
  struct Visit {
    const void* walk = nullptr;  ///< null: no walk has reached it
    bool leads_on = false;       ///< towards the inputs of the walk
    Grads grads;                 ///< one per output; undefined: none flowed in
  };

  /// `name` outlives the node.
  explicit GradNode(std::string_view name, std::size_t outputs = 1);
  ~GradNode() override;

  /// Before run(): fails with Runtime when a value that was saved for it has changed.
  virtual void check_saved() const {}
  /// Calls `visit` for each tensor that was kept for run() and was not dropped yet; one that was
  /// kept twice is visited twice.
  virtual void visit_saved(const std::function<void(const DTensor& x)>& visit) const {
    static_cast<void>(visit);
  }
  /// One gradient per edge (undefined = none) from one per output (undefined = none flowed in).
  /// With Graph::kCreate they are recorded: on the tape they depend on `grads` and on the kept
  /// values.
  virtual std::vector<DTensor> run(std::span<const DTensor> grads, Graph graph) = 0;
  /// Whether it is run where nothing flowed in, too.
  virtual bool runs_without_gradients() const { return false; }
  /// Drops the values saved for run(). A node that saved something can't run again then.
  void free() { freed_ = free_saved() || freed_; }

  /// Connects the next tensor argument; an undefined handle or one that needs no gradient gets no
  /// destination.
  void connect(const DTensor& input);
  void connect(Edge edge) { edges_.push_back(std::move(edge)); }
  void reserve(std::size_t edges) { edges_.reserve(edges); }
  const Edges& edges() const { return edges_; }
  std::size_t output_count() const { return output_count_; }
  /// The number of this node on its rank: larger than that of every node it leads to. Of the nodes
  /// that are ready, backward runs the one made last.
  std::uint64_t sequence() const { return sequence_; }
  std::string_view name() const { return name_; }
  const SourcePosition& position() const { return position_; }
  bool freed() const { return freed_; }
  Visit& visit() { return visit_; }

 protected:
  /// True when there was something.
  virtual bool free_saved() { return false; }
  void set_output_count(std::size_t count) { output_count_ = count; }

 private:
  std::string_view name_;
  std::size_t output_count_;
  Edges edges_;
  std::uint64_t sequence_;
  SourcePosition position_;
  Visit visit_;
  bool freed_ = false;
};

/// Whether gradients are recorded, and the calls that compute them.
inline bool records(Graph graph) { return graph == Graph::kCreate; }
inline Calls& calls_of(Graph graph) { return records(graph) ? recording_calls() : plain_calls(); }

/// Passes gradients on unchanged: a place on the tape for a value that another handle has as well.
class SameNode final : public GradNode {
 public:
  SameNode() : GradNode("same") {}
  std::vector<DTensor> run(std::span<const DTensor> grads, Graph) override { return {grads[0]}; }
};

/// Larger than the sequence of every node that this rank has made so far, and of none that it will
/// make.
std::uint64_t nodes_made();

/// A result and the gradient that flows into it.
struct Seeded {
  DTensor output, gradient;
};
/// Gradients of several results together with respect to `inputs`; gradients of leaves do not
/// change; undefined where none of them depends.
std::vector<DTensor> gradients_of(const std::vector<Seeded>& results,
                                  const std::vector<DTensor>& inputs, Graph graph = Graph::kFree);

/// Makes `result` output `index` of `node`.
void attach(const DTensor& result, const Ref<GradNode>& node, std::size_t index);
/// A handle to the value as it is now, without a place on the tape; later in-place ops on `x`
/// do not reach it.
DTensor detached(const DTensor& x);
/// Gives `to` the verifier's note on `from` (mesh/dtensor.h), and its mask.
void copy_marks(const DTensor& to, const DTensor& from);
/// True when the tape records on this rank and the tensor takes part.
bool records(const DTensor& x);

}  // namespace shardlab
