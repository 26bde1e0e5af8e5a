// Placements and their types. A type has a short name and torch's: both make the same values, which
// are printed in one form.
#include "base/fix.h"
#include "sim/language/run/interpreter.h"
#include "sim/language/run/mesh_value.h"
#include "sim/language/values/op_call.h"
#include "trace/host_objects.h"

namespace shardlab {

namespace {

// Names of types: arguments are refused under the name that the program calls.
constexpr char kS[] = "S";
constexpr char kShard[] = "Shard";
constexpr char kSS[] = "SS";
constexpr char kStridedShard[] = "_StridedShard";
constexpr char kP[] = "P";
constexpr char kPartial[] = "Partial";

template <const char* kName>
Value make_shard(Interpreter&, const Value*, CallValues call) {
  return Placement::shard(Parameters(kName, {"dim"}, std::move(call)).integer("dim"));
}

template <const char* kName>
Value make_strided_shard(Interpreter&, const Value*, CallValues call) {
  const Parameters given(kName, {"dim", "split_factor"}, std::move(call));
  return Placement::strided_shard(given.integer("dim"), given.integer("split_factor"));
}

template <const char* kName>
Value make_partial(Interpreter&, const Value*, CallValues call) {
  const Parameters given(kName, {"reduce_op="}, std::move(call));
  const bool has = given.has("reduce_op");
  return Placement::partial(has ? reduction_of(given["reduce_op"]) : ReduceOp::kSum);
}

Value make_replicate(Interpreter&, const Value*, CallValues call) {
  const Parameters given("Replicate", {}, std::move(call));
  return Placement::replicate();
}

Value make_norm_partial(Interpreter&, const Value*, CallValues call) {
  return Placement::norm_partial(Parameters("NP", {"n"}, std::move(call)).number("n"));
}

Value make_placement(Interpreter&, const Value*, CallValues) {
  fail(Fix{"call one of its types: Shard(0), Replicate(), Partial(\"sum\")"},
       "Placement is every type of placement and makes none");
}

const Placement& placement(const Value* self) { return self->as<Placement>(); }

constexpr char kDim[] = "dim";
constexpr char kReduction[] = "reduce_op";
constexpr char kFactor[] = "split_factor";

template <const char* kName>
Value run_field(Interpreter&, const Value* self, CallValues) {
  const Placement& of = placement(self);
  const PlacementField& field = *find_placement_field(kName);
  if (field.has(of)) return value_of(field.get(of));
  fail(Fix{fmt::format("{} have one; ask p.is_shard() or p.is_partial() first", field.owners)},
       "the placement {} has no '{}'", to_string(of), field.name);
}

// A strided shard is none, as in PyTorch.
Value run_is_shard(Interpreter&, const Value* self, CallValues call) {
  const Parameters given("is_shard", {"dim="}, std::move(call));
  const Placement& of = placement(self);
  return of.is_plain_shard() && (!given.has("dim") || of.dim == given.integer("dim"));
}

Value run_is_replicate(Interpreter&, const Value* self, CallValues call) {
  const Parameters given("is_replicate", {}, std::move(call));
  return placement(self).is_replicate();
}

Value run_is_partial(Interpreter&, const Value* self, CallValues call) {
  const Parameters given("is_partial", {"reduce_op="}, std::move(call));
  const Placement& of = placement(self);
  return of.is_partial() && (!given.has("reduce_op") || of.op == reduction_of(given["reduce_op"]));
}

}  // namespace

BuiltinTable placement_builtins() {
  static const Builtin kTable[] = {
      {"NP", make_norm_partial},
      {"P", make_partial<kP>},
      {"Partial", make_partial<kPartial>},
      {"Placement", make_placement},
      {"Replicate", make_replicate},
      {"S", make_shard<kS>},
      {"SS", make_strided_shard<kSS>},
      {"Shard", make_shard<kShard>},
      {"_StridedShard", make_strided_shard<kStridedShard>},
  };
  return kTable;
}

BuiltinTable placement_methods() {
  static const Builtin kTable[] = {
      {"dim", run_field<kDim>, Member::kValue},
      {"is_partial", run_is_partial},
      {"is_replicate", run_is_replicate},
      {"is_shard", run_is_shard},
      {"reduce_op", run_field<kReduction>, Member::kValue},
      {"split_factor", run_field<kFactor>, Member::kValue},
  };
  return kTable;
}

}  // namespace shardlab
