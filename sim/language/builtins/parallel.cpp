// Tensor-parallel styles, as in api/parallel.h. Weights with other placements are moved to those of
// the style.
#include "api/parallel.h"

#include <algorithm>

#include "api/mesh.h"
#include "autograd/tape.h"
#include "base/error.h"
#include "base/rank_context.h"
#include "comm/observer.h"
#include "mesh/mesh_views.h"
#include "mesh/shard_pattern.h"
#include "sim/language/builtins/placing.h"
#include "sim/language/run/mesh_value.h"
#include "sim/language/values/dict_entries.h"

namespace shardlab {

namespace {

const MeshLayout* mesh_of_program(const Interpreter& in) {
  return construct_mesh(layout_of(in, Value()));
}

// The mesh dim that a style is about; a mesh of one dim needs no name.
std::string style_dim(const Parameters& given, const MeshLayout& mesh) {
  if (given.has("dim")) return given.text("dim");
  if (mesh.ndim() == 1) return mesh.names()[0];
  given.refuse("dim", "the name of a mesh dim", fmt::format("\"{}\"", mesh.names()[0]));
}

LinearWeights weights_of(const Parameters& given) {
  return {given.tensor("weight"), given.has("bias") ? given.tensor("bias") : DTensor()};
}

Placement output_of(const Parameters& given, const Placement& otherwise) {
  return given.has("output") ? placement_of(given["output"]) : otherwise;
}

// Both styles of a linear layer in the single-device run.
Value plain_linear(Interpreter& in, const Parameters& given) {
  return in.call_op("linear", {{given["x"], given["weight"], given["bias"]}, {}});
}

Value run_column_wise(Interpreter& in, const Value*, const Parameters& given) {
  if (in.plain()) return plain_linear(in, given);
  const MeshLayout* mesh = mesh_of_program(in);
  const std::string dim = style_dim(given, *mesh);
  return column_wise(given.tensor("x"), column_wise_weights(weights_of(given), mesh, dim), dim,
                     output_of(given, Placement::shard(-1)));
}

Value run_row_wise(Interpreter& in, const Value*, const Parameters& given) {
  if (in.plain()) return plain_linear(in, given);
  const MeshLayout* mesh = mesh_of_program(in);
  const std::string dim = style_dim(given, *mesh);
  return row_wise(given.tensor("x"), row_wise_weights(weights_of(given), mesh, dim), dim,
                  output_of(given, Placement::replicate()));
}

Value run_sequence_parallel(Interpreter& in, const Value*, const Parameters& given) {
  if (in.plain()) return given.tensor("x");
  const std::string dim = style_dim(given, *mesh_of_program(in));
  return sequence_parallel(given.tensor("x"), dim, given.integer_or("along", 1));
}

Value run_loss_parallel(Interpreter& in, const Value*, const Parameters& given) {
  if (in.plain()) {
    CallValues whole{{given["x"], given["target"], given["weight"]}, {}};
    whole.keywords.emplace_back("reduction", given.text_or("reduction", "mean"));
    whole.keywords.emplace_back("ignore_index", given.integer_or("ignore_index", -100));
    return in.call_op("cross_entropy", std::move(whole));
  }
  return loss_parallel(
      given.tensor("x"), given.tensor("target"),
      {given.has("weight") ? given.tensor("weight") : DTensor(), given.text_or("reduction", "mean"),
       given.integer_or("ignore_index", -100)});
}

Value run_shard_parameters(Interpreter& in, const Value*, const Parameters& given) {
  const auto* parameters = given["parameters"].get<DictValue>();
  const auto* patterns = given["patterns"].get<DictValue>();
  const auto refuse_parameters = [&] {
    given.refuse("parameters", "a dict of tensors by name", "{\"fc.weight\": w}");
  };
  const auto refuse_patterns = [&] {
    given.refuse("patterns", "a dict of types by pattern", "{\"*.weight\": \"[8@tp, 16]\"}");
  };
  if (parameters == nullptr) refuse_parameters();
  if (patterns == nullptr) refuse_patterns();
  NamedTensors named;
  for (const auto& [name, value] : *parameters->entries) {
    if (!name.is<std::string>() || !value.is_tensor()) refuse_parameters();
    named[name.as<std::string>()] = value.as<DTensor>();
  }
  std::vector<ShardPattern> wanted;
  for (const auto& [pattern, type] : *patterns->entries) {
    if (!pattern.is<std::string>() || !type.is<std::string>()) refuse_patterns();
    wanted.emplace_back(pattern.as<std::string>(), type.as<std::string>());
  }
  const NamedTensors placed = in.plain() ? named : shard(named, mesh_of_program(in), wanted);
  DictValue out = make_dict();
  for (const auto& [name, value] : *parameters->entries) {
    const DTensor& parameter = placed.at(name.as<std::string>());
    out.entries->set(name, placed_parameter(in, value.as<DTensor>(), [&] { return parameter; }));
  }
  return out;
}

constexpr std::string_view kColwise = "ColwiseParallel", kRowwise = "RowwiseParallel";

Value run_colwise(Interpreter&, const Value*, CallValues) { return std::string(kColwise); }
Value run_rowwise(Interpreter&, const Value*, CallValues) { return std::string(kRowwise); }

/// Places a tensor, or each of a dict's by its name, which stands for a module here.
Value placed_module(Interpreter& in, const Parameters& given,
                    const std::function<DTensor(const DTensor&, const std::string&)>& place) {
  constexpr std::string_view kModule = "module";
  const auto placed = [&](const Value& value, const std::string& name) {
    if (!value.is_tensor()) {
      fail(Fix{"{\"fc.weight\": w, \"fc.bias\": b}, or a tensor"}, "a module is a dict of tensors");
    }
    const DTensor& x = value.as<DTensor>();
    return placed_parameter(in, x, [&] { return place(x, name); });
  };
  const auto* parameters = given[kModule].get<DictValue>();
  if (parameters == nullptr) return placed(given[kModule], "");
  DictValue out = make_dict();
  for (const auto& [name, value] : *parameters->entries) {
    out.entries->set(
        name, placed(value, name.is<std::string>() ? name.as<std::string>() : std::string()));
  }
  return out;
}

/// A leaf becomes another leaf.
DTensor placed_on(const DTensor& x, const MeshLayout* layout, const Placements& placements) {
  const bool leaf = x.distributed() && x.requires_grad() && is_leaf(x);
  const DTensor out = distribute_tensor(leaf ? detach(x) : x, layout, placements);
  if (leaf) require_grad(out);
  return out;
}

// Names as the plan of torch has them: of a module, or of its weight.
std::string style_of(const Value& plan, std::string name) {
  if (plan.is<std::string>()) return plan.as<std::string>();
  for (const char* end : {".weight", ".bias"}) {
    if (name.ends_with(end)) name.resize(name.rfind('.'));
  }
  const auto* rows = plan.get<DictValue>();
  if (rows == nullptr) return {};
  for (const auto& [pattern, style] : *rows->entries) {
    const bool texts = pattern.is<std::string>() && style.is<std::string>();
    if (texts && name_fits(pattern.as<std::string>(), name)) return style.as<std::string>();
  }
  return {};
}

Value run_parallelize_module(Interpreter& in, const Value*, const Parameters& given) {
  const MeshLayout* mesh = construct_mesh(layout_of(in, given["device_mesh"]));
  if (mesh->ndim() != 1) {
    fail(Fix{"mesh[\"tp\"]"}, "parallelize_module: {} has more dims than one", mesh->text());
  }
  return placed_module(in, given, [&](const DTensor& x, const std::string& name) {
    const std::string style = style_of(given["parallelize_plan"], name);
    if (style == kColwise) return placed_on(x, mesh, {Placement::shard(0)});
    if (style != kRowwise) return x;
    return placed_on(x, mesh, {x.ndim() < 2 ? Placement::replicate() : Placement::shard(1)});
  });
}

/// Warns of a dim that gets replicas while its name, or that of the other, promises pieces.
void warn_of_replicas(const MeshLayout& mesh) {
  const std::vector<std::string>& names = mesh.names();
  const auto has = [&](std::size_t dim, std::string_view word) {
    return ("_" + names[dim] + "_").find(word) != std::string::npos;
  };
  const bool meant = !has(0, "shard") && !has(0, "fsdp") && !has(0, "_cp_") && !has(1, "_cp_");
  Observer* const observer = observer_to_tell();
  if (meant || observer == nullptr) return;
  observer->warning(fmt::format(
      "{}: mesh.replicas-meant: fully_shard over {} keeps replicas along {} and pieces along {} "
      "alone; mesh[\"{}\", \"{}\"]._flatten(\"{}_{}\") has pieces over all",
      place_text(current_rank().position), mesh.text(), names[0], names[1], names[0], names[1],
      names[0], names[1]));
}

/// The parameter cut over `over`; one that is on a slice of other dims is then on both.
DTensor fully_sharded(const Interpreter& in, const DTensor& x, const MeshLayout* over) {
  Placements placements(over->ndim(), Placement::replicate());
  const auto shared = [&](const std::string& name) {
    return x.spec()->layout()->find_dim(name).has_value();
  };
  if (!x.distributed() || std::ranges::any_of(over->names(), shared)) {
    placements.back() = Placement::shard(0);
    return placed_on(x, over, placements);
  }
  const MeshLayout& own = *x.spec()->layout();
  std::int64_t pieces = 1;
  for (std::size_t dim = 0; dim < own.ndim(); ++dim) {
    if (x.spec()->placements()[dim].is_shard(0)) pieces *= own.size(dim);
  }
  placements.back() = pieces == 1 ? Placement::shard(0) : Placement::strided_shard(0, pieces);
  for (const Placement& placement : x.spec()->placements()) placements.push_back(placement);
  const MeshView views[] = {view_of(*over), view_of(own)};
  const MeshLayout* joint = part_of(concatenated(views), in.setup().rank);
  return placed_on(x, construct_mesh(joint), placements);
}

Value run_fully_shard(Interpreter& in, const Value*, const Parameters& given) {
  const MeshLayout* mesh = construct_mesh(layout_of(in, given["mesh"]));
  if (mesh->ndim() > 2) {
    fail(Fix{"mesh[\"dp\"], or two dims: replicas, then pieces"},
         "fully_shard: {} has more dims than two", mesh->text());
  }
  if (mesh->ndim() == 2) warn_of_replicas(*mesh);
  return placed_module(
      in, given, [&](const DTensor& x, const std::string&) { return fully_sharded(in, x, mesh); });
}

}  // namespace

BuiltinTable parallel_builtins() {
  static const Builtin kTable[] = {
      {std::string(kColwise), run_colwise},
      {std::string(kRowwise), run_rowwise},
      {"column_wise", "(x, weight, bias=, dim=, output=)", run_column_wise},
      {"fully_shard", "(module, mesh=, reshard_after_forward=)", run_fully_shard},
      {"loss_parallel", "(x, target, weight=, reduction=, ignore_index=)", run_loss_parallel},
      {"parallelize_module", "(module, device_mesh=, parallelize_plan=)", run_parallelize_module},
      {"row_wise", "(x, weight, bias=, dim=, output=)", run_row_wise},
      {"sequence_parallel", "(x, dim=, along=)", run_sequence_parallel},
      {"shard", "(parameters, patterns)", run_shard_parameters},
  };
  return kTable;
}

}  // namespace shardlab
