// A row is believed if it holds on every mesh: sizes that one mesh divides another does not, so
// that a result that is right by chance on even pieces is not right on uneven ones.
#include "sim/proof/missing_rows.h"

#include <algorithm>
#include <map>
#include <optional>

#include "base/rank_context.h"
#include "dispatch/local_call.h"
#include "dispatch/plain_calls.h"
#include "mesh/local_shape.h"
#include "ops/core/meta.h"
#include "schema/binder.h"
#include "schema/meta_args.h"
#include "schema/op_row.h"

namespace shardlab {

namespace {

constexpr const char* kTo = " -> ";  // between the inputs of a row and its results

using Pieces = std::vector<DTensor>;  // by rank

Fill fill_of(DType dtype) {
  if (dtype == DType::kBool) return Fill::kBool;
  return is_integral(dtype) ? Fill::kIndex : Fill::kReal;
}

// Whether a piece of this shape on rank 0 can be one of the value, under one of these placements.
bool fits(const Dims& piece, const MeshLayout* layout, const TensorMeta& value,
          const Placements& choices) {
  return std::ranges::any_of(choices, [&](const Placement& placement) {
    const DTensorSpec* spec = layout->arena().spec(layout, {placement}, value);
    return piece == local_shape(*spec, {0});
  });
}

bool fits(const std::vector<DTensor>& results, const MeshLayout* layout,
          const ExpectedCall& expected, const std::vector<Placements>& choices) {
  if (results.size() < expected.results) return false;
  for (std::size_t i = 0; i < expected.results; ++i) {
    const ExpectedValue& value = expected.values[i];
    if (!results[i].defined() || !value.defined) return false;
    if (!fits(results[i].shape(), layout, value.meta, choices[i])) return false;
  }
  return true;
}

// The results of the op on each rank's pieces; none if it refuses them, or if those of the first
// rank show that they are no pieces of the results.
std::optional<std::vector<std::vector<DTensor>>> on_pieces(const OpSample& sample,
                                                           const std::vector<Pieces>& inputs,
                                                           const MeshLayout* layout,
                                                           const ExpectedCall& expected,
                                                           const std::vector<Placements>& choices) {
  std::vector<std::vector<DTensor>> results;
  try {
    for (std::size_t rank = 0; rank < static_cast<std::size_t>(layout->size()); ++rank) {
      std::vector<DTensor> own;
      for (const Pieces& pieces : inputs) own.push_back(pieces[rank]);
      current_rank().random = {kProofRandomSeed, 0};  // as in a call that is placed
      results.push_back(call_sample(sample, own, {}, 0, nullptr).values);
      if (rank == 0 && !fits(results[0], layout, expected, choices)) return std::nullopt;
    }
  } catch (const Error&) {
    return std::nullopt;
  }
  return results;
}

// True when shape inference refuses pieces of these shapes. An op without shape inference is
// called.
bool refuses_shapes(const OpSample& sample, const std::vector<DTensor>& pieces) {
  const OpRow& row = plain_calls().find(sample.op);
  if (!row.meta) return false;
  const Arguments args = bind_arguments(row, filled_in(sample.args, pieces));
  MetaList metas;
  for_each_tensor_slot(row.op, args, [&](std::size_t, const Argument& argument) {
    metas.push_back(argument.is_tensor() && argument.tensor().defined()
                        ? &argument.tensor().local().meta()
                        : nullptr);
  });
  try {
    infer_metas(row, args, std::move(metas));
  } catch (const Error&) {
    return true;
  }
  return false;
}

Placements choices_for(const ExpectedValue& value) {
  if (!value.defined) return {};
  return choices_of({value.meta.shape, fill_of(value.meta.dtype)});
}

// The number of the first of a value's placements under which these pieces are the whole; the
// number of placements if there is none.
std::size_t placement_of(const Pieces& pieces, const MeshLayout* layout,
                         const ExpectedValue& expected, const Placements& choices) {
  const TensorMeta& meta = expected.meta;
  for (std::size_t number = 0; number < choices.size(); ++number) {
    const Placement& placement = choices[number];
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
    if (difference(value, expected, false).empty()) return number;
  }
  return choices.size();
}

}  // namespace

void MissingRows::look(const MeshLayout* layout, const std::vector<Placing>& placings,
                       const PieceOf& piece_of, const ExpectedCall& expected) {
  if (sample_.calls) return;  // not an op that could have a row
  const auto ranks = static_cast<std::size_t>(layout->size());
  std::vector<Placements> choices;
  for (std::size_t value = 0; value < expected.results; ++value) {
    choices.push_back(choices_for(expected.values[value]));
  }
  const std::int64_t all = choices.empty() ? 0 : static_cast<std::int64_t>(choices[0].size());
  std::set<std::string> rows;
  std::map<std::vector<std::vector<std::int64_t>>, bool> refused;  // by shapes on the first rank
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
    std::vector<std::vector<std::int64_t>> shapes;
    std::vector<DTensor> first;
    for (const Pieces& pieces : inputs) {
      first.push_back(pieces[0]);
      const Dims& shape = pieces[0].shape();
      shapes.emplace_back(shape.begin(), shape.end());
    }
    const auto [known, added] = refused.try_emplace(std::move(shapes), false);
    if (added) known->second = refuses_shapes(sample_, first);
    judged_ += all;
    if (known->second) continue;
    const auto results = on_pieces(sample_, inputs, layout, expected, choices);
    if (!results) continue;
    Placements outputs;
    for (std::size_t value = 0; value < expected.results; ++value) {
      Pieces pieces;
      for (const std::vector<DTensor>& own : *results) {
        if (value < own.size() && own[value].defined()) pieces.push_back(own[value]);
      }
      if (pieces.size() < ranks || !expected.values[value].defined) break;
      const std::size_t which =
          placement_of(pieces, layout, expected.values[value], choices[value]);
      if (which == choices[value].size()) break;
      // The later ones were not looked at.
      if (value == 0) judged_ -= all - 1 - static_cast<std::int64_t>(which);
      outputs.push_back(choices[value][which]);
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

// True when an earlier mesh has shown a row with these inputs: later meshes add no rows.
bool MissingRows::may_be_row(const std::string& inputs) const {
  const auto first = rows_.lower_bound(inputs + kTo);
  return first != rows_.end() && first->starts_with(inputs + kTo);
}

std::vector<std::string> MissingRows::found() const { return {rows_.begin(), rows_.end()}; }

}  // namespace shardlab
