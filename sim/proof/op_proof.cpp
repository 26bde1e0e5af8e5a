// Each placing is judged by itself: all ranks refuse it, or have the results of one device. Faults
// are counted, and the one on the smallest mesh is kept.
#include "sim/proof/op_proof.h"

#include <algorithm>
#include <functional>
#include <span>
#include <utility>

#include "base/rank_context.h"
#include "dispatch/local_call.h"
#include "dispatch/plain_calls.h"
#include "mesh/local_shape.h"
#include "mesh/type_string.h"
#include "ops/core/meta.h"
#include "schema/binder.h"
#include "schema/meta_args.h"
#include "schema/op_registry.h"
#include "schema/op_row.h"
#include "sim/log/marks.h"
#include "sim/proof/expected_call.h"
#include "sim/proof/placings.h"
#include "sim/proof/sample_forms.h"

namespace shardlab {

namespace {

// A row is believed if it holds on every mesh: sizes that one mesh divides another does not, so
// that a result that is right by chance on even pieces is not right on uneven ones.

/// The piece of an input with these placements on a rank of the mesh.
using PieceOf =
    std::function<DTensor(std::size_t rank, std::size_t slot, const Placements& placements)>;

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

class MissingRows {
 public:
  /// `sample` outlives it.
  explicit MissingRows(const OpSample& sample) : sample_(sample) {}

  /// Searches these placings on a mesh of one dim; `expected` is the result of one device. Runs on
  /// a rank that is alone. A row that one mesh does not show is not found.
  void look(const MeshLayout* layout, const std::vector<Placing>& placings, const PieceOf& piece_of,
            const ExpectedCall& expected) {
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
  /// "S(0), R -> S(0)", those that every mesh has shown; in order.
  std::vector<std::string> found() const { return {rows_.begin(), rows_.end()}; }
  /// The number of rows, which are placements of the inputs and of one result, that were compared
  /// with the op on the pieces alone, whether it gives them or not.
  std::int64_t judged() const { return judged_; }

 private:
  // True when an earlier mesh has shown a row with these inputs: later meshes add no rows.
  bool may_be_row(const std::string& inputs) const {
    const auto first = rows_.lower_bound(inputs + kTo);
    return first != rows_.end() && first->starts_with(inputs + kTo);
  }

  const OpSample& sample_;
  std::set<std::string> rows_;
  std::int64_t judged_ = 0;
  bool looked_ = false;
};

// "would have to move" of "aten::add_: operand 0 would have to move: f32[7@x]": refusals for one
// reason are counted together.
std::string reason_of(std::string text) {
  if (const std::size_t op = text.find(": "); op != std::string::npos) text.erase(0, op + 2);
  const std::size_t end = text.find_first_of("[({0123456789");
  if (end != std::string::npos && end > 0) text.resize(end);
  while (!text.empty() && (text.back() == ' ' || text.back() == ',')) text.pop_back();
  return text;
}

// The fault of a value, or of a call; none: "".
struct Fault {
  std::string what;
  bool rounding = false;  // it may be no more than that, amplified
};

Fault judged(const std::vector<DTensor>& pieces, const ExpectedValue& expected, bool marked,
             Precision precision) {
  if (!pieces[0].defined() || !expected.defined) {
    return {pieces[0].defined() == expected.defined ? "" : "is there in one of the runs only"};
  }
  if (!pieces[0].distributed()) return {"is a plain tensor"};
  const DTensorSpec& spec = *pieces[0].spec();
  for (const DTensor& piece : pieces) {
    if (piece.spec() != &spec) return {"has other placements on another rank"};
  }
  std::vector<AssemblyFault> faults;
  const GlobalValue value = assemble(spec, pieces, faults);
  if (!faults.empty()) return {fmt::format("{}: {}", type_string(spec), faults[0].what)};
  const bool exact =
      marked && !spec.has_partial() &&
      std::ranges::all_of(pieces, [](const DTensor& piece) { return is_exact(piece); });
  const std::string what = precision == Precision::kReference ? difference_in_f64(value, expected)
                                                              : difference(value, expected, exact);
  if (what.empty()) return {};
  return {fmt::format("{}: {}", type_string(spec), what), !exact && !value.is_integral()};
}

// Some given values are the rounded average of no three numbers, and others overflow.
bool has_exact_terms(const OpSample& sample, const Dims& mesh, const Placing& placing) {
  for (std::size_t slot = 0; slot < placing.size(); ++slot) {
    if (!sample.inputs[slot].given) continue;
    for (std::size_t dim = 0; dim < mesh.size(); ++dim) {
      const bool mean = placing[slot][dim].is_partial(ReduceOp::kAvg);
      if (mean && ((mesh[dim] & (mesh[dim] - 1)) != 0 || !sample.inputs[slot].given->tame)) {
        return false;
      }
    }
  }
  return true;
}

bool is_even(const OpSample& sample, const Dims& mesh, const Placing& placing) {
  for (std::size_t slot = 0; slot < placing.size(); ++slot) {
    if (!cuts_evenly(sample.inputs[slot].shape, placing[slot], mesh)) return false;
  }
  return true;
}

// The same, in this run. If all ranks refuse a placing, there is no fault.
Fault fault(const MeshRun& run, std::size_t number) {
  const Expected& expected = run.expected;
  const auto& outcomes = run.outcomes;
  const CallOutcome& first = outcomes[0][number];
  // Data that one device refuses is refused by those ranks that hold it.
  const auto refuses = [&](const std::vector<CallOutcome>& own) {
    return own[number].error != nullptr;
  };
  if (expected.error && expected.error->kind() == ErrorKind::kInternal) {
    return {"a defect on one device: " + expected.error->summary()};
  }
  if (expected.error) {
    const bool some = std::ranges::any_of(outcomes, refuses);
    return {some ? "" : "one device refuses it: " + expected.error->summary()};
  }
  for (const std::vector<CallOutcome>& own : outcomes) {
    const Error* error = own[number].error.get();
    if ((error != nullptr) == (first.error != nullptr)) continue;
    return {"ranks part: " + (error != nullptr ? *error : *first.error).summary()};
  }
  if (first.error) {
    const bool defect = first.error->kind() == ErrorKind::kInternal;
    return {defect ? "a defect: " + first.error->summary() : ""};
  }
  const ExpectedCall& call = expected.by_root[(run.first + number) % expected.roots()];
  if (first.values.size() != call.values.size()) return {"has another number of results"};
  Fault rounding;
  for (std::size_t value = 0; value < call.values.size(); ++value) {
    std::vector<DTensor> pieces;
    for (const std::vector<CallOutcome>& own : outcomes)
      pieces.push_back(own[number].values.at(value));
    Fault found = judged(pieces, call.values[value], expected.marked, run.precision);
    if (found.what.empty()) continue;
    const bool result = value < call.results;
    found.what = fmt::format("{} {} {}", result ? "result" : "gradient",
                             result ? value : value - call.results, found.what);
    if (!found.rounding) return found;
    if (rounding.what.empty()) rounding = std::move(found);
  }
  return rounding;
}

// Placings that are performed, then judged: few, so that their results are still in the caches.
constexpr std::size_t kBatch = 16;

}  // namespace

// One placing of one sample.
struct OpProver::Tried {
  std::size_t sample;  // of those that are proven
  const Dims& mesh;
  const Placing& placing;
  std::size_t number;  // of the placings that were performed together
  bool even;
};

OpProof OpProver::prove(const std::vector<const OpSample*>& samples) {
  OpProof proof;
  const OpSample& any = *samples.at(0);
  const OpRow* row = registry_.find(any.op);  // null: the name of several calls
  proof.op = row == nullptr ? any.op : row->name();
  for (std::size_t number = 0; number < samples.size(); ++number) {
    const OpSample* sample = samples[number];
    const Expected expected = runner_.on_one_device(*sample);
    if (expected.error) {
      proof.unproven = "one device refuses a sample: " + expected.error->summary();
    }
    proof.without_gradient.insert(expected.without_gradient.begin(),
                                  expected.without_gradient.end());
    const bool first = number == 0;
    MissingRows missing(*sample);
    for (const Dims& mesh : options_.meshes) {
      const bool line = mesh.size() == 1;
      std::vector<Placing> placings = placings_of(
          *sample, mesh.size(), line ? options_.of_one : options_.of_several, options_.seed);
      std::erase_if(placings, [&](const Placing& placing) {
        return !has_exact_terms(*sample, mesh, placing);
      });
      MeshRun run = run_on(mesh, *sample, expected);
      std::vector<Placing> costly;
      for (std::size_t begin = 0; begin < placings.size(); begin += kBatch) {
        const auto batch = std::span<const Placing>(placings).subspan(
            begin, std::min(kBatch, placings.size() - begin));
        run.first = begin;
        runner_.perform(*sample, batch, run);
        for (std::size_t i = 0; i < batch.size(); ++i) {
          const Tried tried{number, mesh, batch[i], i, is_even(*sample, mesh, batch[i])};
          if (!count(proof, *sample, tried, run)) costly.push_back(batch[i]);
        }
      }
      if (!line || !first || !options_.missing || expected.error) continue;
      const PieceOf held = [&](std::size_t rank, std::size_t slot, const Placements& placements) {
        return runner_.piece(run, rank, *sample, slot, placements);
      };
      runner_.run_alone([&] { missing.look(run.layout, costly, held, expected.by_root[0]); });
    }
    proof.rows_judged += missing.judged();
    if (first && options_.missing) proof.missing = missing.found();
  }
  if (row != nullptr) prove_forms(proof, forms_of(samples, *row, options_.most_forms), *row);
  return proof;
}

void OpProver::prove_forms(OpProof& proof, const std::vector<OpSample>& forms, const OpRow& row) {
  for (const OpSample& form : forms) {
    OpProof own;
    own.op = proof.op;
    const Expected expected = runner_.on_one_device(form);
    if (expected.only_in_f64) continue;  // bits of another width, which cannot be compared
    for (const Dims& mesh : options_.form_meshes) {
      std::vector<Placing> placings =
          placings_of(form, mesh.size(), options_.of_forms, options_.seed);
      if (expected.error && placings.size() > 1) placings.resize(1);
      MeshRun run = run_on(mesh, form, expected);
      runner_.perform(form, placings, run);
      for (std::size_t i = 0; i < placings.size(); ++i) {
        count(own, form, {0, mesh, placings[i], i, is_even(form, mesh, placings[i])}, run);
      }
    }
    ++proof.forms.forms;
    if (expected.error) ++proof.forms.refused;
    proof.forms.calls += own.tried;
    proof.forms.wrong += own.wrong;
    proof.wrong += own.wrong;
    if (!own.least || proof.least) continue;
    proof.least = std::move(own.least);
    proof.least->form = form_text(form, row);
  }
}

std::string OpProver::check(const OpSample& sample, const Dims& mesh, const Placing& placing) {
  const Expected expected = runner_.on_one_device(sample);
  const std::size_t turns = turns_of(expected, mesh.size());
  MeshRun run = run_on(mesh, sample, expected);
  runner_.perform(sample, std::vector<Placing>(turns, placing), run);
  for (std::size_t turn = 0; turn < turns; ++turn) {
    const std::string what = fault_of(sample, mesh, placing, run, turn);
    if (!what.empty()) return what;
    const Error* error = run.outcomes[0][turn].error.get();
    if (error != nullptr && !expected.error) throw *error;
  }
  return "";
}

// The fault of one placing, or "". Amplified rounding is none: the call alone has the same fault,
// so that no other call causes it, and in f64 it has none.
std::string OpProver::fault_of(const OpSample& sample, const Dims& mesh, const Placing& placing,
                               const MeshRun& run, std::size_t number) {
  const Fault found = fault(run, number);
  if (found.what.empty() || !found.rounding) return found.what;
  const auto is_right_alone = [&](Precision precision) {
    MeshRun again = run_on(mesh, sample, run.expected, precision);
    again.first = run.first + number;  // the same gradient
    runner_.perform(sample, {&placing, 1}, again);
    return again.outcomes[0][0].error == nullptr && fault(again, 0).what.empty();
  };
  const bool amplified =
      !is_right_alone(Precision::kDeclared) && is_right_alone(Precision::kReference);
  return amplified ? "" : found.what;
}

// True if nothing was sent, and the result is right.
bool OpProver::count(OpProof& proof, const OpSample& called, const Tried& tried,
                     const MeshRun& run) {
  const auto& [sample, mesh, placing, number, even] = tried;
  const Expected& expected = run.expected;
  const auto& outcomes = run.outcomes;
  ++proof.tried;
  ProofTally& tally = even ? proof.even : proof.uneven;
  const std::string what = fault_of(called, mesh, placing, run, number);
  if (!what.empty()) {
    ++proof.wrong;
    ++tally.wrong;
    if (!proof.least || product(mesh) < product(proof.least->mesh)) {
      proof.least = WrongCall{proof.op, mesh, placing, what, sample};
    }
    return true;
  }
  if (expected.error) {
    ++proof.refused;
    ++tally.refused;
    ++proof.reasons["one device refuses it, too: " + reason_of(expected.error->summary())];
    return true;
  }
  if (const Error* error = outcomes[0][number].error.get()) {
    ++proof.refused;
    ++tally.refused;
    ++proof.reasons[reason_of(error->summary())];
    return false;
  }
  ++proof.right;
  ++tally.right;
  if (const std::string& moved = outcomes[0][number].moved; !moved.empty()) {
    ++tally.moved;
    ++proof.moved[reason_of(moved)];
  }
  if (outcomes[0][number].sent) return false;
  ++proof.silent;
  if (mesh.size() == 1) ++proof.rows_judged;
  return true;
}

}  // namespace shardlab
