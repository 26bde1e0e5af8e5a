// placed_at_random.h - runs a model whose parameters and inputs are placed at random on a mesh, and
// whose intermediate values are moved at random, and compares loss and gradients with numbers that
// were worked out by plain loops. For tests of whole programs.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "mesh/operand.h"
#include "tests/unit/models/plain_loops.h"

namespace shardlab::test {

/// Draws placements; equal seeds draw equal ones, so every rank has its own and all agree.
class Places {
 public:
  /// `layout` null: a single-device run, where nothing is placed.
  Places(const MeshLayout* layout, std::uint64_t seed) : layout_(layout), random_(seed) {}

  /// The whole value on the mesh, cut along some of its dims or replicated.
  DTensor place(const DTensor& whole);
  DTensor place(const Plain& whole, DType dtype = DType::kF64);
  /// A value in the middle of a program: not moved, or moved to other placements, among them a
  /// pending sum.
  DTensor moved(const DTensor& value);

 private:
  std::size_t below(std::size_t count) { return static_cast<std::size_t>(random_() % count); }
  Placement drawn(std::size_t dims, bool pending);

  const MeshLayout* layout_;
  std::mt19937_64 random_;
};

/// Values of a model by name.
using Leaves = std::map<std::string, Plain>;
using Placed = std::map<std::string, DTensor>;

/// The results that a model must give: its loss, and the gradients of the leaves that have one.
struct Worked {
  double loss = 0;
  Leaves gradients;
};

/// `leaves` are placed at random on each of several meshes (one device, even, uneven and short
/// shards, two mesh dims), `integers` too; floats are f64. `program` gives the loss. Checks that it
/// and all gradients are those of `worked`, to within 1e-9 of the largest element; a placing may be
/// refused with a fix (a view of an uneven cut), at most one of three.
struct Model {
  Leaves leaves;
  Leaves integers = {};
  Worked worked;
  std::function<DTensor(const Placed& values, Places& places)> program;
};
void check_model(const Model& model);

}  // namespace shardlab::test
