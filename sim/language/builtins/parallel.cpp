// Tensor-parallel styles, as in api/parallel.h. Weights with other placements are moved to those of
// the style.
#include "api/parallel.h"

#include "api/mesh.h"
#include "sim/language/builtins/placing.h"
#include "sim/language/run/interpreter.h"
#include "sim/language/run/mesh_value.h"

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

Value run_column_wise(Interpreter& in, const Value*, CallValues call) {
  const Parameters given("column_wise", {"x", "weight", "bias=", "dim=", "output="},
                         std::move(call));
  if (in.plain()) return plain_linear(in, given);
  const MeshLayout* mesh = mesh_of_program(in);
  const std::string dim = style_dim(given, *mesh);
  return column_wise(given.tensor("x"), column_wise_weights(weights_of(given), mesh, dim), dim,
                     output_of(given, Placement::shard(-1)));
}

Value run_row_wise(Interpreter& in, const Value*, CallValues call) {
  const Parameters given("row_wise", {"x", "weight", "bias=", "dim=", "output="}, std::move(call));
  if (in.plain()) return plain_linear(in, given);
  const MeshLayout* mesh = mesh_of_program(in);
  const std::string dim = style_dim(given, *mesh);
  return row_wise(given.tensor("x"), row_wise_weights(weights_of(given), mesh, dim), dim,
                  output_of(given, Placement::replicate()));
}

Value run_sequence_parallel(Interpreter& in, const Value*, CallValues call) {
  const Parameters given("sequence_parallel", {"x", "dim=", "along="}, std::move(call));
  if (in.plain()) return given.tensor("x");
  const std::string dim = style_dim(given, *mesh_of_program(in));
  return sequence_parallel(given.tensor("x"), dim, given.integer_or("along", 1));
}

Value run_loss_parallel(Interpreter& in, const Value*, CallValues call) {
  const Parameters given("loss_parallel", {"x", "target", "weight=", "reduction=", "ignore_index="},
                         std::move(call));
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

Value run_shard_parameters(Interpreter& in, const Value*, CallValues call) {
  const Parameters given("shard", {"parameters", "patterns"}, std::move(call));
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
    if (!name.is<std::string>() || !value.is_tensor()) {
      refuse_parameters();
    }
    named[name.as<std::string>()] = value.as<DTensor>();
  }
  std::vector<ShardPattern> wanted;
  for (const auto& [pattern, type] : *patterns->entries) {
    if (!pattern.is<std::string>() || !type.is<std::string>()) {
      refuse_patterns();
    }
    wanted.emplace_back(pattern.as<std::string>(), type.as<std::string>());
  }
  const NamedTensors placed = in.plain() ? named : shard(named, mesh_of_program(in), wanted);
  DictValue out = make_dict();
  for (const auto& [name, value] : *parameters->entries) {
    const DTensor& parameter = placed.at(name.as<std::string>());
    out.entries->emplace_back(name,
                              placed_parameter(in, value.as<DTensor>(), [&] { return parameter; }));
  }
  return out;
}

}  // namespace

BuiltinTable parallel_builtins() {
  static const Builtin kTable[] = {
      {"column_wise", run_column_wise}, {"loss_parallel", run_loss_parallel},
      {"row_wise", run_row_wise},       {"sequence_parallel", run_sequence_parallel},
      {"shard", run_shard_parameters},
  };
  return kTable;
}

}  // namespace shardlab
