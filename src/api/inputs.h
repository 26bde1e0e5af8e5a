// inputs.h - tensors whose elements follow from a seed, their name and their place in the whole
// value alone, as those in [inputs] of scenarios and of graphs: placed otherwise, or on another
// mesh, they are the same numbers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "mesh/dtensor.h"
#include "trace/graph.h"

namespace shardlab {

/// A function that makes the elements of an input. In addition to these, "values" and "file" list
/// them.
struct InputInit {
  enum class Sizes : std::uint8_t { kShape, kCount, kRowsAndColumns };

  std::string_view name;                  ///< "randint"
  std::size_t fewest, most;               ///< numbers that it is given
  const char* op;                         ///< the factory: "aten::randint.low"
  std::array<const char*, 2> names = {};  ///< its names for the numbers
  Sizes sizes = Sizes::kShape;            ///< the form in which it takes the shape
};
/// All of them.
std::span<const InputInit> input_inits();
/// Null for another name.
const InputInit* find_input_init(std::string_view name);
/// Whether the recipe lists the elements.
bool lists_values(const InputRecipe& recipe);

/// This rank's piece of a value with this spec; of a pending reduction its term, dealt out as
/// distribute() does. Drawn from a generator of its own.
///   fails  Value: an unknown recipe, or one that does not give all elements
DTensor make_input(std::uint64_t seed, std::string_view name, const InputRecipe& recipe,
                   const DTensorSpec* spec);
/// The same of a whole value that there is already; only the recipe's scale counts.
DTensor make_input(const Tensor& whole, const InputRecipe& recipe, const DTensorSpec* spec);
/// The same for a type, "f32[8@dp, 16]", and the seed of the rank's own generator. Without a recipe
/// the numbers are those of randn.
DTensor make_input(std::string_view name, std::string_view type, const MeshLayout* mesh,
                   const InputRecipe& recipe = {"randn", {}, 1, {}});

}  // namespace shardlab
