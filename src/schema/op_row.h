// op_row.h - an op is one row (src/README.md, "Why these walls"). Columns answer one question each;
// nothing else in the code base switches on op names. Rows are immutable after registration and
// shared by all ranks.
#pragma once

#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "base/source_line.h"
#include "schema/calls.h"
#include "schema/gradient_reads.h"
#include "schema/op_strategy.h"

namespace shardlab {

enum class KernelId : std::uint16_t;

/// Null for None.
using MetaList = InlineVector<const TensorMeta*, 4>;

/// Arguments as shape inference sees them: tensors are metas (global ones in propagation, local
/// ones when outputs are allocated), all else as given.
class MetaArgs {
 public:
  /// `metas`: all tensor arguments in argument order, lists flattened; null for None.
  MetaArgs(const OpDescriptor& op, const Arguments& args, MetaList metas);

  /// The op's schema, and the arguments by schema index.
  const OpDescriptor& op() const { return *op_; }
  const Argument& operator[](std::size_t index) const { return (*args_)[index]; }
  std::size_t size() const { return args_->size(); }
  /// Meta of the tensor argument at schema index `index`; null when None.
  const TensorMeta* tensor(std::size_t index) const;
  /// Metas of a Tensor[] argument.
  std::span<const TensorMeta* const> tensors(std::size_t index) const;

 private:
  const OpDescriptor* op_;
  const Arguments* args_;
  MetaList metas_;
  // Per argument, index of its first meta; size() + 1 entries.
  InlineVector<std::uint32_t, 12> first_;
};

/// One result of shape inference; `present` false = there is no such tensor (masked off).
struct OutputMeta {
  TensorMeta meta;
  bool present = true;
};
/// Of every tensor result, Tensor[] flattened. Most ops have one, which needs no memory of its own:
/// shapes are inferred at every call, to compare the local pieces with the placements.
using OutputMetas = boost::container::small_vector<OutputMeta, 2>;
/// Shape, stride and dtype of every tensor result (K-22). Fails with Value where the op refuses the
/// call. Pure.
using MetaFn = OutputMetas (*)(const MetaArgs& args);

/// Input of a rule: the call with global specs and the output metas. Rules of a base row also serve
/// its in-place and out= variants: they see the call without the out= tensors.
struct RuleContext {
  const OpSchema& schema;
  const OutputMetas& outputs;
  std::vector<const DTensorSpec*> tensors;  ///< positional then keyword, lists flattened, no out=
};

/// One cell of a rule row. A shard written as any() means every kind of shard (plain, strided) that
/// occurs among the inputs; none() is an output without spec.
struct RulePlacement {
  Placement placement;
  bool any_shard = false;
  bool absent = false;
  static RulePlacement any(std::int64_t tensor_dim) {
    return {Placement::shard(tensor_dim), true, false};
  }
  static RulePlacement of(Placement p) { return {p, false, false}; }
  static RulePlacement none() { return {Placement::replicate(), false, true}; }
};

/// Most ops have few tensors, whose cells need no memory of their own.
using RuleCells = InlineVector<RulePlacement, 3>;
/// One acceptable sharding on ONE mesh dim: outputs <- inputs.
struct RuleRow {
  RuleCells outputs;
  RuleCells inputs;  ///< positional then keyword tensors, lists flattened
};
/// Rows in preference order; the all-replicated row may be left out. Throwing Error refuses the
/// call.
using DimRuleFn = std::vector<RuleRow> (*)(const RuleContext& context);
/// A check that a rule for one mesh dim cannot make: whether a whole-mesh combination is right.
/// Null, or the reason why the combination is dropped.
using MeshFilterFn = const char* (*)(const RuleContext& context,
                                     std::span<const Placements> inputs);

/// The one candidate of a whole-mesh rule (view family).
struct MeshRuleResult {
  std::vector<Placements> outputs;
  std::vector<Placements> inputs;
  std::vector<AdaptedArgument> adapted;
  const char* local_op = nullptr;  ///< name of the row that runs locally, or null
};
using MeshRuleFn = MeshRuleResult (*)(const RuleContext& context);
/// Acceptable shardings over the whole mesh, of which the cheapest is taken: input specs per
/// positional tensor, output specs per tensor result. Costs are ignored.
using StrategyFn = OpStrategy (*)(const RuleContext& context);
/// The same for each element of the call's lists, of which each takes its cheapest (O-15). For rows
/// flagged kIndependentLists; a tensor next to the lists follows the first element.
using TupleStrategyFn = TupleStrategy (*)(const RuleContext& context);

/// Einsum-like rule as data: "mk,kn->mn". Kept factors shard, contracted ones give P(sum), linear
/// operands pass partials. An operand marked "+" is added to the product, broadcast, and is laid
/// out like the result: "+mn,mk,kn->mn".
struct FactorRule {
  const char* text = nullptr;
  /// For an op that a user's program computes on pieces (OpColumns::on_pieces): the letters whose
  /// cuts that program makes up for, so that nothing is pending along them. Such an op is not taken
  /// to be linear: no partial passes. Null: the op's own kernel computes.
  const char* made_up = nullptr;
};
/// Pointwise rule as data: output dims follow the broadcast input dims, so it only lists the
/// pending reductions that pass. One word per row, one letter for the outputs and then one per
/// positional tensor: s P(sum), a P(avg), x P(max), n P(min), r R. "sss aar": sums pass when both
/// have them; an average passes next to a replica. Words of another number of tensors do not apply.
struct PointwiseRule {
  const char* passes = "";
};
/// Composites and handlers, and rows that are not decided at all (K-33).
struct NoRule {};
using ShardingRule = std::variant<NoRule, DimRuleFn, MeshRuleFn, StrategyFn, TupleStrategyFn,
                                  FactorRule, PointwiseRule>;

/// Input of a gradient program. Saved inputs and outputs are handles as they were in forward.
struct GradContext {
  Calls& calls;
  const Arguments& inputs;  ///< schema order
  const Results& outputs;
  std::span<const DTensor> grads;  ///< per output tensor, flattened; undefined: none flows in
  /// Whether a gradient of tensor argument `index` (all tensor arguments, flattened) is wanted.
  std::function<bool(std::size_t index)> needs;
};
/// One gradient per tensor argument (schema order, lists flattened, None counted); undefined =
/// none.
using GradientFn = std::vector<DTensor> (*)(const GradContext& context);
/// The gradient of an op: its program, and the values kept from forward for it (gradient_reads.h),
/// as in the reference: also those that the program here does not need, since writing to them is
/// refused there. Null `reads`: everything is kept. A composite op with `reads` is one kernel in
/// the reference: it is recorded as one, intermediate values of its parts do not count as memory of
/// the rank, and without a program its gradient runs the parts once more.
struct Gradient {
  GradientFn program = nullptr;
  const char* reads = nullptr;
  explicit operator bool() const { return program != nullptr; }
};

struct OpRow;
/// A composite op in terms of others (D-19).
using PartsFn = Results (*)(Calls& calls, const Arguments& args);
/// The computation of each rank on its pieces: a program over other ops, on plain tensors. In-place
/// rows write their arguments; their return value is ignored.
using ProgramFn = Results (*)(Calls& calls, const OpRow& row, const Arguments& args);
/// Gets the raw arguments; its results are the op's (D-2).
using HandlerFn = ProgramFn;

/// One output of a local view: from the local base and the (adapted) arguments.
struct ViewResult {
  TensorMeta meta;
  std::int64_t offset;
};
using ViewResults = boost::container::small_vector<ViewResult, 1>;
using ViewFn = ViewResults (*)(const Tensor& base, const MetaArgs& args);

/// A kernel, and the one that also yields the mask (last output, shaped like the index) where the
/// decision's output is a mask partial; that one gets the LocalView of the position argument
/// (K-18).
struct MaskedLookup {
  KernelId kernel;
  KernelId masked;
};
/// A composite op with a rule of its own: a rule that takes the call decides it as a whole, and
/// each rank runs the parts on its pieces (D-2); else the call is taken apart.
struct RuleOrParts {
  PartsFn parts;
};
/// Replaces dispatch.
struct Handler {
  HandlerFn handler;
  /// The kernel that computes the op on one rank, for handlers that use it; kNone (0) where there
  /// is none.
  KernelId kernel{};
  /// Its results are those of the row's op; else they are the return value of a user's handler,
  /// which can't be compared with the single-device run.
  bool gives_the_op = false;
};
/// The computation of an op: exactly one of these, so that no order between them has to be defined.
/// Parts are taken before the rule, which then only answers for a single call; a handler replaces
/// the rule; all else runs on each rank behind the rule's decision. Decided in
/// dispatch/plain_calls.h for every call, recorded or not.
using Compute = std::variant<std::monostate, KernelId, MaskedLookup, ViewFn, ProgramFn, PartsFn,
                             RuleOrParts, Handler>;

/// Input of a program that computes an op on the pieces of a rank.
struct OnPieces {
  Calls& calls;           ///< on plain tensors; they compute a part of the op
  const OpRow& row;       ///< the op that was called, or a variant of the one with the rule
  const Arguments& args;  ///< in schema order; tensors are this rank's pieces, plain
  const OutputSharding& decision;  ///< the placements of these, and those that the results must
                                   ///< have
};
/// Gives this rank's pieces of the results, plain tensors of the sizes and dtypes of the decision.
/// May call collectives over the mesh of the decision: every rank of it runs the program in every
/// call that the rule decides, also with pieces that have no element. Called on ranks, several at
/// once. Its error is the refusal of the call.
using PiecesProgram = std::function<Results(const OnPieces&)>;

/// Facts about an op that no other column has; combined with |.
enum OpFlag : std::uint32_t {
  kRandom = 1u << 0,         ///< draws numbers by global element index (X-40)
  kDataDependent = 1u << 1,  ///< result shape or value read depends on data; never caches shapes
  kCollective = 1u << 2,     ///< its handler communicates even without redistribution
  kAllowUneven = 1u << 3,    ///< accepts a too-short dim for an input that keeps its placement
  kNeedsPosition = 1u << 4,  ///< the kernel gets a LocalView, see position_argument
  kNotDifferentiable = 1u << 5,  ///< no gradient flows (comparisons, integer results)
  kIndependentLists = 1u << 6,   ///< foreach: one decision per list element (O-15)
  kExact = 1u << 7,           ///< elements are moved or computed one by one: bits don't depend on
                              ///< the cut
  kStepOfDtype = 1u << 8,     ///< an eps of None is the step of the input's dtype, a default that
                              ///< follows the dtype which the program names
  kReadsGradients = 1u << 9,  ///< the schema writes `grads` back unscaled; here they are read,
                              ///< so that pending ones may be moved
  // Bound on the error of a sum by the kernel's roundings. With neither flag, and for programs, the
  // judge of calls measures it by changing the operands a little.
  kSumsLinearly = 1u << 10,  ///< linear in its operands: at most the op on absolute values
  kSumsOneSign = 1u << 11,   ///< of terms of one sign, as in a norm: at most the result itself
};

/// The facts of a row about its op, one column per question of the library; the in-place and out=
/// variants of an op have the same.
struct OpColumns {
  MetaFn meta = nullptr;
  ShardingRule rule;
  MeshFilterFn filter = nullptr;  ///< drops whole-mesh combinations of a rule for one mesh dim
  RuntimeSchemaInfo info;
  Compute compute;
  Gradient gradient;
  std::uint32_t flags = 0;
  /// Runs in place of `compute` on the pieces of a call that the rule decided; null: `compute`
  /// does. Plain tensors are computed by `compute` in any case.
  std::shared_ptr<const PiecesProgram> on_pieces;
  /// The tensor whose position the kernel needs (kNeedsPosition): -1 = output 0, else a tensor
  /// argument index.
  int position_argument = -1;
  /// Arguments that hold output 0's shape and stride, which are local when it is sharded (K-30).
  int shape_argument = -1;
  int stride_argument = -1;
  const char* why = "";
  /// The place where a table has the row; the place of registration (OpRegistry::add) where no
  /// table has it.
  SourceLine source{"", 0};
};

/// An op: its schema and its columns. Filled in by its family, completed by OpRegistry::add, and
/// never changed while ranks run.
struct OpRow : OpColumns {
  OpDescriptor op;
  const OpRow* base = nullptr;  ///< derived rows (in-place, out=, copy): the row that they are
                                ///< derived from

  /// Whether the row carries the flag.
  bool has(OpFlag flag) const { return (flags & flag) != 0; }
  /// Something computes the op. Rows that nothing computes have rules and metadata only; calling
  /// one is Unsupported.
  bool runs() const { return compute.index() != 0; }
  /// The kernel that computes it on one rank; kNone (0) where none does.
  KernelId kernel() const;
  /// Null for ops that are not local views: the results of one share storage with argument 0.
  ViewFn view() const {
    const auto* view = std::get_if<ViewFn>(&compute);
    return view == nullptr ? nullptr : *view;
  }
  /// Null for ops that are not composite.
  PartsFn parts() const;
  /// Other ops compute its pieces: those of a local program, or its parts.
  bool computed_by_program() const {
    return std::holds_alternative<ProgramFn>(compute) || std::holds_alternative<PartsFn>(compute) ||
           std::holds_alternative<RuleOrParts>(compute);
  }
  /// True for a handler whose results need not be the op's.
  bool opaque() const;
  /// Values that its gradient keeps: everything, when the row does not list them.
  const GradientReads& gradient_reads() const { return gradient_reads_; }
  /// "aten::add.Tensor".
  const std::string& name() const { return name_; }
  /// Parsed defaults, one per argument; None where there is no default.
  const Arguments& defaults() const { return defaults_; }
  /// From the descriptor, computed once: the dispatcher reads these on every call.
  bool inplace() const { return inplace_; }
  bool out_variant() const { return out_variant_; }

 private:
  friend class OpRegistry;
  std::string name_;
  Arguments defaults_;
  GradientReads gradient_reads_;
  bool inplace_ = false;
  bool out_variant_ = false;
};

/// All rows, by name. Filled by explicit calls (register_all_ops in ops/); a test builds its own.
/// Read-only and thread-safe afterwards.
class OpRegistry {
 public:
  OpRegistry() = default;
  OpRegistry(OpRegistry&&) = default;  // rows stay where they are
  OpRegistry& operator=(OpRegistry&&) = default;
  /// Fails with Internal for a duplicate name. The stored row's address is stable. A row without a
  /// source gets that of the row it is derived from, or of this call.
  const OpRow& add(OpRow row, SourceLine added = {});
  /// Gives a registered op and the variants derived from it another rule; before ranks run. Fails
  /// as at(). With a program that computes on pieces nothing else computes where the rule decides:
  /// no handler, and no parts of a composite op. Ops on lists that apply it to each element keep
  /// their own.
  ///   fails  Unsupported: a program for an op that gives views or draws numbers
  void set_rule(std::string_view name, ShardingRule rule, PiecesProgram program = nullptr);
  /// Gives a registered op, without its variants, a handler; before ranks run. Fails as at().
  void set_handler(std::string_view name, Handler handler);
  /// A copy of `text` that lives as long as the registry: rows point to the text of their rule.
  const char* keep(std::string text);
  /// "aten::add.Tensor", "add.Tensor", "aten.add.Tensor"; the default overload may be spelled
  /// ".default" or left out. Null when unknown.
  const OpRow* find(std::string_view name) const;
  /// As find; an unknown op is Unsupported and names the nearest registered ones.
  const OpRow& at(std::string_view name) const;
  /// Overloads of a base name ("aten::sum" or "sum"), in registration order. Lives as long as the
  /// registry, until the next add.
  const std::vector<const OpRow*>& overloads(std::string_view base) const;
  /// In registration order.
  const std::vector<const OpRow*>& rows() const { return order_; }

 private:
  OpRow& mutable_row(std::string_view name);

  std::deque<OpRow> storage_;
  std::deque<std::string> texts_;
  std::vector<const OpRow*> order_;
  // Names differ in length and at their end. This finds names that every gradient looks up sooner
  // than the library's hash of the whole.
  struct NameHash {
    std::size_t operator()(std::string_view name) const;
  };

  // The names are those of the rows, which do not move.
  std::unordered_map<std::string_view, const OpRow*, NameHash> by_name_;
  std::unordered_map<std::string_view, std::vector<const OpRow*>, NameHash> by_base_;
};

/// The value of an argument's default text; None where there is none.
Argument parse_default(const SchemaArgument& argument);

/// True when the positional arguments are those that the schema declares, in its order, as in most
/// calls: then adds the defaults of the others. Else leaves them unchanged, for bind_arguments().
bool bind_as_given(const OpRow& row, Arguments& positional);
/// Brings arguments given by position and keyword into schema order with defaults. One int widens
/// to an int list where the schema allows it; a list of ints becomes Dims. Fails with Value naming
/// the op and the missing, unknown, doubled or ill-typed argument.
Arguments bind_arguments(const OpRow& row, Arguments positional,
                         std::vector<std::pair<std::string, Argument>> keywords = {});

}  // namespace shardlab
