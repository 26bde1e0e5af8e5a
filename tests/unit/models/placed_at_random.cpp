// Meshes divide few of the sizes that models have, so that most pieces are uneven, and some ranks
// hold nothing.
#include "tests/unit/models/placed_at_random.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "sim/world/spmd.h"

namespace shardlab::test {

namespace {

constexpr int kRounds = 4;      // placings on each mesh
constexpr double kNear = 1e-9;  // of the largest element: f64 sums in another order

// "" where they are near.
std::string difference(const std::string& name, const Plain& got, const Plain& wanted) {
  if (got.shape != wanted.shape) return name + " has another shape";
  double largest = 1e-3;
  for (const double value : wanted.values) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < wanted.values.size(); ++i) {
    if (std::abs(got.values[i] - wanted.values[i]) <= kNear * largest) continue;
    return fmt::format("{} at {}: {} instead of {}", name, i, got.values[i], wanted.values[i]);
  }
  return "";
}

Plain read(const DTensor& value) {
  const DTensor whole = full_tensor(value);
  return {whole.shape(), read_doubles(whole.local())};
}

// The differences on this rank, with the placements that the leaves had.
std::string differences(const Model& model, const MeshLayout* layout, std::uint64_t seed) {
  Places places(layout, seed);
  Placed values;
  std::string placings;
  const auto place = [&](const Leaves& leaves, DType dtype) {
    for (const auto& [name, plain] : leaves) {
      const DTensor value = places.place(plain, dtype);
      if (dtype == DType::kF64) require_grad(value);
      if (layout != nullptr) placings += name + " " + type_string(*value.spec()) + "; ";
      values.emplace(name, value);
    }
  };
  place(model.leaves, DType::kF64);
  place(model.integers, DType::kI64);
  const DTensor loss = model.program(values, places);
  backward(loss);
  std::string found = difference("loss", read(loss), {{}, {model.worked.loss}});
  for (const auto& [name, wanted] : model.worked.gradients) {
    const DTensor gradient = grad_of(values.at(name));
    if (!found.empty()) break;
    found = gradient.defined() ? difference("gradient of " + name, read(gradient), wanted)
                               : name + " has no gradient";
  }
  return found.empty() ? "" : found + " where " + placings;
}

// The same of every rank.
std::vector<std::string> on_mesh(const Model& model, const Dims& mesh, std::uint64_t seed) {
  std::vector<std::string> found(static_cast<std::size_t>(product(mesh)));
  spmd(product(mesh), [&](RankContext& rank) {
    std::vector<MeshDim> dims;
    for (const std::int64_t size : mesh) dims.push_back({"d" + std::to_string(dims.size()), size});
    const MeshLayout* layout = mesh.empty() ? nullptr : init_mesh(dims);
    found[static_cast<std::size_t>(rank.rank)] = differences(model, layout, seed);
  });
  return found;
}

}  // namespace

Placement Places::drawn(std::size_t dims, bool pending) {
  const std::size_t choice = below(dims + (pending ? 2 : 1));
  if (choice < dims) return Shard(static_cast<std::int64_t>(choice));
  return choice == dims ? Replicate() : Partial();
}

DTensor Places::place(const DTensor& whole) {
  if (layout_ == nullptr) return whole;
  Placements placements;
  for (std::size_t dim = 0; dim < layout_->ndim(); ++dim) {
    placements.push_back(drawn(whole.shape().size(), false));
  }
  return distribute_tensor(whole, layout_, placements);
}

DTensor Places::place(const Plain& whole, DType dtype) {
  return place(tensor(whole.values, whole.shape, dtype));
}

DTensor Places::moved(const DTensor& value) {
  if (layout_ == nullptr) return value;
  const bool stays = below(2) == 0;
  Placements placements;
  for (std::size_t dim = 0; dim < layout_->ndim(); ++dim) {
    // No reduction that is pending turns into one of another kind.
    const Placement& from = value.spec()->placements()[dim];
    const bool sums = !from.is_partial() || from.is_partial(ReduceOp::kSum);
    placements.push_back(drawn(value.shape().size(), sums));
  }
  return stays ? value : redistribute(value, placements);
}

void check_model(const Model& model) {
  int tried = 0, refused = 0;
  for (const Dims& mesh : {Dims{}, Dims{2}, Dims{3}, Dims{5}, Dims{2, 2}, Dims{3, 2}}) {
    for (int round = 0; round < (mesh.empty() ? 1 : kRounds); ++round) {
      const auto seed = static_cast<std::uint64_t>(round) + 100 * mesh.size();
      CAPTURE(text_of_list(mesh, "x"));
      CAPTURE(round);
      ++tried;
      try {
        for (const std::string& difference : on_mesh(model, mesh, seed)) CHECK(difference == "");
      } catch (const Error& error) {
        ++refused;
        INFO(error.what());
        CHECK(error.find("fix") != nullptr);
        CHECK_FALSE(mesh.empty());  // one device refuses nothing
      }
    }
  }
  CHECK(refused * 3 <= tried);
}

}  // namespace shardlab::test
