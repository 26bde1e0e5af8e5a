// Meshes are small, so that small dims leave ranks empty and ten thousand runs take seconds.
#include "tests/facts/chain_draw.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/schedule/draws.h"

namespace shardlab {

namespace {

constexpr const char* kMeshDims[] = {"dp", "tp", "pp"};
constexpr std::int64_t kMostRanks = 24;

// FNV-1a: the same on every machine.
std::uint64_t stable_hash(std::string_view text) {
  std::uint64_t hash = 0xCBF29CE484222325ull;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3ull;
  return hash;
}

ChainCuts replicated(const ChainInput& input) {
  return {std::vector<std::vector<std::size_t>>(input.value.shape.size())};
}

std::vector<std::int64_t> draw_mesh(Draws& draws) {
  std::vector<std::int64_t> mesh;
  const std::uint32_t dims = 1 + draws.below(3);
  std::int64_t ranks = 1;
  while (mesh.size() < dims) {
    const std::int64_t size = 1 + draws.below(8);
    if (ranks * size > kMostRanks) continue;
    mesh.push_back(size);
    ranks *= size;
  }
  return mesh;
}

ChainCuts draw_cuts(const ChainInput& input, std::size_t mesh_dims, Draws& draws) {
  ChainCuts cuts = replicated(input);
  const auto ndim = static_cast<std::uint32_t>(cuts.by_dim.size());
  if (ndim == 0) return cuts;
  for (std::size_t mesh_dim = 0; mesh_dim < mesh_dims; ++mesh_dim) {
    if (draws.below(3) == 0) continue;
    std::vector<std::size_t>& order = cuts.by_dim[draws.below(ndim)];
    const auto place = order.begin() + draws.below(static_cast<std::uint32_t>(order.size()) + 1);
    order.insert(place, mesh_dim);
  }
  return cuts;
}

std::string type_text(const ChainInput& input, const ChainCuts& cuts) {
  std::string dims;
  for (std::size_t dim = 0; dim < cuts.by_dim.size(); ++dim) {
    dims += fmt::format("{}{}", dim == 0 ? "" : ", ", input.value.shape[dim]);
    const std::vector<std::size_t>& order = cuts.by_dim[dim];
    if (order.empty()) continue;
    std::string names;
    for (const std::size_t mesh_dim : order) {
      names += fmt::format("{}{}", names.empty() ? "" : ",", kMeshDims[mesh_dim]);
    }
    dims += order.size() == 1 ? "@" + names : "@(" + names + ")";
  }
  return fmt::format("{}[{}]", to_string(input.value.dtype), dims);
}

std::string number_text(const ChainTensor& tensor, std::size_t index) {
  if (tensor.dtype == DType::kBool) return tensor.integers[index] != 0 ? "true" : "false";
  if (is_integral(tensor.dtype)) return fmt::format("{}", tensor.integers[index]);
  const double value = tensor.reals[index];
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  if (value == std::floor(value) && std::fabs(value) < 1e15) return fmt::format("{:.1f}", value);
  return tensor.dtype == DType::kF64 ? fmt::format("{}", value)
                                     : fmt::format("{}", static_cast<float>(value));
}

// Nested as the shape is.
std::string values_text(const ChainTensor& tensor, std::size_t dim, std::size_t& at) {
  if (dim == tensor.shape.size()) return number_text(tensor, at++);
  std::string items;
  for (std::int64_t i = 0; i < tensor.shape[dim]; ++i) {
    items += (i == 0 ? "" : ", ") + values_text(tensor, dim + 1, at);
  }
  return "[" + items + "]";
}

}  // namespace

std::string ChainDraw::mesh_text() const {
  std::string text;
  for (std::size_t dim = 0; dim < mesh.size(); ++dim) {
    text += fmt::format("{}{}={}", dim == 0 ? "" : ",", kMeshDims[dim], mesh[dim]);
  }
  return text;
}

ChainDraw one_rank(const ChainFact& fact) {
  ChainDraw draw{{1}, {}};
  for (const ChainInput& input : fact.inputs) draw.inputs.push_back(replicated(input));
  return draw;
}

ChainDraw draw_placements(const ChainFact& fact, std::uint64_t seed, std::int64_t number) {
  Draws draws(stable_hash(fmt::format("{} {} {}", seed, number, fact.id)));
  ChainDraw draw{draw_mesh(draws), {}};
  for (const ChainInput& input : fact.inputs) {
    draw.inputs.push_back(draw_cuts(input, draw.mesh.size(), draws));
  }
  return draw;
}

ChainScenario chain_scenario(const ChainFact& fact, const ChainDraw& draw) {
  ChainScenario scenario;
  std::string& text = scenario.text;
  text = fmt::format("title = \"{}\"\n[mesh]\n", fact.id);
  for (std::size_t dim = 0; dim < draw.mesh.size(); ++dim) {
    text += fmt::format("{} = {}\n", kMeshDims[dim], draw.mesh[dim]);
  }
  text += "[inputs]\n";
  for (std::size_t i = 0; i < fact.inputs.size(); ++i) {
    const ChainInput& input = fact.inputs[i];
    std::size_t at = 0;
    text += fmt::format("{} = {{ type = \"{}\", values = {}{} }}\n", input.name,
                        type_text(input, draw.inputs[i]), values_text(input.value, 0, at),
                        input.requires_grad ? ", requires_grad = true" : "");
  }
  text += "[program]\ncode = '''\n";
  scenario.first_line = 1 + static_cast<std::int32_t>(std::ranges::count(text, '\n'));
  text += fact.program + "\n";
  for (const ChainExpected& value : fact.values) {
    scenario.checks.push_back(fmt::format("check_{}", scenario.checks.size()));
    text += fmt::format("{} = {}.detach().clone()\n", scenario.checks.back(), value.name);
  }
  text += "'''\n";
  return scenario;
}

}  // namespace shardlab
