// Each input draws from a generator of its own, keyed by the scenario's seed and a stable hash of
// the input's name, and fills pieces by global index. Adding an input, or placing one
// differently, changes no value of another.
#include "sim/run/inputs.h"

#include "api/distribute.h"
#include "autograd/autograd.h"
#include "base/fix.h"
#include "base/hash.h"
#include "base/rank_context.h"
#include "comm/device_mesh.h"
#include "dispatch/factory.h"
#include "mesh/type_string.h"
#include "sim/language/tensor_data.h"

namespace shardlab {

namespace {

// FNV-1a: the same on every machine, unlike std::hash.
std::uint64_t stable_hash(std::string_view text) {
  std::uint64_t hash = 0xCBF29CE484222325ull;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3ull;
  return hash;
}

Argument argument_of(const Number& number) {
  return std::visit([](auto value) { return Argument(value); }, number);
}

// A factory row and its arguments; `size` is filled in by name, so overloads may differ in order.
struct Recipe {
  const char* op;
  std::vector<std::pair<std::string, Argument>> arguments;
};

Recipe recipe_of(const ScenarioInput& input, const Dims& shape, DType dtype) {
  std::vector<std::pair<std::string, Argument>> named = {{"size", shape}, {"dtype", dtype}};
  switch (input.init) {
    case InputInit::kZeros:
      return {"aten::zeros", named};
    case InputInit::kOnes:
      return {"aten::ones", named};
    case InputInit::kRand:
      return {"aten::rand", named};
    case InputInit::kFull:
      named.emplace_back("fill_value", argument_of(input.arguments.at(0)));
      return {"aten::full", named};
    case InputInit::kRandint:
      named.emplace_back("low", argument_of(input.arguments.at(0)));
      named.emplace_back("high", argument_of(input.arguments.at(1)));
      return {"aten::randint.low", named};
    case InputInit::kArange:
      return {"aten::arange", {{"end", product(shape)}, {"dtype", dtype}}};
    case InputInit::kEye: {
      const std::int64_t columns = shape.size() == 2 ? shape[1] : shape[0];
      return {"aten::eye.m", {{"n", shape[0]}, {"m", columns}, {"dtype", dtype}}};
    }
    default:
      return {"aten::randn", named};
  }
}

DTensor scaled(const DTensor& piece, double factor) {
  if (factor == 1) return piece;
  const DTensor local = plain_calls().one("aten::mul.Scalar", {DTensor(piece.local()), factor});
  return DTensor(local.local(), piece.spec());
}

double scale_of(const ScenarioInput& input) {
  double scale = input.scale;
  if (input.init == InputInit::kRandn && !input.arguments.empty()) {
    scale *= std::visit([](auto value) { return static_cast<double>(value); }, input.arguments[0]);
  }
  return scale;
}

DTensor draw(const Scenario& scenario, const ScenarioInput& input, const DTensorSpec* spec) {
  if (input.init == InputInit::kValues) {
    const Tensor whole =
        tensor_of(*current_rank().device, spec->shape(), spec->dtype(), input.values);
    return distribute(whole, spec);
  }
  const Recipe recipe = recipe_of(input, spec->shape(), spec->dtype());
  const OpRow& row = plain_calls().find(recipe.op);
  RandomState state{hash_mix(scenario.seed, stable_hash(input.name)), 0};
  return dispatch_factory(row, bind_arguments(row, {}, recipe.arguments), spec, &state);
}

}  // namespace

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
  const DTensorSpec* whole_terms = spec->with(without_partials(spec->placements()), spec->order());
  DTensor piece = draw(scenario, input, whole_terms);
  piece = scaled(piece, scale_of(input));
  if (spec->has_partial()) piece = deal_partials(piece, spec);
  const DType dtype = reference_dtype(spec->dtype());
  if (precision == Precision::kReference && dtype != spec->dtype()) {
    const DTensor local = plain_calls().one("aten::_to_copy", {DTensor(piece.local()), dtype});
    TensorMeta meta = spec->meta();
    meta.dtype = dtype;
    piece = DTensor(local.local(), spec->with(meta));
  }
  return piece;
}

DTensor make_plain_input(const Scenario& scenario, const ScenarioInput& input,
                         const MeshLayout* layout, Precision precision) {
  const DTensorSpec* spec = spec_of(input.type, layout, DType::kF32);
  const DTensorSpec* whole = spec->with(Placements(layout->ndim()));
  const DTensor value = scaled(draw(scenario, input, whole), scale_of(input));
  const DType dtype = reference_dtype(spec->dtype());
  if (precision == Precision::kDeclared || dtype == spec->dtype()) return DTensor(value.local());
  return plain_calls().one("aten::_to_copy", {DTensor(value.local()), dtype});
}

}  // namespace shardlab
