// program.h - the one stream of a program's actions. Each action is a value, an event, which
// passes perform() of the rank's calls; the functions of autograd.h, tape.h and src/api make the
// events. A wrapper around the calls (other precision, counting, capture) overrides perform()
// alone. All that happens inside of an event, ops that it is made of included, is reported to the
// rank's observer (comm/observer.h).
//
//   class Counting final : public ForwardingProgram {
//    public:
//     using ForwardingProgram::ForwardingProgram;
//     Results perform(const ProgramEvent& event) override {
//       ++counts[event.index()];
//       return next().perform(event);
//     }
//   };
//   Counting counting(program_calls());
//   const ProgramScope scope(counting);
//
// Everything here is used by its rank alone. Events and what they point to live during the call.
#pragma once

#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "autograd/custom_function.h"
#include "autograd/hooks.h"
#include "autograd/tape.h"
#include "base/collective_kind.h"
#include "base/reduce_op.h"
#include "schema/calls.h"

namespace shardlab {

class CollectiveWork;  // api/collectives.h
struct OpRow;
class ProcessGroup;

/// An op, arguments in schema order. Gives its results.
struct OpEvent {
  const OpRow* row;
  const Arguments* args;
  /// Source of the draws where the row has no argument for one; null: the rank's own.
  Generator generator = nullptr;
};
/// A row without tensor arguments, of which every rank makes its piece. Gives the tensor.
struct FactoryEvent {
  const OpRow* row;
  const Arguments* args;
  const DTensorSpec* spec;
  Generator generator = nullptr;  ///< as of an op
};
/// A plain tensor is placed on a mesh. Gives the new leaf.
struct DistributeEvent {
  DTensor value;
  const DTensorSpec* spec;
  std::optional<std::int64_t> source;  ///< as in distribute_tensor
};
struct RedistributeEvent {
  DTensor x;
  const DTensorSpec* target;
  RedistributeOptions options;
  RedistributeDTypes dtypes;
};
struct FromLocalEvent {
  DTensor local;
  const DTensorSpec* spec;
};
struct ToLocalEvent {
  DTensor x;
  const DTensorSpec* gradient;  ///< the label of the gradient
};
/// A collective of the program, on a plain tensor. Gives a plain tensor; a barrier nothing.
struct CollectiveEvent {
  CollectiveKind kind;
  ProcessGroup* group;
  DTensor x;  ///< undefined for a barrier
  ReduceOp op = ReduceOp::kSum;
  std::int64_t dim = 0;        ///< from 0: of pieces that are put together or dealt out
  std::int64_t split_dim = 0;  ///< from 0, all_to_all: that is cut
  std::int64_t source = 0;     ///< broadcast: in the group
  /// Lengths to and from each rank, where they are not those of chunks; empty where they are.
  Dims sent = {}, received = {};
};
/// A collective of the program that fills tensors which it is given (collect_into in
/// api/collectives.h). Gives nothing.
struct CollectIntoEvent {
  CollectiveKind kind;
  ProcessGroup* group;
  const std::vector<DTensor>* inputs;   ///< of this rank: one, or one for each rank
  const std::vector<DTensor>* outputs;  ///< to be written: likewise; none: it gets nothing
  ReduceOp op = ReduceOp::kSum;
  std::int64_t root = 0;              ///< source or destination, in the group
  std::int64_t tag = 0;               ///< of a message
  std::int64_t* came_from = nullptr;  ///< of a message from any rank (root -1): who sent it
  /// Null if the program waits. Else set to the work that the program waits for later.
  std::shared_ptr<CollectiveWork>* work = nullptr;
};
/// The program waits for a collective that it has started. Gives nothing.
struct WaitEvent {
  CollectiveWork* work;
};
/// A mesh is constructed on this rank, or dims of it are flattened. Gives nothing.
struct MeshEvent {
  const MeshLayout* layout;
  std::vector<std::size_t> flattened;  ///< empty: the mesh itself
};
/// A leaf starts or stops to require a gradient. Gives nothing.
struct RequireGradEvent {
  DTensor x;
  bool required;
};
/// Gives the detached tensor, x itself where it is done in place.
struct DetachEvent {
  DTensor x;
  bool in_place;
};
/// The pieces of a whole become terms of the reduction that `spec` leaves pending. Gives the new
/// value.
struct DealEvent {
  DTensor pieces;
  const DTensorSpec* spec;
};
/// The pieces that ranks pass to a from_local are compared, and replicas take the first rank's.
/// Gives the plain piece.
struct CheckPieceEvent {
  DTensor local;
  const MeshLayout* mesh;
  const Placements* placements;
};
/// The elements of a tensor become numbers, on which the rest of the program may depend. Gives
/// nothing.
struct ReadEvent {
  DTensor x;
};
/// A generator starts anew, null: the rank's own. Gives nothing.
struct SeedEvent {
  Generator generator;
  std::uint64_t seed;
};
/// A leaf forgets its gradient. Gives nothing.
struct DropGradEvent {
  DTensor leaf;
};
/// The gradient of x passes a hook. Gives nothing; `handle` is set.
struct HookEvent {
  DTensor x;
  const GradientHook* hook;
  HookHandle* handle;
};
/// Gradients pass a hook together on their way to these tensors. Gives the same values.
struct HookGradientsEvent {
  const std::vector<DTensor>* tensors;
  MissingGradients missing;
  const GradientsHook* hook;
};
/// A hook is not called any more. Gives nothing.
struct RemoveHookEvent {
  const HookHandle* handle;
};
/// A function with a gradient of its own has run forward. Gives its results, whose gradients pass
/// through its backward to its arguments.
struct FunctionEvent {
  std::shared_ptr<FunctionContext> context;
  std::shared_ptr<const CustomFunction> function;
  const std::vector<DTensor>* arguments;
  const std::vector<DTensor>* results;
};
/// Gives nothing, or with `inputs` their gradients, undefined where there is none.
struct BackwardEvent {
  DTensor loss;
  DTensor seed;  ///< undefined: ones
  Graph graph;
  const std::vector<DTensor>* inputs;  ///< null: into the leaves
};

using ProgramEvent =
    std::variant<OpEvent, FactoryEvent, DistributeEvent, RedistributeEvent, FromLocalEvent,
                 ToLocalEvent, CollectiveEvent, MeshEvent, RequireGradEvent, DetachEvent,
                 BackwardEvent, DealEvent, CheckPieceEvent, ReadEvent, SeedEvent, DropGradEvent,
                 HookEvent, HookGradientsEvent, RemoveHookEvent, CollectIntoEvent, WaitEvent,
                 FunctionEvent>;
/// "op", "factory", "redistribute", ...
std::string_view kind_name(const ProgramEvent& event);

/// The calls of a program.
class ProgramCalls : public Calls {
 public:
  /// Fails with the error of the function that made the event.
  virtual Results perform(const ProgramEvent& event) = 0;
  /// The dtype that tensors have where the program writes `written`.
  virtual DType dtype_of(DType written) const { return written; }

  Results call(const OpRow& row, const Arguments& args) final;
  const OpRow& find(std::string_view name) const final;
  DTensor redistribute(const DTensor& x, const Placements& placements) final;
};

/// Wraps other calls, which outlive it.
class ForwardingProgram : public ProgramCalls {
 public:
  explicit ForwardingProgram(ProgramCalls& next) : next_(next) {}
  Results perform(const ProgramEvent& event) override { return next_.perform(event); }
  DType dtype_of(DType written) const override { return next_.dtype_of(written); }

 protected:
  ProgramCalls& next() const { return next_; }

 private:
  ProgramCalls& next_;
};

/// The running rank's calls.
///   fails  Internal: a rank without a world
ProgramCalls& program_calls();

/// While one lives, these are the running rank's calls.
class ProgramScope {
 public:
  explicit ProgramScope(ProgramCalls& calls);
  ~ProgramScope();
  ProgramScope& operator=(ProgramScope&&) = delete;

 private:
  RankContext& rank_;
  ProgramCalls* before_;
};

}  // namespace shardlab
