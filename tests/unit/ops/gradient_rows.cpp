// One backward for each row and placement; a row that fails is named, and the others still run.
#include "tests/unit/ops/gradient_rows.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

namespace shardlab::test {

namespace {

// The mesh of the running test; its layout is one for all ranks.
OpMesh* mesh = nullptr;

std::vector<double> weights(std::int64_t count) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < count; ++i) {
    values.push_back(static_cast<double>(i % 2 == 0 ? i + 1 : -(i + 1)));
  }
  return values;
}

bool near(const std::vector<double>& got, const std::vector<double>& expected) {
  if (got.size() != expected.size()) return false;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const bool same = got[i] == expected[i] || (std::isnan(got[i]) && std::isnan(expected[i]));
    const double bound = 1e-9 * (1 + std::fabs(expected[i]));
    if (same || (std::isfinite(bound) && std::fabs(got[i] - expected[i]) <= bound)) continue;
    return false;
  }
  return true;
}

// The differences, or nothing.
std::string misses(const GradientRow& row, bool cut) {
  Leaves leaves;
  for (const Leaf& leaf : row.leaves) {
    leaves.push_back(mesh->place(cut ? leaf.placement : "R", leaf.shape, leaf.values, DType::kF64));
    require_grad(leaves.back());
  }
  const DTensor result = row.result(leaves);
  const DTensor weight = mesh->place("R", result.shape(), weights(result.numel()), DType::kF64);
  backward(sum(times(result, weight)));
  std::string text;
  if (!row.values.empty() && !near(whole(result), row.values)) {
    text += fmt::format("{}: [{}], not [{}]\n", row.name, fmt::join(whole(result), ", "),
                        fmt::join(row.values, ", "));
  }
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const DTensor gradient = grad_of(leaves[i]);
    const bool alike = gradient.defined() && gradient.shape() == leaves[i].shape();
    const std::vector<double> got = alike ? whole(gradient) : std::vector<double>();
    if (alike && near(got, row.gradients[i])) continue;
    text += fmt::format("{}, gradient {}: [{}], not [{}]\n", row.name, i, fmt::join(got, ", "),
                        fmt::join(row.gradients[i], ", "));
  }
  return text;
}

}  // namespace

void check_gradients(std::span<const GradientRow> rows) {
  OpMesh ranks({4});
  mesh = &ranks;
  for (const GradientRow& row : rows) {
    for (const bool cut : {false, true}) {
      std::string text;
      ranks.run([&](RankContext& rank) {
        std::string here = misses(row, cut);
        if (rank.rank == 0) text = std::move(here);
      });
      INFO(row.name, cut ? " of shards" : " of replicas");
      CHECK_MESSAGE(text.empty(), text);
    }
  }
}

DTensor piece(std::string_view op, Arguments args, std::size_t which) {
  const Results results = ops()(op, std::move(args));
  return results[0].is_list() ? results[0].list()[which].tensor() : results[which].tensor();
}

DTensor replica(Dims shape, const std::vector<double>& values, DType dtype) {
  return mesh->place("R", std::move(shape), values, dtype);
}

}  // namespace shardlab::test
