// A file's recipes and types; api/inputs.h makes the values, as in any program.
#include "sim/run/inputs.h"

#include "api/inputs.h"
#include "autograd/autograd.h"
#include "dispatch/plain_calls.h"
#include "sim/scenario/type_text.h"

namespace shardlab {

DTensor make_input(const Scenario& scenario, const ScenarioInput& input, const MeshLayout* layout,
                   Precision precision) {
  const DTensorSpec* spec = spec_of(input.type, layout);
  const DTensor piece = make_input(scenario.seed, input.name, input.recipe, spec);
  const DType dtype = reference_dtype(spec->dtype());
  if (precision == Precision::kDeclared || dtype == spec->dtype()) return piece;
  const DTensor local = plain_calls().one("aten::_to_copy", {DTensor(piece.local()), dtype});
  TensorMeta meta = spec->meta();
  meta.dtype = dtype;
  return DTensor(local.local(), spec->with(meta));
}

DTensor make_plain_input(const Scenario& scenario, const ScenarioInput& input,
                         const MeshLayout* layout, Precision precision) {
  const DTensorSpec* spec = spec_of(input.type, layout);
  const DTensorSpec* whole = spec->with(Placements(layout->ndim()));
  const DTensor value = make_input(scenario.seed, input.name, input.recipe, whole);
  const DType dtype = reference_dtype(spec->dtype());
  if (precision == Precision::kDeclared || dtype == spec->dtype()) return DTensor(value.local());
  return plain_calls().one("aten::_to_copy", {DTensor(value.local()), dtype});
}

}  // namespace shardlab
