// Placements and their types. A type has a short name and torch's: both make the same values, which
// are printed in one form.
#include "base/error.h"
#include "base/fixed_text.h"
#include "sim/language/run/mesh_value.h"
#include "sim/language/values/op_call.h"
#include "trace/host_objects.h"

namespace shardlab {

namespace {

Value make_shard(Interpreter&, const Value*, const Parameters& given) {
  return Placement::shard(given.integer("dim"));
}

Value make_strided_shard(Interpreter&, const Value*, const Parameters& given) {
  return Placement::strided_shard(given.integer("dim"), given.integer("split_factor"));
}

Value make_partial(Interpreter&, const Value*, const Parameters& given) {
  const bool has = given.has("reduce_op");
  return Placement::partial(has ? reduction_of(given["reduce_op"]) : ReduceOp::kSum);
}

Value make_norm_partial(Interpreter&, const Value*, const Parameters& given) {
  return Placement::norm_partial(given.number("n"));
}

Value make_placement(Interpreter&, const Value*, CallValues) {
  fail(Fix{"call one of its types: Shard(0), Replicate(), Partial(\"sum\")"},
       "Placement is every type of placement and makes none");
}

const Placement& placement(const Value* self) { return self->as<Placement>(); }

template <FixedText kName>
Value run_field(Interpreter&, const Value* self, CallValues) {
  const Placement& of = placement(self);
  const PlacementField& field = *find_placement_field(kName);
  if (field.has(of)) return value_of(field.get(of));
  fail(Fix{fmt::format("{} have one; ask p.is_shard() or p.is_partial() first", field.owners)},
       "the placement {} has no '{}'", to_string(of), field.name);
}

// A strided shard is none, as in PyTorch.
Value run_is_shard(Interpreter&, const Value* self, const Parameters& given) {
  const Placement& of = placement(self);
  return of.is_plain_shard() && (!given.has("dim") || of.dim == given.integer("dim"));
}

Value run_is_partial(Interpreter&, const Value* self, const Parameters& given) {
  const Placement& of = placement(self);
  return of.is_partial() && (!given.has("reduce_op") || of.op == reduction_of(given["reduce_op"]));
}

}  // namespace

BuiltinTable placement_builtins() {
  static const Builtin kTable[] = {
      {"NP", "(n)", make_norm_partial},
      {"P", "(reduce_op=)", make_partial},
      {"Partial", "(reduce_op=)", make_partial},
      {"Placement", make_placement},
      {"Replicate", "()", [](auto&, auto*, auto&) -> Value { return Placement::replicate(); }},
      {"S", "(dim)", make_shard},
      {"SS", "(dim, split_factor)", make_strided_shard},
      {"Shard", "(dim)", make_shard},
      {"_StridedShard", "(dim, split_factor)", make_strided_shard},
  };
  return kTable;
}

BuiltinTable placement_methods() {
  static const Builtin kTable[] = {
      {"dim", run_field<"dim">, Member::kValue},
      {"is_partial", "(reduce_op=)", run_is_partial},
      {"is_replicate", "()",
       [](auto&, auto* self, auto&) -> Value { return placement(self).is_replicate(); }},
      {"is_shard", "(dim=)", run_is_shard},
      {"reduce_op", run_field<"reduce_op">, Member::kValue},
      {"split_factor", run_field<"split_factor">, Member::kValue},
  };
  return kTable;
}

}  // namespace shardlab
