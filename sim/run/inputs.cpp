// What a file says becomes a recipe and a spec; api/inputs.h makes the value, as in any program.
#include "sim/run/inputs.h"

#include <algorithm>

#include "api/inputs.h"
#include "autograd/autograd.h"
#include "base/fix.h"
#include "dispatch/plain_calls.h"
#include "mesh/type_string.h"
#include "sim/scenario/input_init.h"

namespace shardlab {

namespace {

std::string_view name_of(InputInit init) {
  const std::span<const InitRow> rows = init_rows();
  const auto row = std::ranges::find(rows, init, &InitRow::init);
  if (row != rows.end()) return row->name;
  return init == InputInit::kFile ? "file" : "values";
}

Scalar scalar_of(const Number& number) {
  return std::visit([](auto value) { return Scalar(value); }, number);
}

}  // namespace

InputRecipe recipe_of(const ScenarioInput& input) {
  InputRecipe recipe;
  recipe.init = name_of(input.init);
  recipe.scale = input.scale;
  for (const Number& argument : input.arguments) recipe.arguments.push_back(scalar_of(argument));
  for (const Number& value : input.values) recipe.values.push_back(scalar_of(value));
  return recipe;
}

const DTensorSpec* spec_of(const TypeText& type, const MeshLayout* layout, DType fallback) {
  std::size_t next = 0;
  const SizeEvaluator sizes = [&](std::string_view, TextSpan) { return type.sizes[next++]; };
  try {
    const ParsedType parsed = parse_type(type.text->text(), *layout, sizes);
    const Dims shape(type.sizes.begin(), type.sizes.end());
    const TensorMeta meta = contiguous_meta(shape, parsed.dtype.value_or(fallback));
    return layout->arena().spec(layout, parsed.placements, parsed.order, meta);
  } catch (const TypeStringError& error) {
    const auto begin = static_cast<std::uint32_t>(error.span().offset);
    refuse(*type.text, {begin, begin + static_cast<std::uint32_t>(error.span().size)},
           error.summary(), fix_of(error));
  } catch (const Error& error) {
    refuse(*type.text, {0, static_cast<std::uint32_t>(type.text->text().size())}, error.summary(),
           fix_of(error));
  }
}

DTensor make_input(const Scenario& scenario, const ScenarioInput& input, const MeshLayout* layout,
                   Precision precision) {
  const DTensorSpec* spec = spec_of(input.type, layout, DType::kF32);
  const DTensor piece = make_input(scenario.seed, input.name, recipe_of(input), spec);
  const DType dtype = reference_dtype(spec->dtype());
  if (precision == Precision::kDeclared || dtype == spec->dtype()) return piece;
  const DTensor local = plain_calls().one("aten::_to_copy", {DTensor(piece.local()), dtype});
  TensorMeta meta = spec->meta();
  meta.dtype = dtype;
  return DTensor(local.local(), spec->with(meta));
}

DTensor make_plain_input(const Scenario& scenario, const ScenarioInput& input,
                         const MeshLayout* layout, Precision precision) {
  const DTensorSpec* spec = spec_of(input.type, layout, DType::kF32);
  const DTensorSpec* whole = spec->with(Placements(layout->ndim()));
  const DTensor value = make_input(scenario.seed, input.name, recipe_of(input), whole);
  const DType dtype = reference_dtype(spec->dtype());
  if (precision == Precision::kDeclared || dtype == spec->dtype()) return DTensor(value.local());
  return plain_calls().one("aten::_to_copy", {DTensor(value.local()), dtype});
}

}  // namespace shardlab
