// A row is believed where it holds on every mesh: sizes that one mesh divides another does not, so
// that what is right by chance on even pieces is not right on uneven ones.
#include "sim/proof/missing_rows.h"

#include <optional>

#include "mesh/local_shape.h"

namespace shardlab {

namespace {

using Pieces = std::vector<DTensor>;  // by rank

// "S(0), R -> " of a row that is written as text.
std::string row_front(const Placing& placing) { return placing_text(placing) + " -> "; }

Fill fill_of(DType dtype) {
  if (dtype == DType::kBool) return Fill::kBool;
  return is_integral(dtype) ? Fill::kIndex : Fill::kReal;
}

// A way to place a result, and the sizes that the ranks' pieces have then.
struct Choice {
  Placement placement;
  const DTensorSpec* spec;
  std::vector<Dims> shapes;

  bool fits(const DTensor& piece, std::size_t rank) const {
    return piece.local().dtype() == spec->dtype() && piece.local().shape() == shapes[rank];
  }
};

std::vector<Choice> choices_for(const MeshLayout* layout, const ExpectedValue& expected) {
  std::vector<Choice> choices;
  if (!expected.defined) return choices;
  const TensorMeta& meta = expected.meta;
  for (const Placement& placement : choices_of({meta.shape, fill_of(meta.dtype)})) {
    const DTensorSpec* spec = layout->arena().spec(layout, {placement}, meta);
    Choice& choice = choices.emplace_back(Choice{placement, spec, {}});
    for (std::int64_t rank = 0; rank < layout->size(); ++rank) {
      choice.shapes.push_back(local_shape(*spec, Coordinate{rank}));
    }
  }
  return choices;
}

// Of each result.
using Choices = std::vector<std::vector<Choice>>;

// Whether what one rank has can be its pieces of the results.
bool may_be_pieces(const std::vector<DTensor>& own, std::size_t rank, const Choices& choices) {
  for (std::size_t value = 0; value < choices.size(); ++value) {
    if (value >= own.size() || !own[value].defined()) return false;
    const auto fits = [&](const Choice& choice) { return choice.fits(own[value], rank); };
    if (std::ranges::none_of(choices[value], fits)) return false;
  }
  return true;
}

// The results of the op on each rank's pieces; none where it takes them not, or gives what is no
// piece.
std::optional<std::vector<std::vector<DTensor>>> on_pieces(const OpSample& sample,
                                                           const std::vector<Pieces>& inputs,
                                                           const Choices& choices,
                                                           std::size_t ranks) {
  std::vector<std::vector<DTensor>> results;
  try {
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      std::vector<DTensor> own;
      for (const Pieces& pieces : inputs) own.push_back(pieces[rank]);
      results.push_back(call_sample(sample, own, {}, 0, nullptr).values);
      if (!may_be_pieces(results.back(), rank, choices)) return std::nullopt;
    }
  } catch (const Error&) {
    return std::nullopt;
  }
  return results;
}

// The placement under which these pieces are the whole, if there is one.
std::optional<Placement> placement_of(const Pieces& pieces, const std::vector<Choice>& choices,
                                      const ExpectedValue& expected) {
  for (const Choice& choice : choices) {
    Pieces placed;
    for (std::size_t rank = 0; rank < pieces.size(); ++rank) {
      if (!choice.fits(pieces[rank], rank)) break;
      placed.emplace_back(pieces[rank].local(), choice.spec);
    }
    if (placed.size() < pieces.size()) continue;
    std::vector<AssemblyFault> faults;
    const GlobalValue value = assemble(*choice.spec, placed, faults);
    if (!faults.empty()) continue;
    if (difference(value, expected, false).empty()) return choice.placement;
  }
  return std::nullopt;
}

}  // namespace

bool MissingRows::may_be_found(const Placing& placing) const {
  if (!looked_) return true;
  const std::string front = row_front(placing);
  const auto row = rows_.lower_bound(front);
  return row != rows_.end() && row->starts_with(front);
}

void MissingRows::look(const MeshLayout* layout, const std::vector<Placing>& placings,
                       const PieceOf& piece_of, const ExpectedCall& expected) {
  const auto ranks = static_cast<std::size_t>(layout->size());
  Choices choices;
  for (std::size_t value = 0; value < expected.results; ++value) {
    choices.push_back(choices_for(layout, expected.values[value]));
  }
  std::set<std::string> rows;
  for (const Placing& placing : placings) {
    if (!may_be_found(placing)) continue;
    std::vector<Pieces> inputs;
    for (std::size_t slot = 0; slot < placing.size(); ++slot) {
      Pieces pieces;
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        pieces.emplace_back(piece_of(rank, slot, placing[slot]).local());
      }
      inputs.push_back(std::move(pieces));
    }
    const auto results = on_pieces(sample_, inputs, choices, ranks);
    if (!results) continue;
    Placements outputs;
    for (std::size_t value = 0; value < expected.results; ++value) {
      Pieces pieces;
      for (const std::vector<DTensor>& own : *results) pieces.push_back(own[value]);
      const auto placement = placement_of(pieces, choices[value], expected.values[value]);
      if (!placement) break;
      outputs.push_back(*placement);
    }
    if (outputs.size() < expected.results) continue;
    rows.insert(row_front(placing) + placements_text(outputs));
  }
  if (looked_) std::erase_if(rows, [&](const std::string& row) { return !rows_.contains(row); });
  rows_ = std::move(rows);
  looked_ = true;
}

std::vector<std::string> MissingRows::found() const { return {rows_.begin(), rows_.end()}; }

}  // namespace shardlab
