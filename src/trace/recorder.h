// recorder.h - writes down what a program does on one rank (T-1). A decorator of its calls: while
// none stands there, capture costs nothing.
//
//   Recorder recorder(program_calls(), mesh);
//   recorder.input("x", {}, x);
//   { const ProgramScope scope(recorder);  y = f(x); }
//   const ProgramGraph graph = recorder.finish();
//
// Used by its rank alone.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>

#include "autograd/program.h"
#include "comm/forwarding_observer.h"
#include "trace/graph.h"
#include "trace/graph_meshes.h"

namespace shardlab {

class Recorder final : public ForwardingProgram {
 public:
  /// `mesh`: the program's own, of which it takes parts; it is made before the program begins.
  Recorder(ProgramCalls& next, const MeshLayout* mesh);
  ~Recorder() override;

  /// What the program is given, before it runs.
  void input(const std::string& name, InputRecipe recipe, const DTensor& value);
  /// What is to listen while the program runs, so that the graph says what nodes are made of. It
  /// tells `next`, which may be null.
  Observer& listen(Observer* next);

  Results perform(const ProgramEvent& event) override;

  /// The graph so far, of this rank. What the program holds now is what it leaves behind; the
  /// recorder lets go of all values.
  /// `outputs`: what the program gives, where it is a function.
  ProgramGraph finish(const std::vector<DTensor>& outputs = {});
  /// The same of a program that failed: nothing is left behind.
  ProgramGraph broken_off();

 private:
  class Listener;
  struct Held {
    DTensor handle;
    ValueRef value;
  };

  // One for each kind of event: what its node says of it.
  GraphNode node_of(const OpEvent& event);
  GraphNode node_of(const FactoryEvent& event);
  GraphNode node_of(const DistributeEvent& event);
  GraphNode node_of(const RedistributeEvent& event);
  GraphNode node_of(const FromLocalEvent& event);
  GraphNode node_of(const ToLocalEvent& event);
  GraphNode node_of(const CollectiveEvent& event);
  GraphNode node_of(const MeshEvent& event);
  GraphNode node_of(const RequireGradEvent& event);
  GraphNode node_of(const DetachEvent& event);
  GraphNode node_of(const BackwardEvent& event);
  GraphNode node_of(const DealEvent& event);
  GraphNode node_of(const CheckPieceEvent& event);
  GraphNode node_of(const ReadEvent& event);

  GraphNode begun(NodeKind kind) const;
  GraphArgument taken(const Argument& argument);
  GraphArgument taken(const DTensor& x);
  ValueRef number(const DTensor& x);
  ValueRef number_new(const DTensor& x);
  GraphResult given(const DTensor& x);
  void give(GraphNode& node, const Results& results);
  GraphArgument numbered(const Generator& generator);
  void let_go_of_dead();
  ValueRef appeared(const DTensor& x);
  const DTensor* leaf_of(const DTensor& gradient) const;

  ProgramGraph graph_;
  GraphMeshes meshes_;
  std::unordered_map<const DTensorImpl*, Held> held_;
  std::vector<Generator> generators_;
  std::size_t most_held_ = 1024;
  std::unique_ptr<Listener> listener_;
  bool inside_ = false;  ///< of an event
};

}  // namespace shardlab
