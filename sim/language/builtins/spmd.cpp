// spmd_types, imported as spmd: types are texts, moves are collectives of the program with the
// gradient that their types tell, and assertions are claims, which the judge reads.
#include <algorithm>
#include <map>

#include "base/error.h"
#include "sim/language/builtins/spmd_moves.h"
#include "sim/language/run/mesh_value.h"
#include "sim/language/values/dict_entries.h"
#include "sim/language/values/object.h"
#include "sim/types/claim.h"
#include "sim/types/typed_program.h"

namespace shardlab {

namespace {

constexpr const char* kInfer = "Infer";
constexpr std::size_t kAnyDims = 64;  // of a type without a tensor, which may have as many

// PartitionSpec(("dp", "cp"), None) names the mesh dims that cut each tensor dim, first cut first.
TensorType cut_by_spec(const TensorType& type, const Value& spec, const MeshLayout& mesh,
                       std::string_view function) {
  std::vector<std::vector<std::size_t>> cuts;
  for (const Value& entry : items_of(spec)) {
    cuts.emplace_back();
    if (entry.is_none()) continue;
    const Values axes = entry.is_sequence() ? items_of(entry) : Values{entry};
    for (const Value& axis : axes) cuts.back().push_back(mesh_dim_of(mesh, axis, function));
  }
  return cut_by(type, cuts);
}

/// One tensor as a program types it: by mesh dim, and which tensor dims these cut.
struct SaidType {
  std::map<std::size_t, SpmdType> types;
  const Value* for_all = nullptr;  ///< of the dims that are not named
  std::vector<const Value*> specs;
};

// A dict by mesh dim, one type for all, a PartitionSpec, or a list of these: an SpmdType, or a
// tuple of a dict and a PartitionSpec.
void read_said(SaidType& said, const Value& given, const MeshLayout& mesh, std::size_t ndim,
               std::string_view function) {
  const auto is_dict = [](const Value& item) { return item.is<DictValue>(); };
  if (const auto* dict = given.get<DictValue>()) {
    for (const auto& [axis, written] : *dict->entries) {
      const std::size_t dim = mesh_dim_of(mesh, axis, function);
      const SpmdType type = type_in(written, ndim, function);
      const auto [before, is_new] = said.types.emplace(dim, type);
      if (is_new || before->second == type) continue;
      fail(Fix{"say it once"}, "{}: {} has the types {} and {}", function, mesh.names()[dim],
           to_string(before->second), to_string(type));
    }
  } else if (given.is_sequence() &&
             (!given.is<TupleValue>() || std::ranges::any_of(items_of(given), is_dict))) {
    for (const Value& item : items_of(given)) read_said(said, item, mesh, ndim, function);
  } else if (given.is_sequence()) {
    said.specs.push_back(&given);
  } else if (!given.is_none()) {
    said.for_all = &given;
  }
}

// Dims of which nothing is said, `unsaid` as bits, have their type of `base`.
TensorType types_in(const Values& given, const MeshLayout& mesh, std::size_t ndim,
                    std::string_view function, const TensorType& base,
                    std::uint32_t* unsaid = nullptr) {
  SaidType said;
  for (const Value& one : given) read_said(said, one, mesh, ndim, function);
  for (std::size_t dim = 0; said.for_all != nullptr && dim < mesh.ndim(); ++dim) {
    said.types.emplace(dim, type_in(*said.for_all, ndim, function));
  }
  TensorType type = base;
  bool cuts = false;
  for (const auto& [dim, along] : said.types) {
    type.types[dim] = along;
    type.order[dim] = along.is_s() ? 0 : -1;
    cuts |= along.is_s();
  }
  if (cuts) type = tensor_type(type.types);
  for (const Value* spec : said.specs) {
    const std::size_t entries = items_of(*spec).size();
    if (entries != ndim) {
      fail(Fix{"write one for each tensor dim; None: it is not cut"},
           "{}: PartitionSpec has {} entries for {} dims", function, entries, ndim);
    }
    for (std::size_t dim = 0; dim < mesh.ndim(); ++dim) {
      if (type.types[dim].is_s() && !said.types.contains(dim)) type.types[dim] = {};
    }
    type = cut_by_spec(type, *spec, mesh, function);
  }
  for (std::size_t dim = 0; unsaid != nullptr && dim < mesh.ndim(); ++dim) {
    const bool cut = !said.specs.empty() && type.types[dim].is_s();
    if (!cut && !said.types.contains(dim)) *unsaid |= 1u << dim;
  }
  return type;
}

// Nothing is known.
TensorType unsaid_type(const MeshLayout& mesh) {
  return tensor_type(SpmdTypes(mesh.ndim(), SpmdType::varying()));
}

enum class Gradient : std::uint8_t { kLeft, kClaimed };

// A claim for each tensor of a value; `types` likewise where the value is a tuple or a list.
void claim_all(Interpreter& in, const Value& value, const Values& types, std::string_view function,
               SourceSpan at, Gradient gradient) {
  if (const auto* x = value.get<DTensor>()) {
    const MeshLayout* mesh = in.default_mesh();
    std::uint32_t unsaid = 0;
    const TensorType type =
        types_in(types, *mesh, x->ndim(), function, unsaid_type(*mesh), &unsaid);
    if (TypedProgram* typed = typed_program()) {
      const bool claims = function == "assert_type" || function == "local_map";
      const TensorType* known = typed->checks() || typed->knows(*x) ? typed->type_of(*x) : nullptr;
      const TensorType all =
          known == nullptr ? type : types_in(types, *mesh, x->ndim(), function, *known);
      if (known != nullptr) unsaid &= typed->unsaid_of(*x);
      claims ? typed->claim(*x, all, unsaid) : typed->has(*x, all, unsaid);
    }
    in.claim(*x, {.type = type, .mesh = mesh}, at, function, gradient == Gradient::kClaimed);
  } else if (value.is_sequence()) {
    const Values& items = items_of(value);
    const bool each =
        types.size() == 1 && types[0].is_sequence() && items_of(types[0]).size() == items.size();
    for (std::size_t i = 0; i < items.size(); ++i) {
      claim_all(in, items[i], each ? Values{items_of(types[0])[i]} : types, function, at, gradient);
    }
  }
}

// Any number of types, in any order.
Value run_assert_type(Interpreter& in, const Value*, CallValues call) {
  Values types;
  while (call.positional.size() > 2) {
    types.push_back(call.positional.back());
    call.positional.pop_back();
  }
  const Parameters given("assert_type(tensor, type, partition_spec=)", std::move(call));
  types.insert(types.end(), {given["type"], given["partition_spec"]});
  claim_all(in, given["tensor"], types, "assert_type", in.position(), Gradient::kClaimed);
  return given["tensor"];
}

// Null if nothing has said it.
const TensorType* type_said(const DTensor& x) {
  const TypedProgram* typed = typed_program();
  return typed == nullptr ? nullptr : typed->type_of(x);
}

std::uint32_t unsaid_of(const DTensor& x) {
  const TypedProgram* typed = typed_program();
  return typed == nullptr ? 0 : typed->unsaid_of(x);
}

// {"dp": "V", "tp": "I"}: S(d) is V here, as in the package.
Value local_type_of(const Interpreter& in, const TensorType* type, std::uint32_t unsaid) {
  const DictValue types = make_dict();
  const MeshLayout& mesh = *in.default_mesh();
  for (std::size_t dim = 0; type != nullptr && dim < mesh.ndim(); ++dim) {
    if (mesh.size(dim) == 1 || (unsaid >> dim & 1) != 0) continue;
    types.entries->set(Value(mesh.names()[dim]), to_string(without_dim(type->types[dim])));
  }
  return types;
}

// (("dp", "cp"), None): the mesh dims that cut each tensor dim; None where no dim is cut.
Value spec_of(const Interpreter& in, const TensorType* type, std::size_t ndim) {
  const MeshLayout& mesh = *in.default_mesh();
  Values entries;
  for (const auto& dims : cuts_by_dim(type == nullptr ? TensorType() : *type, mesh, ndim)) {
    Values names;
    for (const std::size_t dim : dims) names.emplace_back(mesh.names()[dim]);
    entries.push_back(names.size() > 1 ? make_tuple(names) : names.empty() ? Value() : names[0]);
  }
  return entries.empty() ? Value() : make_tuple(std::move(entries));
}

Value run_get_local_type(Interpreter& in, const Value*, const Parameters& given) {
  const DTensor x = given.tensor("value");
  return local_type_of(in, type_said(x), unsaid_of(x));
}

Value run_get_partition_spec(Interpreter& in, const Value*, const Parameters& given) {
  const DTensor x = given.tensor("tensor");
  return spec_of(in, type_said(x), x.ndim());
}

// The type of another tensor, but for some mesh dims.
template <bool kWithSpec>
Value run_assert_type_like(Interpreter& in, const Value*, CallValues call) {
  const Parameters given({kWithSpec ? "assert_type_like" : "assert_local_type_like",
                          {"tensor", "source", "overrides="}},
                         std::move(call));
  const DTensor source = given.tensor("source");
  const TensorType* type = type_said(source);
  if (type == nullptr) {
    fail(Fix{"say it by assert_type where it is made"}, "assert_type_like: source has no type");
  }
  std::uint32_t unsaid = 0;
  const TensorType like = types_in({given["overrides"]}, *in.default_mesh(), source.ndim(),
                                   "assert_type_like", *type, &unsaid);
  Values types = {local_type_of(in, &like, unsaid & unsaid_of(source))};
  if (kWithSpec) types.push_back(spec_of(in, &like, source.ndim()));
  claim_all(in, given["tensor"], types, "assert_type", in.position(), Gradient::kClaimed);
  return {};
}

Value run_is_type_checking(Interpreter&, const Value*, const Parameters&) {
  const TypedProgram* typed = typed_program();
  return typed != nullptr && typed->checks();
}

// Types on the way from one side to the other, each one for all dims, or a dict. The other mesh
// dims keep what they have: the judge finds out.
Value run_mutate_type(Interpreter& in, const Value*, const Parameters& given) {
  const DTensor x = given.tensor("tensor");
  const MeshLayout& mesh = *in.default_mesh();
  Values axes;
  for (const char* side : {"src", "dst"}) {
    const auto* dict = given[side].get<DictValue>();
    if (dict == nullptr) continue;
    axes.clear();
    for (const auto& [axis, type] : *dict->entries) axes.push_back(axis);
  }
  if (given.has("axis")) axes = {given["axis"]};
  if (axes.empty()) axes.assign(mesh.names().begin(), mesh.names().end());
  const auto side_of = [&](const char* side, std::size_t dim) {
    const auto* dict = given[side].get<DictValue>();
    if (dict == nullptr) return given[side];
    for (const auto& [axis, type] : *dict->entries) {
      if (mesh_dim_of(mesh, axis, "mutate_type") == dim) return type;
    }
    fail(Fix{"name the same mesh dims in src and dst"}, "mutate_type: {} says nothing of {}", side,
         mesh.names()[dim]);
  };
  const TensorType* known = type_said(x);
  std::optional<TensorType> kept;  // cuts stay as they are, as in the package
  if (known != nullptr) kept = *known;
  const DictValue types = make_dict();
  for (const Value& axis : axes) {
    const std::size_t dim = mesh_dim_of(mesh, axis, "mutate_type");
    if (mesh.size(dim) == 1) continue;
    const SpmdType from = without_dim(type_in(side_of("src", dim), kAnyDims, "mutate_type"));
    SpmdType to = type_in(side_of("dst", dim), kAnyDims, "mutate_type");
    if (kept) {
      SpmdType& own = kept->types[dim];
      if (without_dim(own) != from) {
        fail(Fix{fmt::format("write src=spmd.{}", to_string(without_dim(own)))},
             "mutate_type: along {} the tensor is {}, not {}", mesh.names()[dim], to_string(own),
             to_string(from));
      }
      if (!own.is_s() || !to.varies()) own = without_dim(to);
      if (!own.is_s()) kept->order[dim] = -1;
    }
    // The package trusts any S(d) here; one that cannot be judged is V.
    const bool other = known != nullptr && std::ranges::count(known->types, to) > 0;
    if (to.is_s() && (other || to.placement->dim >= static_cast<std::int64_t>(x.ndim()))) to = {};
    types.entries->set(axis, to_string(to));
  }
  claim_all(in, x, {types}, "mutate_type", in.position(), Gradient::kLeft);
  if (kept) typed_program()->has(x, *kept);
  return given["tensor"];
}

// A function whose arguments and results have the types that the program says.
class TypedFunction final : public Callable {
 public:
  TypedFunction(Value function, const Parameters& given, std::string name)
      : function_(std::move(function)),
        in_(given["in_types"]),
        out_(given["out_types"]),
        name_(std::move(name)) {}
  std::string_view kind() const override { return "typed function"; }

  Value call(Interpreter& in, CallValues call) override {
    const SourceSpan at = in.position();
    if (function_.is_none()) {
      const Parameters decorated({name_, {"function"}}, std::move(call));
      auto typed = std::make_shared<TypedFunction>(*this);
      typed->function_ = decorated["function"];
      return ObjectValue{std::move(typed)};
    }
    const auto* text = in_.get<std::string>();
    if (!in_.is_none() && (text == nullptr || *text != kInfer)) {
      claim_all(in, make_tuple(call.positional), {in_}, name_, at, Gradient::kLeft);
    }
    Value result;
    {
      const CheckScope scope(name_ == "local_map" ? Checks::kLocal : Checks::kOff);
      result = in.call(function_, std::move(call));
    }
    claim_all(in, result, {out_}, name_, at, Gradient::kLeft);
    return result;
  }

 private:
  Value function_, in_, out_;
  std::string name_;
};

Value run_spmd_local_map(Interpreter&, const Value*, const Parameters& given) {
  return ObjectValue{std::make_shared<TypedFunction>(Value(), given, "local_map")};
}

// `with` of no_typecheck() takes calls out of the check by types, of local() and
// typecheck(local=True) makes it that of local mode.
class TypeChecking final : public ContextManager {
 public:
  explicit TypeChecking(Checks checks) : checks_(checks) {}
  std::string_view kind() const override { return "type checking"; }
  Value enter(Interpreter&, const Value&) override {
    scope_.emplace(checks_);
    return {};
  }
  void leave() override { scope_.reset(); }

 private:
  Checks checks_;
  std::optional<CheckScope> scope_;
};

Value run_no_typecheck(Interpreter&, const Value*, const Parameters& given) {
  if (given.has("fn")) return given["fn"];
  if (!given.has("out_types")) return ObjectValue{std::make_shared<TypeChecking>(Checks::kOff)};
  return ObjectValue{std::make_shared<TypedFunction>(Value(), given, "no_typecheck")};
}

Value run_typecheck(Interpreter&, const Value*, const Parameters& given) {
  const bool local = given.flag_or("local", false);
  return ObjectValue{std::make_shared<TypeChecking>(local ? Checks::kLocal : Checks::kAsBefore)};
}

Value run_local(Interpreter&, const Value*, const Parameters&) {
  return ObjectValue{std::make_shared<TypeChecking>(Checks::kLocal)};
}

// `with` enters the mesh itself.
Value run_set_current_mesh(Interpreter&, const Value*, const Parameters& given) {
  if (!given["axes"].is<MeshValue>()) given.refuse("axes", "a mesh", "set_current_mesh(mesh)");
  return given["axes"];
}

Value run_current_mesh(Interpreter& in, const Value*, const Parameters&) {
  Values names;
  for (const std::string& name : in.default_mesh()->names()) names.emplace_back(name);
  return make_tuple(std::move(names));
}

// A type of all dims as one value.
Value run_spmd_type(Interpreter&, const Value*, const Parameters& given) {
  return make_list({given["local_type"], given["partition_spec"]});
}

Value run_merge_types(Interpreter&, const Value*, CallValues call) {
  return make_list(std::move(call.positional));
}

// A mesh dim, given by its group or its name, is its name.
Value run_axis(Interpreter& in, const Value*, const Parameters& given) {
  const MeshLayout& mesh = *in.default_mesh();
  return mesh.names()[mesh_dim_of(mesh, given["axis"], "MeshAxis.of")];
}

// Types are taken over where they are asked for; this asks, and refuses what has none there.
Value run_reinterpret_mesh(Interpreter&, const Value*, const Parameters& given) {
  const auto* mesh = given["type"].get<MeshValue>();
  if (mesh == nullptr) given.refuse("type", "a mesh", "reinterpret_mesh(x, mesh)");
  if (TypedProgram* typed = typed_program()) {
    const MeshLayout* before = typed->look_along(mesh->layout);
    typed->type_of(given.tensor("tensor"));
    typed->look_along(before);
  }
  return given["tensor"];
}

Value run_piece_type(Interpreter&, const Value*, const Parameters& given) {
  return fmt::format("S({})", given.integer("dim"));
}

Value run_partition_spec(Interpreter&, const Value*, CallValues call) {
  return make_tuple(std::move(call.positional));
}

Value run_type_of_placement(Interpreter&, const Value*, const Parameters& given) {
  const auto* placement = given["placement"].get<Placement>();
  if (placement == nullptr) given.refuse("placement", "a placement", "Shard(0)");
  const auto* gradient = given["grad_placement"].get<Placement>();
  return to_string(dtensor_placement_to_spmd_type(
      *placement, gradient == nullptr ? std::nullopt : std::optional(*gradient)));
}

Value run_placement_of_type(Interpreter&, const Value*, const Parameters& given) {
  return spmd_type_to_dtensor_placement(
      type_in(given["spmd_type"], kAnyDims, "spmd_type_to_dtensor_placement"));
}

}  // namespace

BuiltinTable mesh_axis_builtins() {
  static const Builtin kTable[] = {{"of", "MeshAxis.of(axis)", run_axis}};
  return kTable;
}

BuiltinTable spmd_builtins() {
  static const Builtin kTable[] = {
      {"PartitionSpec", run_partition_spec},
      {"S", "(dim)", run_piece_type},
      {"Shard", "S(dim)", run_piece_type},
      {"SpmdType", "(local_type, partition_spec=)", run_spmd_type},
      {"assert_local_type", run_assert_type},
      {"assert_local_type_like", run_assert_type_like<false>},
      {"assert_type", run_assert_type},
      {"assert_type_like", run_assert_type_like<true>},
      {"current_mesh", "()", run_current_mesh},
      {"get_local_type", "(value)", run_get_local_type},
      {"get_partition_spec", "(tensor)", run_get_partition_spec},
      {"is_type_checking", "()", run_is_type_checking},
      {"local", "()", run_local},
      {"local_map", "(in_types=, out_types)", run_spmd_local_map},
      {"merge_types", run_merge_types},
      {"mutate_type", "(tensor, axis=, src, dst)", run_mutate_type},
      {"no_typecheck", "(fn=, in_types=, out_types=)", run_no_typecheck},
      {"normalize_axis", "MeshAxis.of(axis)", run_axis},
      {"reinterpret_mesh", "(tensor, type, inplace=)", run_reinterpret_mesh},
      {"set_current_mesh", "(axes)", run_set_current_mesh},
      {"dtensor_placement_to_spmd_type", "(placement, grad_placement=)", run_type_of_placement},
      {"spmd_type_to_dtensor_placement", "(spmd_type)", run_placement_of_type},
      {"typecheck", "(strict_mode=, local=)", run_typecheck},
  };
  return kTable;
}

}  // namespace shardlab
