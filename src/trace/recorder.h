// recorder.h - records the events of a program on one rank (T-1). A decorator of its calls: without
// one, capture costs nothing.
//
//   Recorder recorder(program_calls(), mesh);
//   recorder.input("x", {}, x);
//   { const ProgramScope scope(recorder);  y = f(x); }
//   const ProgramGraph graph = recorder.finish();
//
// Used by its rank alone.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "autograd/program.h"
#include "comm/forwarding_observer.h"
#include "schema/calls.h"
#include "trace/graph_meshes.h"

namespace shardlab {

struct OpRow;

class Recorder final : public ForwardingProgram {
 public:
  /// `mesh`: the program's own, of which it takes parts; it is made before the program begins.
  /// Null for the first mesh that appears.
  Recorder(ProgramCalls& next, const MeshLayout* mesh);
  ~Recorder() override;

  /// An input of the program, before it runs.
  void input(const std::string& name, InputRecipe recipe, const DTensor& value);
  /// The observer that listens while the program runs, so that the graph has the parts of its
  /// nodes. It calls `next`, which may be null.
  Observer& listen(Observer* next);

  /// The places of nodes are those in a program in C++, in the file of the first call.
  void note_cpp_places() { cpp_places_ = true; }
  /// A test compares the whole of `got` with `expected`.
  void check_close(const DTensor& got, const DTensor& expected);

  /// From here on sizes may differ when the graph runs again: sizes that the program reads, and
  /// numbers that it makes of them, are given to the recorder instead of being read.
  void allow_other_sizes() { graph_.dynamic = true; }
  /// A number that follows from sizes, or one that the program wrote.
  using Number = std::variant<std::int64_t, NumberRef>;
  NumberRef size(const DTensor& x, std::int64_t dim);
  /// `op`: "+", "-", "*", "//" or "%".
  NumberRef number(const std::string& op, const Number& a, const Number& b);
  /// The rest of the graph depends on it: `op` is "==", "!=", "<", "<=", ">" or ">=".
  void guard_sizes(const std::string& op, const Number& a, const Number& b, bool holds);
  /// In the next event, argument `index`, or the element at `item` of that list, is a number that
  /// follows from sizes.
  struct SizeArgument {
    std::size_t index = 0;
    std::optional<std::size_t> item;
    NumberRef number;
  };
  void next_follows(std::vector<SizeArgument> arguments) { following_ = std::move(arguments); }
  /// The line of the first event that was given sizes of unknown origin: they may follow from those
  /// of inputs, so that the graph holds for these alone. None: there was no such event.
  const std::optional<std::int32_t>& sized_at() const { return sized_at_; }

  Results perform(const ProgramEvent& event) override;
  /// Those that the program has drawn from so far, as the graph numbers them.
  const std::vector<Generator>& generators() const { return generators_; }

  /// Whether a backward behind the graph would call one of its hooks: one that is neither removed
  /// nor dropped with its tensor, and that no backward of the graph has passed for the last time.
  bool hooks_left() const;
  /// Whether the program has removed a hook that it had registered before the graph began.
  bool removed_other_hooks() const { return removed_other_hooks_; }

  /// The graph so far, of this rank. Values that the program holds now are left behind.
  ProgramGraph finish();
  /// The same of a function: its results count, and not the values left behind.
  ProgramGraph function(const std::vector<DTensor>& outputs);
  /// The same of a program that failed: nothing is left behind.
  ProgramGraph broken_off();

 private:
  class Listener;
  struct Known {
    DTensorWatch handle;
    ValueRef value;
  };

  // One for each kind of event: the content of its node.
  GraphNode node_of(const OpEvent& event);
  GraphNode node_of(const FactoryEvent& event);
  GraphNode node_of(const DistributeEvent& event);
  GraphNode node_of(const RedistributeEvent& event);
  GraphNode node_of(const FromLocalEvent& event);
  GraphNode node_of(const ToLocalEvent& event);
  GraphNode node_of(const CollectiveEvent& event);
  GraphNode node_of(const CollectIntoEvent& event);
  GraphNode node_of(const WaitEvent& event);
  GraphNode node_of(const MeshEvent& event);
  GraphNode node_of(const RequireGradEvent& event);
  GraphNode node_of(const DetachEvent& event);
  GraphNode node_of(const BackwardEvent& event);
  GraphNode node_of(const DealEvent& event);
  GraphNode node_of(const CheckPieceEvent& event);
  GraphNode node_of(const ReadEvent& event);
  GraphNode node_of(const SeedEvent& event);
  GraphNode node_of(const DropGradEvent& event);

  GraphNode node_of(const HookEvent& event);
  GraphNode node_of(const HookGradientsEvent& event);
  GraphNode node_of(const RemoveHookEvent& event);
  GraphNode node_of(const FunctionEvent& event);

  Results pass_on(const ProgramEvent& event, std::int32_t hook);
  void know_results(std::size_t node, const FunctionContext& context);
  using Gradients = std::vector<DTensor>;
  GradientsHook recorded(std::int32_t hook, GradientsHook run);
  /// Whether x got its place on the tape before the graph began, or keeps it for good, as a leaf.
  bool stays_on_tape(const DTensor& x) const;
  Gradients run_hook(std::int32_t hook, const GradientsHook& run, Gradients gradients);
  std::int32_t number_of(const HookHandle& handle) const;

  GraphNode begun(NodeKind kind, std::vector<GraphArgument> args = {});
  GraphNode collective(CollectiveKind kind, const ProcessGroup& group, ReduceOp op);
  GraphNode call_of(NodeKind kind, const OpRow& row, const Arguments& args,
                    const Generator& generator);
  GraphArgument taken(const Argument& argument);
  GraphArgument taken(const DTensor& x);
  ValueRef number(const DTensor& x);
  ValueRef number_new(const DTensor& x);
  GraphResult given(const DTensor& x);
  GraphResult arrived(const DTensor& gradient);
  void give(GraphNode& node, const Results& results);
  GraphArgument taken(const Generator& generator);
  std::optional<GeneratorRef> numbered(const Generator& generator);
  void forget_dead();
  ValueRef appeared(const DTensor& x);
  void note_gradients(std::int32_t first);
  std::optional<ValueRef> leaf_of(const DTensor& gradient) const;

  ProgramGraph graph_;
  GraphMeshes meshes_;
  std::unordered_map<const DTensorImpl*, Known> known_;
  std::unordered_map<const DTensorImpl*, Known> gradients_;  ///< with the values of their leaves
  std::vector<Generator> generators_;
  std::size_t most_known_ = 1024;
  std::optional<std::vector<SizeArgument>> following_;
  std::optional<std::int32_t> sized_at_;
  std::unique_ptr<Listener> listener_;
  bool cpp_places_ = false;
  bool inside_ = false;            ///< of an event
  std::size_t current_ = 0;        ///< its node
  std::int32_t first_inside_ = 0;  ///< how many values there were when it began
  std::vector<HookHandle> hooks_;
  std::vector<std::shared_ptr<CollectiveWork>> works_;  ///< in the order in which they began
  struct HookLife {
    std::weak_ptr<void> registered;  ///< as long as something may call it
    bool stays = false;              ///< backward does not free the place that it is on
    bool passed = false;             ///< by a backward that freed its nodes
  };
  std::vector<HookLife> lives_;  ///< by hook
  bool removed_other_hooks_ = false;
  std::int32_t inputs_ = 0;
  /// Hooks may be called when the recorder is gone.
  std::shared_ptr<Recorder*> self_ = std::make_shared<Recorder*>(this);
};

}  // namespace shardlab
