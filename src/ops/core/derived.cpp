// The op that an overload is derived from is decided once, when ops are registered, by the names
// and types of the arguments: all that is read has to be an argument of the op, in its order, and
// further arguments of the op have to be optional. Writing means copy_ with the checks of in-place
// and out= ops in front; an out= tensor of another shape is replaced.
#include "ops/core/derived.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "kernels/kernel_id.h"
#include "ops/core/gradient_math.h"
#include "ops/core/meta.h"
#include "ops/core/operands.h"
#include "ops/core/rows.h"
#include "schema/aten_schemas.h"
#include "schema/op_registry.h"
#include "schema/op_row.h"

namespace shardlab {
namespace {

constexpr std::size_t kNoPlace = static_cast<std::size_t>(-1);

/// The first argument that an op writes is called self, whatever its name in the op that it is
/// derived from.
bool written_first(const OpDescriptor& op, const OpDescriptor& base, std::size_t i,
                   std::size_t next) {
  return i == 0 && next == 0 && op.is_inplace() && !base.is_inplace();
}

/// The place of each argument of `base` in `op`, or kNoPlace; empty when the two do not fit.
std::optional<std::vector<std::size_t>> places_in(const OpDescriptor& op,
                                                  const OpDescriptor& base) {
  std::vector<std::size_t> places(base.arguments.size(), kNoPlace);
  std::size_t next = 0;
  for (std::size_t i = 0; i < op.arguments.size(); ++i) {
    const SchemaArgument& read = op.arguments[i];
    if (read.is_out) continue;
    while (next < base.arguments.size() &&
           ((base.arguments[next].name != read.name && !written_first(op, base, i, next)) ||
            base.arguments[next].type != read.type)) {
      ++next;
    }
    if (next == base.arguments.size()) return std::nullopt;
    places[next++] = i;
  }
  for (std::size_t i = 0; i < places.size(); ++i) {
    const SchemaArgument& argument = base.arguments[i];
    const bool optional = argument.keyword_only && argument.default_text.has_value();
    if (places[i] == kNoPlace && !optional) return std::nullopt;
  }
  return places;
}

std::size_t read_count(const OpDescriptor& op) {
  return static_cast<std::size_t>(std::ranges::count_if(
      op.arguments, [](const SchemaArgument& argument) { return !argument.is_out; }));
}

/// Number of arguments that it writes other than out= tensors: state, or arguments changed in
/// place.
std::ptrdiff_t count_state(const OpDescriptor& op) {
  return std::ranges::count_if(op.arguments, [](const SchemaArgument& argument) {
    return argument.alias.write && !argument.is_out;
  });
}

bool writes_lists(const OpDescriptor& op) {
  return std::ranges::any_of(op.arguments, [](const SchemaArgument& argument) {
    return argument.alias.write && argument.type.is_list;
  });
}

/// Writes its first argument and nothing else.
bool writes_first(const OpDescriptor& op) {
  const auto writes = std::ranges::count_if(
      op.arguments, [](const SchemaArgument& argument) { return argument.alias.write; });
  return writes == 1 && op.arguments[0].alias.write && !op.arguments[0].type.is_list;
}

enum class Form : std::uint8_t { kNew, kCopy, kInPlace, kOut };

/// "aten::round_.decimals" -> "aten::round_"
std::string_view base_of(std::string_view schema) {
  return schema.substr(0, std::min(schema.find('('), schema.find('.')));
}

bool takes_off(std::string& name, std::string_view ending) {
  if (!name.ends_with(ending)) return false;
  name.resize(name.size() - ending.size());
  return true;
}

/// The name of the op of a form, where the overload's name begins with `base`; "" for none.
std::string origin_name(Form form, std::string_view base) {
  std::string name(base);
  switch (form) {
    case Form::kNew:
      return name + "_";
    case Form::kCopy:
      return takes_off(name, "_copy") ? name : "";
    case Form::kInPlace:
      return takes_off(name, "_") ? name : "";
    case Form::kOut:
      return name;
  }
  return {};
}

bool has_form(Form form, const OpDescriptor& op, const OpDescriptor& base) {
  if (base.is_out_variant() || op.is_view()) return false;
  if (op.is_out_variant() != (form == Form::kOut)) return false;
  switch (form) {
    case Form::kNew:
      return !op.is_inplace() && writes_first(base);
    case Form::kCopy:
      return base.is_view();
    case Form::kInPlace:
      return writes_first(op) && !base.is_inplace() && !base.is_view();
    case Form::kOut:
      return !writes_first(base) && count_state(op) == count_state(base);
  }
  return false;
}

/// Ops on lists are derived from the op on each element (foreach.cpp), but for those that only put
/// the lists elsewhere.
const OpRow* origin_of(const OpRegistry& registry, Form form, const OpDescriptor& op) {
  const OpRow* found = nullptr;
  for (const OpRow* row : registry.overloads(origin_name(form, op.base))) {
    if ((row->has(kIndependentLists) && form != Form::kOut) || !has_form(form, op, row->op))
      continue;
    if (!places_in(op, row->op)) continue;
    if (row->op.arguments.size() == read_count(op)) return row;
    if (found == nullptr) found = row;
  }
  return found;
}

/// The result of a factory is laid out as the target that it is written to, where that has the
/// right shape.
std::vector<RuleRow> target_rule(const RuleContext& context) {
  std::vector<RuleRow> rows;
  const Dims& shape = context.outputs[0].meta.shape;
  if (context.schema.args.back().spec()->shape() != shape) return rows;
  for (std::size_t dim = 0; dim < shape.size(); ++dim) {
    rows.push_back({{RulePlacement::any(static_cast<std::int64_t>(dim))}, {}});
  }
  return rows;
}

bool makes_from_nothing(const OpRow& row) {
  return row.kernel() != KernelId{} && std::holds_alternative<NoRule>(row.rule) &&
         std::ranges::none_of(row.op.arguments, [](const SchemaArgument& argument) {
           return argument.type.is_tensor();
         });
}

bool decided_by_rule(const OpRow& row) {
  if (row.inplace()) return false;
  const bool computed = std::holds_alternative<KernelId>(row.compute) ||
                        std::holds_alternative<MaskedLookup>(row.compute) ||
                        std::holds_alternative<ProgramFn>(row.compute);
  return computed && !std::holds_alternative<NoRule>(row.rule);
}

void add_derived(OpRegistry& registry, Form form, OpDescriptor op, const OpRow& base) {
  const bool same_arguments = base.op.arguments.size() == read_count(op);
  const bool variant = form == Form::kOut || form == Form::kInPlace;
  if (variant && makes_from_nothing(base)) {
    add_variant(registry, base, std::move(op), DimRuleFn{target_rule});
  } else {
    OpRow row;
    row.op = std::move(op);
    row.compute = PartsFn{through_base};
    row.flags = base.flags & (kRandom | kDataDependent | kNotDifferentiable | kExact);
    row.why = registry.keep("what " + base.name() + " gives, elsewhere");
    row.base = &base;
    if (variant && same_arguments && !base.has(kIndependentLists)) {  // as one call of the op
      row.meta = base.meta;
      row.rule = base.rule;
      row.filter = base.filter;
      row.info = base.info;
    }
    registry.add(std::move(row));
  }
}

void add_all_of(OpRegistry& registry, Form form, std::span<const std::string_view> schemas) {
  for (const std::string_view schema : schemas) {
    const std::string origin = origin_name(form, base_of(schema));
    if (origin.empty() || registry.overloads(origin).empty()) continue;
    OpDescriptor op = aten_descriptor(schema);
    const OpRow* base = origin_of(registry, form, op);
    if (base != nullptr) add_derived(registry, form, std::move(op), *base);
  }
}

// Calls

/// Gives a handle another tensor, laid out as its own where that has the dims for it.
void rebind(Calls& calls, const DTensor& out, DTensor value) {
  if (out.distributed()) {
    const bool fits = std::ranges::all_of(out.spec()->placements(), [&](const Placement& p) {
      return p.is_replicate() || (p.is_shard() && p.dim < static_cast<std::int64_t>(value.ndim()));
    });
    if (fits) value = calls.redistribute(value, out.spec()->placements());
  }
  out.impl()->local.storage()->writable();
  out.impl()->local = value.local();
  out.impl()->spec = value.spec();
  out.impl()->note = value.impl()->note;  // the notes of observers on it are moved with the memory
}

void write_out(Calls& calls, const OpRow& row, const DTensor& out, const DTensor& value) {
  check_category(row, value.dtype(), out.dtype());
  if (out.shape() == value.shape() || out.distributed() != value.distributed()) {
    calls("copy_", {out, value});
  } else {
    rebind(calls, out, calls.one("_to_copy", {value, out.dtype()}));
  }
}

std::vector<DTensor> tensors_in(const Argument& argument) {
  std::vector<DTensor> tensors;
  if (argument.is_tensor()) tensors.push_back(argument.tensor());
  if (argument.is_list()) {
    for (const Argument& element : argument.list()) tensors.push_back(element.tensor());
  }
  return tensors;
}

Results written_out(Calls& calls, const OpRow& row, const Arguments& args, const Results& results) {
  std::vector<DTensor> values;
  for (const Argument& result : results) {
    for (DTensor& tensor : tensors_in(result)) values.push_back(std::move(tensor));
  }
  Results outs;
  std::size_t next = 0;
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (!row.op.arguments[i].is_out) continue;
    for (const DTensor& out : tensors_in(args[i])) {
      if (next == values.size()) {
        fail(Fix{fmt::format("pass {} tensors as out", values.size())},
             "{}: there are more out= tensors than results; there must be as many", row.name());
      }
      if (values[next].defined()) write_out(calls, row, out, values[next]);
      ++next;
    }
    outs.push_back(args[i]);
  }
  if (next != values.size()) {
    fail(Fix{fmt::format("pass {} tensors as out", values.size())},
         "{}: there are {} results and {} out= tensors; there must be as many", row.name(),
         values.size(), next);
  }
  return row.op.returns.empty() ? Results() : outs;
}

Results written_in_place(Calls& calls, const OpRow& row, const Arguments& args,
                         const DTensor& value) {
  const DTensor& target = args[0].tensor();
  check_written_shape(row, value.shape(), target.shape());
  check_category(row, value.dtype(), target.dtype());
  calls("copy_", {target, value});
  return {args[0]};
}

/// None for lists.
Argument dtype_of(const Argument& out) {
  if (out.is_tensor()) return out.tensor().dtype();
  return out.is_spec() ? Argument(out.spec()->dtype()) : Argument();
}

Argument copied(Calls& calls, const Argument& view) {
  if (!view.is_list()) return calls.one("clone", {view, "contiguous_format"});
  ArgumentList copies;
  for (const Argument& element : view.list()) copies.push_back(copied(calls, element));
  return copies;
}

/// Whether a tensor with these placements has this view. Nothing moves.
bool takes_view(const OpRow& view, Arguments args, const DTensorSpec* spec) {
  const auto* by_mesh = std::get_if<MeshRuleFn>(&view.rule);
  const auto* by_dim = std::get_if<DimRuleFn>(&view.rule);
  if (by_mesh == nullptr && by_dim == nullptr) return true;
  args[0] = spec;
  const OutputMetas outputs = view.meta(MetaArgs(view.op, args, {&spec->meta()}));
  const OpSchema schema{&view, args, spec->layout()};
  const RuleContext context{schema, outputs, {spec}};
  try {
    if (by_mesh != nullptr) {
      (*by_mesh)(context);
    } else {
      (*by_dim)(context);
    }
    return true;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kRuntime) throw;
    return false;
  }
}

/// A copy may bring together elements that a view cannot reach: of the cut dims, the first without
/// whose cuts the view is taken, or all.
DTensor as_viewed(Calls& calls, const OpRow& view, const Arguments& args) {
  const DTensor& x = args[0].tensor();
  if (!x.distributed() || takes_view(view, args, x.spec())) return x;
  const auto dims = static_cast<std::int64_t>(x.ndim());
  for (std::int64_t dim = 0; dim < dims; ++dim) {
    Placements placements = x.spec()->placements();
    for (Placement& placement : placements) {
      if (placement.is_shard() && placement.dim == dim) placement = Placement::replicate();
    }
    if (takes_view(view, args, x.spec()->with(placements))) {
      return calls.redistribute(x, placements);
    }
  }
  Placements whole = x.spec()->placements();
  for (Placement& placement : whole) {
    if (placement.is_shard()) placement = Placement::replicate();
  }
  return calls.redistribute(x, whole);
}

}  // namespace

void add_variants(OpRegistry& registry, const OpRow& row) {
  if (!decided_by_rule(row)) return;
  for (const Form form : {Form::kInPlace, Form::kOut}) {
    const std::string name = row.op.base + (form == Form::kInPlace ? "_" : "");
    for (const std::string_view schema : aten_schemas_of(name)) {
      if (base_of(schema) != name || schema.find('!') == std::string_view::npos) continue;
      OpDescriptor op = aten_descriptor(schema);
      const bool same = has_form(form, op, row.op) && places_in(op, row.op).has_value() &&
                        row.op.arguments.size() == read_count(op);
      if (same && !writes_lists(op)) add_variant(registry, row, std::move(op), row.rule);
    }
  }
}

void register_derived(OpRegistry& registry) {
  std::vector<std::string_view> missing = aten_schemas_of("aten::");
  std::erase_if(missing, [&](std::string_view schema) {
    return registry.find(schema.substr(0, schema.find('('))) != nullptr;
  });
  for (const Form form : {Form::kNew, Form::kCopy, Form::kInPlace, Form::kOut}) {
    add_all_of(registry, form, missing);
  }
}

Results through_base(Calls&, const Arguments&) { return {}; }

bool is_derived(const OpRow& row) { return row.parts() == PartsFn{through_base}; }

Results through_parts(Calls& calls, const OpRow& row, const Arguments& args) {
  try {
    check_tensors(row, args);
    return is_derived(row) ? derived_results(calls, row, args) : row.parts()(calls, args);
  } catch (const OutOfRange& error) {
    if (error.find("op") != nullptr) throw;  // a part's, which had taken its operands
    refuse_short_operands(row, error);
  }
}

Arguments base_arguments(const OpRow& row, const Arguments& args) {
  const OpDescriptor& base = row.base->op;
  const std::vector<std::size_t> places = places_in(row.op, base).value();
  Arguments given = row.base->defaults();
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (places[i] != kNoPlace) {
      given[i] = args[places[i]];
    } else if (base.arguments[i].name == "dtype" && row.out_variant()) {
      given[i] = dtype_of(args[read_count(row.op)]);
    }
  }
  return given;
}

namespace {

/// The result of a factory is the same on every rank: for a distributed out= it is a replica.
void place_like(const Arguments& args, const Arguments& given, const OpRow& base,
                Results& results) {
  const bool reads = std::ranges::any_of(
      given, [](const Argument& argument) { return !tensors_in(argument).empty(); });
  if (reads || base.has(kRandom) || args.empty()) return;
  const std::vector<DTensor> outs = tensors_in(args.back());
  if (outs.empty() || !outs.front().distributed()) return;
  const MeshLayout* layout = outs.front().spec()->layout();
  for (Argument& result : results) {
    if (!result.is_tensor() || result.tensor().distributed()) continue;
    const Tensor& local = result.tensor().local();
    result = DTensor(local, layout->arena().spec(layout, Placements(layout->ndim()), local.meta()));
  }
}

}  // namespace

Results derived_results(Calls& calls, const OpRow& row, const Arguments& args) {
  const OpRow& base = *row.base;
  Arguments given = base_arguments(row, args);
  if (!row.out_variant() && writes_first(base.op)) {
    given[0] = calls.one("clone", {grad::reduced(calls, given[0].tensor())});
    calls.call(base, given);
    return {given[0]};
  }
  if (base.op.is_view() && given[0].is_tensor()) given[0] = as_viewed(calls, base, given);
  // Parts may keep for backward values that are overwritten below.
  if (row.inplace() && std::holds_alternative<PartsFn>(base.compute) && given[0].is_tensor() &&
      given[0].tensor().requires_grad()) {
    given[0] = calls.one("clone", {given[0]});
  }
  Results results = calls.call(base, given);
  if (row.out_variant()) {
    place_like(args, given, base, results);
    return written_out(calls, row, args, results);
  }
  if (row.inplace()) return written_in_place(calls, row, args, results[0].tensor());
  for (Argument& result : results) result = copied(calls, result);
  return results;
}

}  // namespace shardlab
