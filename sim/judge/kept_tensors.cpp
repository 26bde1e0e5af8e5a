// Kept elements are doubles or integers, which hold all of a value's own dtype.
#include "sim/judge/kept_tensors.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "sim/scenario/checkpoint_input.h"

namespace shardlab {

namespace {

std::string elements_of(const GlobalValue& value) {
  const DType dtype = value.meta.dtype;
  const auto text = [](const auto& list) {
    return std::string(reinterpret_cast<const char*>(list.data()), list.size() * sizeof list[0]);
  };
  if (value.is_integral()) return converted(text(value.integers), DType::kI64, dtype);
  return converted(text(value.reals), is_complex(dtype) ? DType::kC128 : DType::kF64, dtype);
}

// The difference; empty if there is none.
std::string difference(const MadeTensor& value, const std::string& expected,
                       const MadeTensor& tensor, double tolerance) {
  if (value.type != tensor.type || value.shape != tensor.shape)
    return fmt::format("{} is {} in the program", tensor.text(), value.type_text());
  const std::string found = value.elements();
  if (found == expected) return "";
  if (!value.type->dtype || !is_floating(*value.type->dtype))
    return fmt::format("{} has other elements", tensor.text());
  std::size_t wrong = 0;
  const std::string x = converted(found, *value.type->dtype, DType::kF64),
                    y = converted(expected, *value.type->dtype, DType::kF64);
  for (std::size_t at = 0; at < x.size(); at += sizeof(double)) {
    double a = 0, b = 0;
    std::memcpy(&a, x.data() + at, sizeof a);
    std::memcpy(&b, y.data() + at, sizeof b);
    wrong +=
        !(a == b || (std::isnan(a) && std::isnan(b)) || std::abs(a - b) <= tolerance * std::abs(b));
  }
  return wrong == 0 ? "" : fmt::format("{} has other elements, {} of them", tensor.text(), wrong);
}

}  // namespace

KeptTensors kept_tensors(const std::vector<ValueReport>& values, const MeshLayout* mesh) {
  KeptTensors kept;
  for (auto value = values.rbegin(); value != values.rend(); ++value) {
    const bool whole =
        value->kept.size() == 1 && value->kept[0].count == product(value->kept[0].first.meta.shape);
    if (!whole || find(kept.tensors, value->name) != nullptr) continue;
    const GlobalValue& elements = value->kept[0].first;
    const DTensorSpec* spec = value->spec;
    if (spec == nullptr || spec->layout() != mesh || spec->shape() != elements.meta.shape)
      spec = mesh->arena().spec(mesh, Placements(mesh->ndim()), elements.meta);
    if (spec->has_partial()) spec = spec->with(without_partials(spec->placements()));
    kept.tensors.push_back({value->name, &stored_type(elements.meta.dtype), elements.meta.shape,
                            [elements] { return elements_of(elements); }});
    kept.specs.push_back(spec);
  }
  return kept;
}

ExpectationReport check_checkpoint(const Scenario& scenario, const KeptTensors& kept) {
  const ExpectedGraph& expected = *scenario.expect.checkpoint;
  ExpectationReport report{.what = "checkpoint", .where = expected.where};
  try {
    const Checkpoint checkpoint =
        Checkpoint::open(path_in_folder_of(scenario.file->file(), expected.file));
    for (const MadeTensor& tensor : tensors_of(checkpoint)) {
      const MadeTensor* value = find(kept.tensors, tensor.name);
      const auto& tolerances = scenario.expect.tolerance;
      const auto tolerance = std::ranges::find_if(tolerances, [&](const auto& one) {
        return tensor.type != nullptr && one.first == tensor.type->dtype;
      });
      report.text = value == nullptr
                        ? fmt::format("the program has no value '{}'", tensor.name)
                        : difference(*value, tensor.elements(), tensor,
                                     tolerance == tolerances.end() ? 0 : tolerance->second);
      if (!report.text.empty()) break;
    }
    report.met = report.text.empty();
    if (report.met)
      report.text = fmt::format("{} tensors of {}", checkpoint.tensors().size(), expected.file);
  } catch (const Error& error) {
    report.text = error.summary();
  }
  return report;
}

}  // namespace shardlab
