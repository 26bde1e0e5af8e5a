// Recorded calls as OpSchemas, and decisions in the form of the recordings.
#include "tests/facts/propagate_facts.h"

#include <algorithm>
#include <cmath>
#include <complex>

#include "base/error.h"
#include "dispatch/all_ops.h"
#include "schema/op_registry.h"
#include "schema/op_row.h"
#include "schema/torch_spelling.h"
#include "sim/files/json.h"
#include "tests/facts/fact_json.h"
#include "tests/facts/layout_facts.h"

namespace shardlab {
namespace {

Argument numbered_dtype(const Argument& number) {
  constexpr DType kByNumber[] = {DType::kU8,  DType::kI8,  DType::kI16, DType::kI32,
                                 DType::kI64, DType::kF16, DType::kF32, DType::kF64};
  return kByNumber[static_cast<std::size_t>(number.to_int())];
}

}  // namespace

Arguments with_numbered_dtypes(const OpRow& row, Arguments positional) {
  for (std::size_t i = 0; i < std::min(positional.size(), row.op.arguments.size()); ++i) {
    const bool dtype = row.op.arguments[i].type.kind == TypeKind::kDType;
    if (dtype && positional[i].is_scalar()) positional[i] = numbered_dtype(positional[i]);
  }
  return positional;
}

OpSchema fact_call(const OpRow& row, const MeshLayout* layout, const Json& fact) {
  Arguments positional;
  for (const Json& value : fact.at("args")) positional.push_back(fact_argument(layout, value));
  positional = with_numbered_dtypes(row, std::move(positional));
  std::vector<std::pair<std::string, Argument>> keywords;
  for (const auto& [name, value] : fact.at("kwargs").items()) {
    keywords.emplace_back(name, fact_argument(layout, value));
  }
  return {&row, bind_arguments(row, std::move(positional), std::move(keywords)), layout};
}

const MeshLayout* fact_layout(Arena& arena, const Json& fact) {
  return mesh_of(arena, fact.at("mesh"));
}

Json output_json(const DTensorSpec* spec) {
  if (spec == nullptr) return nullptr;
  Json json = {{"shape", json_of(spec->shape())},
               {"dtype", to_string(spec->dtype())},
               {"placements", texts_of(spec->placements())}};
  if (!is_contiguous(spec->shape(), spec->stride())) json["stride"] = json_of(spec->stride());
  return json;
}

Json expected_output(const Json& recorded) {
  if (recorded.is_null()) return nullptr;
  Json json = recorded;
  json["dtype"] = to_string(dtype_of(recorded.at("dtype")));
  if (json.contains("stride") && is_contiguous(dims_of(json["shape"]), dims_of(json["stride"]))) {
    json.erase("stride");
  }
  return json;
}

bool same_costs(const Json& recorded, const std::vector<double>& ours) {
  if (recorded.size() != ours.size()) return false;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const double expected = number_of(recorded[i]);
    if (expected == ours[i]) continue;
    if (!(std::abs(expected - ours[i]) <= 1e-6 * std::abs(expected))) return false;
  }
  return true;
}

Json costs_json(const std::vector<double>& costs) {
  Json json = Json::array();
  for (const double cost : costs) json.push_back(json_number(cost));
  return json;
}

bool moves_what_is_written(const Json& fact, const Json& inputs) {
  const OpRow& row = all_ops().at(fact.at("op").get<std::string>());
  const Json& args = fact.at("args");
  std::size_t operand = 0;
  for (std::size_t i = 0; i < std::min(args.size(), row.op.arguments.size()); ++i) {
    if (!args[i].is_object()) continue;
    if (args[i].contains("tl")) {
      operand += static_cast<std::size_t>(
          std::ranges::count_if(args[i].at("tl"), [](const Json& one) { return !one.is_null(); }));
    }
    if (!args[i].contains("t")) continue;
    const Json& moved_to = inputs.at(operand++);
    if (row.op.arguments[i].alias.write && args[i].at("t").at("placements") != moved_to)
      return true;
  }
  return false;
}

bool moves_what_is_written(const Json& fact) {
  const Json& inputs = fact.at("expect").at("inputs");
  return !inputs.is_null() && moves_what_is_written(fact, inputs);
}

std::string recorded_name(const OpRow& row) {
  return fmt::format("{}.{}.{}", row.op.base.substr(0, row.op.base.find("::")), bare_name(row.op),
                     row.op.overload.empty() ? "default" : row.op.overload);
}

}  // namespace shardlab
