// Some placings of a sample on one mesh are one run of a world: each rank makes its pieces of each
// input once for all runs, and calls the op for one placing after the other. A call that one rank
// refuses all ranks refuse, before anything is sent; if ranks differ, the world ends with a
// verdict, and the later placings are run once more.
#include "sim/proof/op_proof.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>
#include <span>
#include <utility>

#include "api/distribute.h"
#include "autograd/autograd.h"
#include "base/fix.h"
#include "comm/device_mesh.h"
#include "kernels/cpu_kernels.h"
#include "mesh/type_string.h"
#include "plan/plan.h"
#include "schema/op_row.h"
#include "sim/proof/expected_call.h"
#include "sim/proof/missing_rows.h"
#include "sim/proof/sample_call.h"
#include "sim/proof/sample_forms.h"
#include "sim/proof/terms.h"
#include "sim/record/marks.h"
#include "sim/world/world.h"
#include "tensor/cpu_device.h"

namespace shardlab {

namespace {

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

}  // namespace

class OpProver::Impl {
 public:
  Impl(const OpRegistry& registry, ProofOptions options)
      : registry_(registry),
        options_(std::move(options)),
        propagator_(registry, PlanOptions{}),
        device_(make_cpu_device(cpu_kernel_table())) {
    propagator_.set_advice(false);
  }

  OpProof prove(const std::vector<const OpSample*>& samples) {
    OpProof proof;
    const OpSample& any = *samples.at(0);
    const OpRow* row = registry_.find(any.op);  // null: the name of several calls
    proof.op = row == nullptr ? any.op : row->name();
    for (std::size_t number = 0; number < samples.size(); ++number) {
      const OpSample* sample = samples[number];
      const Expected expected = on_one_device(*sample);
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
          perform(*sample, batch, run);
          for (std::size_t i = 0; i < batch.size(); ++i) {
            const Tried tried{number, mesh, batch[i], i, is_even(*sample, mesh, batch[i])};
            if (!count(proof, *sample, tried, run)) costly.push_back(batch[i]);
          }
        }
        if (!line || !first || !options_.missing || expected.error) continue;
        const PieceOf held = [&](std::size_t rank, std::size_t slot, const Placements& placements) {
          return piece(run, rank, *sample, slot, placements);
        };
        run_alone([&] { missing.look(run.layout, costly, held, expected.by_root[0]); });
      }
      proof.rows_judged += missing.judged();
      if (first && options_.missing) proof.missing = missing.found();
    }
    if (row != nullptr) prove_forms(proof, forms_of(samples, *row, options_.most_forms), *row);
    return proof;
  }

  void prove_forms(OpProof& proof, const std::vector<OpSample>& forms, const OpRow& row) {
    for (const OpSample& form : forms) {
      OpProof own;
      own.op = proof.op;
      const Expected expected = on_one_device(form);
      if (expected.only_in_f64) continue;  // bits of another width, which cannot be compared
      for (const Dims& mesh : options_.form_meshes) {
        std::vector<Placing> placings =
            placings_of(form, mesh.size(), options_.of_forms, options_.seed);
        if (expected.error && placings.size() > 1) placings.resize(1);
        MeshRun run = run_on(mesh, form, expected);
        perform(form, placings, run);
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

  std::string check(const OpSample& sample, const Dims& mesh, const Placing& placing) {
    const Expected expected = on_one_device(sample);
    const std::size_t turns = turns_of(expected, mesh.size());
    MeshRun run = run_on(mesh, sample, expected);
    perform(sample, std::vector<Placing>(turns, placing), run);
    for (std::size_t turn = 0; turn < turns; ++turn) {
      const std::string what = fault_of(sample, mesh, placing, run, turn);
      if (!what.empty()) return what;
      const Error* error = run.outcomes[0][turn].error.get();
      if (error != nullptr && !expected.error) throw *error;
    }
    return "";
  }

 private:
  // The results of one rank for one call.
  struct Outcome {
    std::vector<DTensor> values;
    std::unique_ptr<Error> error;
    bool sent = false;  // by the call itself, not by its backward
    std::string moved;  // the refusal of a call before it got replicas
  };

  // One placing of one sample.
  struct Tried {
    std::size_t sample;  // of those that are proven
    const Dims& mesh;
    const Placing& placing;
    std::size_t number;  // of the placings that were performed together
    bool even;
  };

  // The results of one device, for a gradient of each result that may have one.
  struct Expected {
    std::vector<ExpectedCall> by_root;
    std::unique_ptr<Error> error;               // the call is refused there, too
    bool only_in_f64 = false;                   // refused in reference precision alone
    bool marked = true;                         // the exact results are known
    std::vector<bool> leaves;                   // by slot
    std::vector<std::string> without_gradient;  // the reason why some inputs are no leaves

    std::size_t roots() const {
      return std::max<std::size_t>(1, by_root.empty() ? 0 : by_root[0].roots);
    }
  };

  class Sent final : public ForwardingObserver {
   public:
    Sent() : ForwardingObserver(nullptr) {}
    void collective(const CollectiveRecord&) override { ++count; }

    std::int64_t count = 0;
  };

  using Outcomes = std::vector<std::vector<Outcome>>;  // by rank, by placing
  // A rank's inputs, by slot, each made once for each way to place it.
  using Pieces = std::vector<std::vector<std::pair<Placements, DTensor>>>;
  struct MeshRun {
    const MeshLayout* layout;
    const Expected& expected;
    Precision precision;
    std::size_t first;  // the number of the first placing, which chooses the incoming gradient
    Outcomes outcomes;
    std::vector<Pieces> pieces;  // by rank
    // A rank's pieces of incoming gradients, each made once for each way to place it.
    std::vector<std::vector<std::pair<const DTensorSpec*, Tensor>>> gradients;
  };

  WorldOptions world_options(std::int64_t ranks) {
    WorldOptions options;
    options.ranks = ranks;
    options.device = [this](std::int64_t) -> Device& { return *device_; };
    options.seed = kProofRandomSeed;
    options.propagator = &propagator_;
    options.plans = &propagator_.plans();
    return options;
  }

  void run_alone(const std::function<void()>& body) {
    if (!alone_) alone_ = std::make_unique<World>(world_options(1));
    alone_->run([&](RankContext&) { body(); }).rethrow();
  }

  // Leaves are the floats of a call that can be differentiated.
  bool may_be_leaf(const OpSample& sample, std::size_t slot) const {
    const Fill fill = sample.inputs[slot].fill;
    if (!options_.backward || sample.calls || (fill != Fill::kReal && fill != Fill::kUnit)) {
      return false;
    }
    const OpRow& row = registry_.at(sample.op);
    return has_gradient(row) && !is_out(sample, row, slot);
  }

  static DType floats_of(Precision precision) {
    return precision == Precision::kReference ? DType::kF64 : DType::kF32;
  }

  // The results of the sample's calls on the rank, and their gradients.
  static SampleValues called(const OpSample& sample, const SampleRun& run,
                             const std::vector<DTensor>& leaves, std::size_t root,
                             const GradientOf& gradient) {
    if (!sample.calls) return call_sample(sample, run.inputs, leaves, root, gradient);
    SampleValues out;
    out.values = sample.calls(run);
    out.results = out.values.size();
    return out;
  }

  SampleValues alone(const OpSample& sample, const std::vector<bool>& is_leaf, std::size_t root,
                     Precision precision) {
    const DType floats = floats_of(precision);
    std::vector<DTensor> inputs, leaves;
    for (std::size_t slot = 0; slot < sample.inputs.size(); ++slot) {
      inputs.emplace_back(sample_input(sample, slot, options_.seed, floats));
      if (!is_leaf[slot]) continue;
      require_grad(inputs.back());
      leaves.push_back(inputs.back());
    }
    current_rank().random = {kProofRandomSeed, 0};
    return called(sample, {inputs, nullptr, precision}, leaves, root, [&](const DTensor& result) {
      return DTensor(sample_gradient(result.shape(), options_.seed, result.dtype()));
    });
  }

  Expected with_leaves(const OpSample& sample, std::vector<bool> leaves) {
    Expected expected;
    expected.marked = sample.marked;
    bool declared = false;  // the runs in declared dtypes have begun
    try {
      run_alone([&] {
        for (std::size_t root = 0; root < expected.roots(); ++root) {
          declared = true;
          const SampleValues single = alone(sample, leaves, root, Precision::kDeclared);
          declared = false;
          expected.by_root.push_back(
              expected_call(single, alone(sample, leaves, root, Precision::kReference)));
        }
      });
    } catch (const Error& error) {
      expected.error = std::make_unique<Error>(error);
      expected.only_in_f64 = !declared;
    }
    expected.leaves = std::move(leaves);
    return expected;
  }

  // An input that the op has no gradient for, if others have one, is left out and named.
  Expected on_one_device(const OpSample& sample) {
    const std::size_t slots = sample.inputs.size();
    std::vector<bool> leaves(slots);
    for (std::size_t slot = 0; slot < slots; ++slot) leaves[slot] = may_be_leaf(sample, slot);
    Expected expected = with_leaves(sample, leaves);
    if (!expected.error) return expected;
    std::vector<std::string> without_gradient;
    for (std::size_t slot = 0; slot < slots; ++slot) {
      if (!leaves[slot]) continue;
      std::vector<bool> one(slots);
      one[slot] = true;
      const Expected alone = with_leaves(sample, one);
      if (!alone.error) continue;
      leaves[slot] = false;
      without_gradient.push_back(alone.error->summary());
    }
    expected = with_leaves(sample, leaves);
    if (!expected.error) expected.without_gradient = std::move(without_gradient);
    return expected;
  }

  // The rank's piece of the value, or of its own term.
  DTensor placed(const Tensor& whole, Fill fill, const MeshLayout* layout,
                 const Placements& placements, std::uint64_t slot) const {
    Placements cut = placements;
    std::int64_t index = 0, count = 1;
    ReduceOp op = ReduceOp::kSum;
    const Coordinate at = *layout->coordinate_of(current_rank().rank);
    for (std::size_t dim = 0; dim < cut.size(); ++dim) {
      if (!cut[dim].is_partial()) continue;
      op = cut[dim].op;
      index = index * layout->shape()[dim] + at[dim];
      count *= layout->shape()[dim];
      cut[dim] = Placement::replicate();
    }
    Arena& arena = layout->arena();
    const Tensor own =
        count == 1 ? whole : term_of(whole, fill, op, index, count, options_.seed + slot);
    const DTensor piece = distribute(own, arena.spec(layout, cut, whole.meta()));
    return {piece.local(), arena.spec(layout, placements, whole.meta())};
  }

  const DTensor& piece(MeshRun& run, std::size_t rank, const OpSample& sample, std::size_t slot,
                       const Placements& placements) const {
    auto& known = run.pieces[rank][slot];
    for (const auto& [placed, tensor] : known) {
      if (placed == placements) return tensor;
    }
    const DTensor tensor =
        placed(sample_input(sample, slot, options_.seed, floats_of(run.precision)),
               sample.inputs[slot].fill, run.layout, placements, slot);
    if (run.expected.leaves[slot]) require_grad(tensor);
    return known.emplace_back(placements, tensor).second;
  }

  // The ways to place a gradient.
  static Placements gradient_choices(const Dims& shape, DType dtype) {
    Placements choices;
    for (const Placement& choice : choices_of({shape, Fill::kReal})) {
      const bool extreme = choice.is_partial(ReduceOp::kMax) || choice.is_partial(ReduceOp::kMin);
      if (!extreme || !is_complex(dtype)) choices.push_back(choice);
    }
    return choices;
  }

  // Calls of one placing until each result had each gradient that may flow into it.
  static std::size_t turns_of(const Expected& expected, std::size_t mesh_dims) {
    if (expected.by_root.empty() || expected.by_root[0].roots == 0) return 1;
    const ExpectedCall& call = expected.by_root[0];
    std::size_t turns = std::lcm(expected.roots(), mesh_dims);
    for (std::size_t result = 0; result < call.results; ++result) {
      const TensorMeta& meta = call.values[result].meta;
      turns = std::lcm(turns, gradient_choices(meta.shape, meta.dtype).size());
    }
    return turns;
  }

  // The gradient is placed in another way from call to call. Each way is made once.
  DTensor gradient(MeshRun& run, std::size_t rank, const DTensor& result,
                   std::size_t number) const {
    const MeshLayout* layout = run.layout;
    const Placements choices = gradient_choices(result.shape(), result.dtype());
    Placements placements(layout->ndim(), Placement::replicate());
    placements[number % layout->ndim()] = choices[number % choices.size()];
    const DTensorSpec* spec =
        layout->arena().spec(layout, placements, contiguous_meta(result.shape(), result.dtype()));
    auto& known = run.gradients[rank];
    const auto found =
        std::ranges::find(known, spec, &std::pair<const DTensorSpec*, Tensor>::first);
    if (found != known.end()) return {found->second, spec};
    const Tensor whole = sample_gradient(result.shape(), options_.seed, result.dtype());
    const DTensor own = placed(whole, Fill::kReal, layout, placements, kGradientSlot);
    known.emplace_back(spec, own.local());
    return own;
  }

  void call_on_rank(MeshRun& mesh, std::size_t rank, const OpSample& sample, const Placing& placing,
                    std::size_t number, Sent& sent) const {
    Outcome& outcome = mesh.outcomes[rank][number];
    const std::size_t turn = mesh.first + number;
    std::vector<DTensor> inputs, leaves;
    for (std::size_t slot = 0; slot < placing.size(); ++slot) {
      inputs.push_back(piece(mesh, rank, sample, slot, placing[slot]));
      if (mesh.expected.leaves[slot]) leaves.push_back(inputs.back());
    }
    current_rank().random = {kProofRandomSeed, 0};
    sent.count = 0;
    bool forward_sent = false;
    const SampleRun run{inputs, mesh.layout, mesh.precision, &outcome.moved};
    const std::size_t root = turn % mesh.expected.roots();
    SampleValues values = called(sample, run, leaves, root, [&](const DTensor& result) {
      forward_sent = sent.count > 0;
      return gradient(mesh, rank, result, turn);
    });
    outcome.values = std::move(values.values);
    const bool backward = outcome.values.size() > values.results;
    outcome.sent = backward ? forward_sent : sent.count > 0;
  }

  // Placings from `begin` on; the first that was not reached by every rank, or their number.
  std::size_t perform_from(std::size_t begin, const OpSample& sample,
                           std::span<const Placing> placings, MeshRun& run) {
    std::vector<std::size_t> reached(run.outcomes.size(), begin);
    World& world = world_of(run.layout);
    const WorldResult result = world.run([&](RankContext& rank) {
      const auto own = static_cast<std::size_t>(rank.rank);
      rank.meshes->construct(run.layout);
      Sent sent;
      Marks marks(&sent);
      const ObserverScope observed(marks);
      for (std::size_t& i = reached[own]; i < placings.size(); ++i) {
        try {
          call_on_rank(run, own, sample, placings[i], i, sent);
        } catch (const Error& error) {
          if (error.find("verdict") != nullptr) throw;
          run.outcomes[own][i].error = std::make_unique<Error>(error);
        }
      }
    });
    if (result.ok()) return placings.size();
    const std::size_t stopped = *std::ranges::min_element(reached);
    if (stopped < placings.size()) {
      run.outcomes[0][stopped].error = std::make_unique<Error>(result.merged());
    }
    return stopped + 1;
  }

  MeshRun run_on(const Dims& mesh, const OpSample& sample, const Expected& expected,
                 Precision precision = Precision::kDeclared) const {
    MeshRun run{process_arena().layout({mesh, {}, {}}), expected, precision, 0, {}, {}, {}};
    const auto ranks = static_cast<std::size_t>(run.layout->size());
    run.outcomes.resize(ranks);
    run.pieces.assign(ranks, Pieces(sample.inputs.size()));
    run.gradients.resize(ranks);
    return run;
  }

  // Runs these placings; their outcomes replace the earlier ones.
  void perform(const OpSample& sample, std::span<const Placing> placings, MeshRun& run) {
    for (std::vector<Outcome>& own : run.outcomes) {
      own.clear();
      own.resize(placings.size());
    }
    std::size_t next = 0;
    while (next < placings.size()) next = perform_from(next, sample, placings, run);
  }

  World& world_of(const MeshLayout* layout) {
    for (const auto& [known, world] : worlds_) {
      if (known == layout) return *world;
    }
    return *worlds_.emplace_back(layout, std::make_unique<World>(world_options(layout->size())))
                .second;
  }

  // Some given values are the rounded average of no three numbers, and others overflow.
  static bool has_exact_terms(const OpSample& sample, const Dims& mesh, const Placing& placing) {
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

  static bool is_even(const OpSample& sample, const Dims& mesh, const Placing& placing) {
    for (std::size_t slot = 0; slot < placing.size(); ++slot) {
      if (!cuts_evenly(sample.inputs[slot].shape, placing[slot], mesh)) return false;
    }
    return true;
  }

  // The fault of one placing, or "". Amplified rounding is none: the call alone has the same fault,
  // so that no other call causes it, and in f64 it has none.
  std::string fault_of(const OpSample& sample, const Dims& mesh, const Placing& placing,
                       const MeshRun& run, std::size_t number) {
    const Fault found = fault(run, number);
    if (found.what.empty() || !found.rounding) return found.what;
    const auto is_right_alone = [&](Precision precision) {
      MeshRun again = run_on(mesh, sample, run.expected, precision);
      again.first = run.first + number;  // the same gradient
      perform(sample, {&placing, 1}, again);
      return again.outcomes[0][0].error == nullptr && fault(again, 0).what.empty();
    };
    const bool amplified =
        !is_right_alone(Precision::kDeclared) && is_right_alone(Precision::kReference);
    return amplified ? "" : found.what;
  }

  // The same, in this run. If all ranks refuse a placing, there is no fault.
  static Fault fault(const MeshRun& run, std::size_t number) {
    const Expected& expected = run.expected;
    const Outcomes& outcomes = run.outcomes;
    const Outcome& first = outcomes[0][number];
    // Data that one device refuses is refused by those ranks that hold it.
    const auto refuses = [&](const std::vector<Outcome>& own) {
      return own[number].error != nullptr;
    };
    if (expected.error && expected.error->kind() == ErrorKind::kInternal) {
      return {"a defect on one device: " + expected.error->summary()};
    }
    if (expected.error) {
      const bool some = std::ranges::any_of(outcomes, refuses);
      return {some ? "" : "one device refuses it: " + expected.error->summary()};
    }
    for (const std::vector<Outcome>& own : outcomes) {
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
      for (const std::vector<Outcome>& own : outcomes)
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

  // True if nothing was sent, and the result is right.
  bool count(OpProof& proof, const OpSample& called, const Tried& tried, const MeshRun& run) {
    const auto& [sample, mesh, placing, number, even] = tried;
    const Expected& expected = run.expected;
    const Outcomes& outcomes = run.outcomes;
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

  static constexpr std::uint64_t kGradientSlot = 96;
  // Placings that are performed, then judged: few, so that their results are still in the caches.
  static constexpr std::size_t kBatch = 16;

  const OpRegistry& registry_;
  ProofOptions options_;
  Propagator propagator_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<World> alone_;
  std::vector<std::pair<const MeshLayout*, std::unique_ptr<World>>> worlds_;
};

OpProver::OpProver(const OpRegistry& registry, ProofOptions options)
    : impl_(std::make_unique<Impl>(registry, std::move(options))) {}
OpProver::~OpProver() = default;

OpProof OpProver::prove(const std::vector<const OpSample*>& samples) {
  return impl_->prove(samples);
}

std::string OpProver::check(const OpSample& sample, const Dims& mesh, const Placing& placing) {
  return impl_->check(sample, mesh, placing);
}

}  // namespace shardlab
