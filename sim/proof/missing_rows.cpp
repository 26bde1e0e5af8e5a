// A row is believed where it holds on every mesh: sizes that one mesh divides another does not, so
// that what is right by chance on even pieces is not right on uneven ones.
#include "sim/proof/missing_rows.h"

#include <optional>

#include "base/rank_context.h"
#include "mesh/local_shape.h"

namespace shardlab {

namespace {

constexpr const char* kTo = " -> ";  // between the inputs of a row and its results

using Pieces = std::vector<DTensor>;  // by rank

// The results of the op on each rank's pieces; none where it takes them not.
std::optional<std::vector<std::vector<DTensor>>> on_pieces(const OpSample& sample,
                                                           const std::vector<Pieces>& inputs,
                                                           std::size_t ranks) {
  std::vector<std::vector<DTensor>> results;
  try {
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      std::vector<DTensor> own;
      for (const Pieces& pieces : inputs) own.push_back(pieces[rank]);
      current_rank().random = {kProofRandomSeed, 0};  // as where the call is placed
      results.push_back(call_sample(sample, own, {}, 0, nullptr).values);
    }
  } catch (const Error&) {
    return std::nullopt;
  }
  return results;
}

Fill fill_of(DType dtype) {
  if (dtype == DType::kBool) return Fill::kBool;
  return is_integral(dtype) ? Fill::kIndex : Fill::kReal;
}

// The placement under which these pieces are the whole, if there is one.
std::optional<Placement> placement_of(const Pieces& pieces, const MeshLayout* layout,
                                      const ExpectedValue& expected) {
  const TensorMeta& meta = expected.meta;
  for (const Placement& placement : choices_of({meta.shape, fill_of(meta.dtype)})) {
    const DTensorSpec* spec = layout->arena().spec(layout, {placement}, meta);
    Pieces placed;
    for (std::size_t rank = 0; rank < pieces.size(); ++rank) {
      const Tensor& local = pieces[rank].local();
      const Coordinate at{static_cast<std::int64_t>(rank)};
      if (local.dtype() != meta.dtype || local.shape() != local_shape(*spec, at)) break;
      placed.emplace_back(local, spec);
    }
    if (placed.size() < pieces.size()) continue;
    std::vector<AssemblyFault> faults;
    const GlobalValue value = assemble(*spec, placed, faults);
    if (!faults.empty()) continue;
    if (difference(value, expected, false).empty()) return placement;
  }
  return std::nullopt;
}

}  // namespace

void MissingRows::look(const MeshLayout* layout, const std::vector<Placing>& placings,
                       const PieceOf& piece_of, const ExpectedCall& expected) {
  const auto ranks = static_cast<std::size_t>(layout->size());
  std::set<std::string> rows;
  for (const Placing& placing : placings) {
    const std::string inputs_text = placing_text(placing);
    if (looked_ && !may_be_row(inputs_text)) continue;
    std::vector<Pieces> inputs;
    for (std::size_t slot = 0; slot < placing.size(); ++slot) {
      Pieces pieces;
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        pieces.emplace_back(piece_of(rank, slot, placing[slot]).local());
      }
      inputs.push_back(std::move(pieces));
    }
    const auto results = on_pieces(sample_, inputs, ranks);
    if (!results) continue;
    Placements outputs;
    for (std::size_t value = 0; value < expected.results; ++value) {
      Pieces pieces;
      for (const std::vector<DTensor>& own : *results) {
        if (value < own.size() && own[value].defined()) pieces.push_back(own[value]);
      }
      if (pieces.size() < ranks || !expected.values[value].defined) break;
      const auto placement = placement_of(pieces, layout, expected.values[value]);
      if (!placement) break;
      outputs.push_back(*placement);
    }
    if (outputs.size() < expected.results) continue;
    rows.insert(inputs_text + kTo + placements_text(outputs));
  }
  if (!looked_) {
    rows_ = std::move(rows);
  } else {
    std::erase_if(rows_, [&](const std::string& row) { return !rows.contains(row); });
  }
  looked_ = true;
}

// Whether an earlier mesh has shown a row with these inputs: no other one is found any more.
bool MissingRows::may_be_row(const std::string& inputs) const {
  const auto first = rows_.lower_bound(inputs + kTo);
  return first != rows_.end() && first->starts_with(inputs + kTo);
}

std::vector<std::string> MissingRows::found() const { return {rows_.begin(), rows_.end()}; }

}  // namespace shardlab
