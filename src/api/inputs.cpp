// Each input draws from a generator of its own, keyed by the seed and a stable hash of the input's
// name, and fills pieces by global index. Adding an input, or placing one differently,
// changes no value of another.
#include "api/inputs.h"

#include <array>

#include "api/distribute.h"
#include "autograd/autograd.h"
#include "base/fix.h"
#include "base/hash.h"
#include "base/rank_context.h"
#include "dispatch/factory.h"
#include "dispatch/plain_calls.h"
#include "mesh/type_string.h"
#include "schema/op_row.h"
#include "trace/digest.h"

namespace shardlab {

namespace {

// FNV-1a: the same on every machine, unlike std::hash.
std::uint64_t stable_hash(std::string_view text) {
  std::uint64_t hash = 0xCBF29CE484222325ull;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3ull;
  return hash;
}

// A factory row, what its sizes are called, and what the arguments of the recipe are called there.
enum class Sizes : std::uint8_t { kShape, kCount, kRowsAndColumns };
struct FactoryOf {
  std::string_view init;
  const char* op;
  Sizes sizes = Sizes::kShape;
  std::array<const char*, 2> arguments = {};
};
constexpr FactoryOf kFactories[] = {
    {"randn", "aten::randn"},
    {"rand", "aten::rand"},
    {"randint", "aten::randint.low", Sizes::kShape, {"low", "high"}},
    {"zeros", "aten::zeros"},
    {"ones", "aten::ones"},
    {"full", "aten::full", Sizes::kShape, {"fill_value"}},
    {"arange", "aten::arange", Sizes::kCount},
    {"eye", "aten::eye.m", Sizes::kRowsAndColumns},
};

using Named = std::vector<std::pair<std::string, Argument>>;

// By name, so that overloads may have them in another order.
Named sizes_of(Sizes sizes, const Dims& shape) {
  switch (sizes) {
    case Sizes::kCount:
      return {{"end", product(shape)}};
    case Sizes::kRowsAndColumns:
      return {{"n", shape[0]}, {"m", shape[shape.size() == 2 ? 1 : 0]}};
    default:
      return {{"size", shape}};
  }
}

DTensor drawn(std::uint64_t seed, std::string_view name, const InputRecipe& recipe,
              const DTensorSpec* spec) {
  const bool listed = recipe.init == "values" || recipe.init == "file";
  if (listed) return distribute(tensor_from(recipe.values, spec->shape(), spec->dtype()), spec);
  const auto* const factory = std::ranges::find(kFactories, recipe.init, &FactoryOf::init);
  if (factory == std::end(kFactories)) {
    fail(ErrorKind::kValue, Fix{"randn, rand, randint, zeros, ones, full, arange, eye or values"},
         "'{}' is not a way to make the input '{}'", recipe.init, name);
  }
  Named named = sizes_of(factory->sizes, spec->shape());
  named.emplace_back("dtype", spec->dtype());
  for (std::size_t i = 0; i < factory->arguments.size() && factory->arguments[i]; ++i) {
    if (i >= recipe.arguments.size()) {
      fail(ErrorKind::kValue, Fix{"give one number for each"}, "the input '{}': {} needs its {}",
           name, recipe.init, factory->arguments[i]);
    }
    named.emplace_back(factory->arguments[i], recipe.arguments[i]);
  }
  const OpRow& row = plain_calls().find(factory->op);
  RandomState state{hash_mix(seed, stable_hash(name)), 0};
  return dispatch_factory(row, bind_arguments(row, {}, std::move(named)), spec, &state);
}

// randn(2) is scaled by what stands in the parentheses, too.
DTensor scaled(const DTensor& piece, const InputRecipe& recipe) {
  double factor = recipe.scale;
  if (recipe.init == "randn" && !recipe.arguments.empty()) {
    factor *= recipe.arguments[0].to_double();
  }
  if (factor == 1) return piece;
  const DTensor local = plain_calls().one("aten::mul.Scalar", {DTensor(piece.local()), factor});
  return DTensor(local.local(), piece.spec());
}

}  // namespace

DTensor make_input(std::uint64_t seed, std::string_view name, const InputRecipe& recipe,
                   const DTensorSpec* spec) {
  const DTensorSpec* whole_terms = spec->with(without_partials(spec->placements()), spec->order());
  const DTensor pieces = scaled(drawn(seed, name, recipe, whole_terms), recipe);
  return spec->has_partial() ? deal_partials(pieces, spec) : pieces;
}

DTensor make_input(std::string_view name, std::string_view type, const MeshLayout* mesh,
                   const InputRecipe& recipe) {
  const ParsedType parsed = parse_type(type, *mesh);
  const TensorMeta meta = contiguous_meta(parsed.shape, parsed.dtype.value_or(DType::kF32));
  const DTensorSpec* spec = mesh->arena().spec(mesh, parsed.placements, parsed.order, meta);
  return make_input(current_rank().random.seed, name, recipe, spec);
}

}  // namespace shardlab
