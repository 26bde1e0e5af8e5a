// scenario.h - a scenario as data: one TOML file at one point of its matrix, everything evaluated
// that does not need a run. Immutable; shared by all ranks.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/shared/transport.h"
#include "base/dtype.h"
#include "base/error.h"
#include "base/rank_context.h"
#include "plan/plan.h"
#include "sim/language/syntax/constant.h"
#include "trace/graph.h"

namespace shardlab {

class OpRegistry;

/// A type string as the file has it, checked against a mesh only when a run is prepared.
/// Its sizes are numbers by now: "f32[8@dp, 4*hidden]" became "f32[8@dp, 64]".
struct TypeText {
  // Sizes may be 0, which makes an empty tensor.
  SourcePtr text;              ///< places are those of the expressions it came from
  std::optional<DType> dtype;  ///< none: placements alone, "[8@dp, 64]"
  std::vector<std::int64_t> sizes;
  std::vector<std::string> written;  ///< the same as in the file: "8", "4*hidden"
  std::string mesh;  ///< "sparse" of "f32[8@ep] on sparse"; empty where none is named
};

/// One entry of [mesh].
struct ScenarioMeshDim {
  std::string name;
  std::int64_t size = 1;
  Where where;
};

/// [mesh]; its ranks are a part of the world's.
struct ScenarioMesh {
  std::vector<ScenarioMeshDim> dims;  ///< in file order: the first is mesh dim 0
  // A mesh smaller than the world leaves ranks out: they run the program and hold nothing of it.
  std::optional<std::vector<std::int64_t>> ranks;  ///< row-major; none: 0, 1, 2, ...
  std::int64_t size = 1;                           ///< number of ranks in it
};

/// Elements in a file that stays open, row-major.
struct StoredElements {
  std::shared_ptr<const void> file;
  std::string_view bytes;
};

/// One entry of [inputs]: its type, and the source of its elements.
struct ScenarioInput {
  std::string name;
  Where where;
  TypeText type;
  InputRecipe recipe{.init = "randn", .arguments = {}, .values = {}};
  std::string file;         ///< the file of the values, as written; empty: none
  StoredElements elements;  ///< in place of the recipe's values, in the dtype of `type`
  // Does x.requires_grad_() at the start of the program.
  bool requires_grad = false;           ///< asked for here, or listed in [expect] grads
  std::vector<std::string> drawn_with;  ///< names in the recipe's arguments and scale
};

/// A limit of [expect] on a count or on bytes: "<= 2", or exact.
struct Bound {
  ast::CompareOp op = ast::CompareOp::kEqual;
  Number value = std::int64_t{0};
  std::string text;  ///< as written
  Where where;

  /// True if `found op value` holds.
  bool holds(Number found) const { return compare(op, found, value); }
};

/// An [expect] line that names a value: shape, dtype, placements and order must be those of the
/// type.
struct ExpectedType {
  std::string name;          ///< of the value
  bool of_gradient = false;  ///< "w.grad"
  TypeText type;
  Where where;

  std::string full_name() const { return of_gradient ? name + ".grad" : name; }
};

/// [expect] error: the run must fail with such an error.
struct ExpectedError {
  // Both must hold, where both are given.
  std::optional<ErrorKind> kind;
  std::string contains;  ///< empty: any text
  Where where;
};

/// [expect] cause and line: the run must be wrong, and its first mistake must have this cause and
/// be at this line.
struct ExpectedMistake {
  std::string cause;  ///< an id; empty: any
  int line = 0;       ///< of the program; 0: any
  Where cause_where, line_where;
};

/// A name in a list of [expect].
struct ExpectedName {
  std::string name;
  Where where;
};

/// The values that are compared with the single-device run.
enum class Verify : std::uint8_t { kEvery, kOutputs, kNone };
/// The way in which a world must stop. A rank that throws is an ExpectedError instead.
enum class ExpectedVerdict : std::uint8_t { kMismatch, kDeadlock };

/// [expect] graph: a file of graphs, which those of the program must be.
struct ExpectedGraph {
  std::string file;  ///< as written, relative to the scenario's folder
  Where where;
};

/// All of [expect]. Keys that are not in the file are not checked, except `verify`: every value is
/// compared with the single-device run unless the file says otherwise.
struct Expectation {
  std::vector<ExpectedType> types;
  /// Bounds by name of the collective. Empty, and not checked, if the file has no such key.
  std::optional<std::vector<std::pair<std::string, Bound>>> collectives;
  std::optional<Bound> bytes;
  /// Bounds by purpose, "peak", "inputs", "gradients", ...: the most, in bytes, on the rank that
  /// holds most.
  std::vector<std::pair<std::string, Bound>> memory;
  std::vector<ExpectedName> gradients;
  ImplicitRedistribution implicit = ImplicitRedistribution::kAllow;
  Verify verify = Verify::kEvery;
  /// Relative error that values of a dtype may have, instead of the bound from roundings.
  std::vector<std::pair<DType, double>> tolerance;
  std::optional<ExpectedError> error;
  std::optional<ExpectedVerdict> verdict;
  std::optional<ExpectedMistake> mistake;
  std::optional<std::vector<Transport>> transports;  ///< on which no order of ranks hangs
  std::optional<Bound> not_verified;  ///< values that fail under --strict, and are not wrong
  /// How many values have an outcome, by its key: "differs".
  std::vector<std::pair<std::string, Bound>> outcomes;
  std::optional<ExpectedGraph> graph;
  std::optional<ExpectedGraph> checkpoint;  ///< tensors that are values of their names
  std::optional<Bound> graph_breaks;        ///< in the graph that has most, and those of defs
  std::optional<Bound> graphs;              ///< different ones, of classes of ranks

  bool asks_for_graphs() const { return graph || graph_breaks || graphs; }
};

/// Bandwidth (GiB/s) and latency of one mesh dim, for predicted times. A dim without an entry has
/// the links of the reference's time model.
struct TopologyDim {
  std::string mesh_dim;
  std::optional<double> gbps, us;  ///< none: as without [topology]
};

/// [[rule]]: another sharding rule for an op.
struct ScenarioRule {
  std::string op;
  std::string rule;  ///< factors: "mk,kn->mn"
  Where op_where;
  Where where;
  std::shared_ptr<const ast::Program> local;  ///< a rank's computation; null: the op's own kernel
};

/// Everything that a run needs to know. Expressions outside of the program are numbers by now; the
/// program is a tree that all ranks walk.
struct Scenario {
  // `file` keeps the text alive that all places below point into.
  SourcePtr file;
  std::string title;
  std::string about;
  std::string point;  ///< of the matrix: "mesh.tp=2,hidden=17"; empty without a matrix
  /// Settings in place of the file's values, by the point or by the user: "mesh.tp=2".
  std::vector<std::string> settings;
  /// Seed of inputs and of draws; the schedule has a seed of its own.
  std::uint64_t seed = 0;
  /// Ranks in all; at least the mesh's.
  std::int64_t world = 1;
  ScenarioMesh mesh;
  /// [params], evaluated at this point of the matrix.
  Environment params;
  std::vector<ScenarioInput> inputs;
  /// Shared by all ranks and by copies of the scenario; walked, never changed.
  std::shared_ptr<const ast::Program> program;
  std::shared_ptr<const ast::Program> reference;  ///< [reference]; null: the program itself
  Expectation expect;
  /// One entry per mesh dim that [topology] names; prices use them, values never do.
  std::vector<TopologyDim> topology;
  std::string backend = "threads";     ///< unless another one is asked for
  std::optional<Transport> transport;  ///< between ranks, if the user gives none
  std::optional<PlannerKind> planner;  ///< of redistributions; none: the default's choice
  std::optional<StepWeights> weights;  ///< [weights], of the planner graph
  std::vector<ScenarioRule> rules;

  /// Params and mesh dims, for expressions that are not in the program.
  Environment environment() const;
};

/// Whether an input has dynamic dims.
bool is_dynamic(const Scenario& scenario);
/// Integer params in the sizes of inputs, each once, in the order of [params].
std::vector<std::pair<std::string, std::int64_t>> size_params(const Scenario& scenario);
/// Names in a constant expression, "4*hidden": "hidden".
std::vector<std::string> names_in(std::string_view expression);

/// The same scenario whose program is its [reference], which must be there.
Scenario as_reference(const Scenario& scenario);

/// Its program, before it runs.
///   fails  ScenarioError: a name, op or method that is not defined (exit code 2)
void check_names(const Scenario& scenario, const OpRegistry& registry);

/// The collectives that [expect] may name.
const std::vector<std::string>& collective_names();

/// The memory that one rank takes before it holds any data, and the available memory.
struct MemoryLimits {
  // Stacks, buffers of the scheduler, a rank's tables.
  std::int64_t bytes_per_rank = 0;
  std::int64_t available_bytes = 0;
};

///   fails  ScenarioError at the largest mesh dim (or `world`): the ranks do not fit; names the
///          memory that they would take
void check_memory(const Scenario& scenario, const MemoryLimits& limits);

}  // namespace shardlab
