// Parallel styles of linear layers, and parameters placed by pattern.
#include "api/parallel.h"

#include "base/rank_context.h"
#include "comm/device_mesh.h"
#include "sim/scenario/interpreter.h"

namespace shardlab {

namespace {

MeshAxis axis_of(const Interpreter& in, const Parameters& given) {
  current_rank().meshes->construct(in.setup().layout);
  return {in.setup().layout, given.text("dim")};
}

std::optional<Placement> placement_of(const Parameters& given, std::string_view name) {
  if (!given.has(name)) return std::nullopt;
  if (!given[name].is<Placement>()) given.refuse(name, "a placement");
  return given[name].as<Placement>();
}

using LinearStyle = DTensor (*)(const DTensor&, const Linear&, const MeshAxis&,
                                const StyleLayouts&);

template <LinearStyle kStyle>
Value run_linear(Interpreter& in, const Value*, CallValues call) {
  constexpr std::string_view kName =
      kStyle == LinearStyle{&column_parallel} ? "column_parallel" : "row_parallel";
  const Parameters given(kName,
                         {"input", "weight", "bias=", "dim", "input_layout=", "output_layout="},
                         std::move(call));
  const Linear layer{given.tensor("weight"), given.has("bias") ? given.tensor("bias") : DTensor()};
  const StyleLayouts layouts{placement_of(given, "input_layout"),
                             placement_of(given, "output_layout")};
  return kStyle(given.tensor("input"), layer, axis_of(in, given), layouts);
}

Value run_sequence(Interpreter& in, const Value*, CallValues call) {
  const Parameters given("sequence_parallel", {"input", "dim", "sequence_dim="}, std::move(call));
  return sequence_parallel(given.tensor("input"), axis_of(in, given),
                           given.integer_or("sequence_dim", 1));
}

Value run_prepare_input(Interpreter& in, const Value*, CallValues call) {
  const Parameters given("prepare_input", {"input", "dim", "layout", "given="}, std::move(call));
  return prepare_input(given.tensor("input"), axis_of(in, given),
                       placement_of(given, "given").value_or(Placement::replicate()),
                       placement_of(given, "layout").value());
}

Value run_prepare_output(Interpreter& in, const Value*, CallValues call) {
  const Parameters given("prepare_output", {"output", "dim", "layout"}, std::move(call));
  return prepare_output(given.tensor("output"), axis_of(in, given),
                        placement_of(given, "layout").value());
}

/// shard(parameters, pattern, placements): a dict of tensors by name.
Value run_shard_named(Interpreter& in, const Value*, CallValues call) {
  const Parameters given("shard", {"parameters", "pattern", "placements"}, std::move(call));
  const auto* dict = given["parameters"].get<DictValue>();
  if (dict == nullptr) given.refuse("parameters", "a dict of tensors by name");
  std::vector<std::pair<std::string, DTensor>> named;
  for (const auto& [key, value] : *dict->entries) {
    if (!key.is<std::string>() || !value.is_tensor()) {
      given.refuse("parameters", "a dict of tensors by name");
    }
    named.emplace_back(key.as<std::string>(), value.as<DTensor>());
  }
  current_rank().meshes->construct(in.setup().layout);
  named = shard_parameters(std::move(named), given.text("pattern"), in.setup().layout,
                           given.text("placements"));
  const DictValue result = make_dict();
  for (auto& [name, tensor] : named) result.entries->emplace_back(Value(name), Value(tensor));
  return result;
}

}  // namespace

BuiltinTable parallel_builtins() {
  static const Builtin kTable[] = {
      {"column_parallel", run_linear<column_parallel>},
      {"prepare_input", run_prepare_input},
      {"prepare_output", run_prepare_output},
      {"row_parallel", run_linear<row_parallel>},
      {"sequence_parallel", run_sequence},
      {"shard", run_shard_named},
  };
  return kTable;
}

}  // namespace shardlab
