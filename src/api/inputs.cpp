// Each input draws from a generator of its own, keyed by the seed and a stable hash of the input's
// name, and fills pieces by global index. Adding an input, or placing one differently,
// changes no value of another.
#include "api/inputs.h"

#include <algorithm>

#include "api/distribute.h"
#include "autograd/autograd.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/rank_context.h"
#include "dispatch/factory.h"
#include "dispatch/plain_calls.h"
#include "mesh/type_string.h"
#include "schema/binder.h"
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

using Sizes = InputInit::Sizes;
constexpr InputInit kInits[] = {
    {"randn", 0, 1, "aten::randn"},
    {"rand", 0, 0, "aten::rand"},
    {"randint", 2, 2, "aten::randint.low", {"low", "high"}},
    {"zeros", 0, 0, "aten::zeros"},
    {"ones", 0, 0, "aten::ones"},
    {"full", 1, 1, "aten::full", {"fill_value"}},
    {"arange", 0, 0, "aten::arange", {}, Sizes::kCount},
    {"eye", 0, 0, "aten::eye.m", {}, Sizes::kRowsAndColumns},
};

using Named = std::vector<std::pair<std::string, Argument>>;

// Finds sizes by name, so that overloads may have them in another order.
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
  if (lists_values(recipe)) {
    return distribute(tensor_from(recipe.values, spec->shape(), spec->dtype()), spec);
  }
  const InputInit* init = find_input_init(recipe.init);
  if (init == nullptr) {
    fail(Fix{"randn, rand, randint, zeros, ones, full, arange, eye or values"},
         "'{}' is not a way to make the input '{}'", recipe.init, name);
  }
  Named named = sizes_of(init->sizes, spec->shape());
  named.emplace_back("dtype", spec->dtype());
  for (std::size_t i = 0; i < init->fewest; ++i) {
    if (i >= recipe.arguments.size()) {
      fail(Fix{"give one number for each"}, "the input '{}': {} needs its {}", name, recipe.init,
           init->names[i]);
    }
    named.emplace_back(init->names[i], recipe.arguments[i]);
  }
  const OpRow& row = plain_calls().find(init->op);
  RandomState state{hash_mix(seed, stable_hash(name)), 0};
  return dispatch_factory(row, bind_arguments(row, {}, std::move(named)), spec, &state);
}

// randn(2) is also scaled by the number in the parentheses.
DTensor scaled(const DTensor& piece, const InputRecipe& recipe) {
  double factor = recipe.scale;
  if (recipe.init == "randn" && !recipe.arguments.empty()) {
    factor *= recipe.arguments[0].to_double();
  }
  if (factor == 1) return piece;
  const DTensor local = plain_calls().one("aten::mul.Scalar", {DTensor(piece.local()), factor});
  return DTensor(local.local(), piece.spec());
}

const DTensorSpec* without_terms(const DTensorSpec* spec) {
  return spec->with(without_partials(spec->placements()), spec->order());
}

DTensor dealt(const DTensor& pieces, const DTensorSpec* spec) {
  return spec->has_partial() ? deal_partials(pieces, spec) : pieces;
}

}  // namespace

std::span<const InputInit> input_inits() { return kInits; }

const InputInit* find_input_init(std::string_view name) {
  const auto* const found = std::ranges::find(kInits, name, &InputInit::name);
  return found == std::end(kInits) ? nullptr : found;
}

bool lists_values(const InputRecipe& recipe) {
  return recipe.init == "values" || recipe.init == "file";
}

DTensor make_input(std::uint64_t seed, std::string_view name, const InputRecipe& recipe,
                   const DTensorSpec* spec) {
  return dealt(scaled(drawn(seed, name, recipe, without_terms(spec)), recipe), spec);
}

DTensor make_input(const Tensor& whole, const InputRecipe& recipe, const DTensorSpec* spec) {
  return dealt(scaled(distribute(whole, without_terms(spec)), recipe), spec);
}

DTensor make_input(std::string_view name, std::string_view type, const MeshLayout* mesh,
                   const InputRecipe& recipe) {
  const ParsedType parsed = parse_type(type, *mesh);
  const TensorMeta meta = contiguous_meta(parsed.shape, parsed.dtype.value_or(DType::kF32));
  const DTensorSpec* spec = mesh->arena().spec(mesh, parsed.placements, parsed.order, meta);
  return make_input(current_rank().random.seed, name, recipe, spec);
}

}  // namespace shardlab
