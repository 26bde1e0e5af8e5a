// computation.h - the forms in which a row says how its op is computed and differentiated, and the
// flags of a row.
#pragma once

#include <boost/container/small_vector.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <variant>
#include <vector>

#include "schema/calls.h"
#include "schema/meta_args.h"

namespace shardlab {

enum class KernelId : std::uint16_t;
struct OutputSharding;

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

}  // namespace shardlab
