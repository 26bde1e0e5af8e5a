// Some placings of a sample on one mesh are one run of a world: each rank makes its pieces of each
// input once for all runs, and calls the op for one placing after the other. A call that one rank
// refuses all ranks refuse, before anything is sent; if ranks differ, the world ends with a
// verdict, and the later placings are run once more.
#include "sim/proof/sample_runner.h"

#include <cmath>
#include <numeric>
#include <random>

#include "api/distribute.h"
#include "autograd/autograd.h"
#include "base/rank_context.h"
#include "comm/device_mesh.h"
#include "kernels/cpu_kernels.h"
#include "plan/plan.h"
#include "schema/op_registry.h"
#include "schema/op_row.h"
#include "sim/log/marks.h"
#include "sim/proof/sample_call.h"
#include "tensor/host.h"

namespace shardlab {

namespace {

// Terms are multiples of 1/64, as drawn values are, so that sums of a few are exact in f32. Given
// values have as many digits as their dtype: their terms are zeros and powers of two times the
// value, of which every partial sum is such a multiple, too.
struct Terms {
  const std::vector<double>& of(double value) {
    if (fill_ == Fill::kGiven) return of_given(value);
    const bool extremes = op_ == ReduceOp::kMax || op_ == ReduceOp::kMin;
    return extremes ? around(value) : adding_up(value);
  }

  // -v and 2v, or v / 2 twice; the other terms are 0. For maxima and minima, and for numbers that
  // are not finite, one rank has the whole.
  const std::vector<double>& of_given(double value) {
    const std::size_t count = terms_.size();
    const std::size_t one = random_() % count, other = (one + 1 + random_() % (count - 1)) % count;
    const std::uint64_t kind = random_() % 3;
    if (op_ == ReduceOp::kMax || op_ == ReduceOp::kMin) {
      const double less = op_ == ReduceOp::kMax ? -1 : 1;
      for (double& term : terms_) term = value + less * static_cast<double>(below(3));
      terms_[one] = value;
      return terms_;
    }
    const bool mean = op_ == ReduceOp::kAvg;
    const double size = std::fabs(value);
    const bool tame = size == 0 || (size > 1e-30 && size < 1e30);
    std::ranges::fill(terms_, 0);
    const double whole = mean ? value * static_cast<double>(count) : value;
    if (!tame || kind == 0) {
      terms_[one] = whole;
    } else {
      terms_[one] = kind == 1 ? -whole : whole / 2;
      terms_[other] = kind == 1 ? 2 * whole : whole / 2;
    }
    return terms_;
  }

  double below(std::uint64_t end) { return static_cast<double>(random_() % end); }

  // One rank has the value, the others less, or as much.
  const std::vector<double>& around(double value) {
    const std::size_t holder = random_() % terms_.size();
    for (std::size_t rank = 0; rank < terms_.size(); ++rank) {
      const double part = rank == holder ? 0 : below(65) / 64;
      double room = 2;
      if (fill_ == Fill::kUnit) room = (op_ == ReduceOp::kMax ? value : 1 - value) / 2;
      terms_[rank] = op_ == ReduceOp::kMax ? value - part * room : value + part * room;
    }
    return terms_;
  }

  const std::vector<double>& adding_up(double value) {
    const bool mean = op_ == ReduceOp::kAvg;
    const double step = fill_ == Fill::kIndex || fill_ == Fill::kCount ? 1 : 1.0 / 64;
    double left = mean ? 0 : value;
    for (std::size_t rank = 0; rank + 1 < terms_.size(); ++rank) {
      terms_[rank] = (below(129) - 64) * step;
      left -= terms_[rank];
    }
    terms_.back() = left;
    if (mean) {
      for (double& term : terms_) term += value;
    }
    return terms_;
  }

  Fill fill_;
  ReduceOp op_;
  std::mt19937_64 random_;
  std::vector<double> terms_;
};

// The term of rank `index` of `count`. For an op that needs numbers in (0, 1), terms pending by
// their largest or smallest are in (0, 1), too. A pure function, equal on all ranks; the tensor is
// on the rank's device.
Tensor term_of(const Tensor& whole, Fill fill, ReduceOp op, std::int64_t index, std::int64_t count,
               std::uint64_t seed) {
  const bool integers = is_integral(whole.dtype());
  Terms terms{fill == Fill::kGiven && integers ? Fill::kIndex : fill, op, std::mt19937_64(seed),
              std::vector<double>(static_cast<std::size_t>(count))};
  const auto own = static_cast<std::size_t>(index);
  const Tensor term = empty(*current_rank().device, whole.shape(), whole.dtype());
  if (integers) {
    std::vector<std::int64_t> values = read_integers(whole);
    for (std::int64_t& value : values) {
      // Numbers that no double holds: one rank has them, so that terms add up exactly.
      constexpr std::int64_t kExact = std::int64_t{1} << 52;
      const bool held = value > -kExact && value < kExact;
      if (held) {
        value = static_cast<std::int64_t>(terms.of(static_cast<double>(value))[own]);
      } else if (op == ReduceOp::kSum && own != 0) {
        value = 0;
      }
    }
    write_integers(term, values);
    return term;
  }
  std::vector<double> values = read_doubles(whole);
  for (double& value : values) value = terms.of(value)[own];
  write_doubles(term, values);
  return term;
}

constexpr std::uint64_t kGradientSlot = 96;

DType floats_of(Precision precision) {
  return precision == Precision::kReference ? DType::kF64 : DType::kF32;
}

// The results of the sample's calls on the rank, and their gradients.
SampleValues called(const OpSample& sample, const SampleRun& run,
                    const std::vector<DTensor>& leaves, std::size_t root,
                    const GradientOf& gradient) {
  if (!sample.calls) return call_sample(sample, run.inputs, leaves, root, gradient);
  SampleValues out;
  out.values = sample.calls(run);
  out.results = out.values.size();
  return out;
}

// The ways to place a gradient.
Placements gradient_choices(const Dims& shape, DType dtype) {
  Placements choices;
  for (const Placement& choice : choices_of({shape, Fill::kReal})) {
    const bool extreme = choice.is_partial(ReduceOp::kMax) || choice.is_partial(ReduceOp::kMin);
    if (!extreme || !is_complex(dtype)) choices.push_back(choice);
  }
  return choices;
}

}  // namespace

MeshRun run_on(const Dims& mesh, const OpSample& sample, const Expected& expected,
               Precision precision) {
  MeshRun run{process_arena().layout({mesh, {}, {}}), expected, precision, 0, {}, {}, {}};
  const auto ranks = static_cast<std::size_t>(run.layout->size());
  run.outcomes.resize(ranks);
  run.pieces.assign(ranks, MeshRun::Pieces(sample.inputs.size()));
  run.gradients.resize(ranks);
  return run;
}

std::size_t turns_of(const Expected& expected, std::size_t mesh_dims) {
  if (expected.by_root.empty() || expected.by_root[0].roots == 0) return 1;
  const ExpectedCall& call = expected.by_root[0];
  std::size_t turns = std::lcm(expected.roots(), mesh_dims);
  for (std::size_t result = 0; result < call.results; ++result) {
    const TensorMeta& meta = call.values[result].meta;
    turns = std::lcm(turns, gradient_choices(meta.shape, meta.dtype).size());
  }
  return turns;
}

class SampleRunner::Sent final : public ForwardingObserver {
 public:
  Sent() : ForwardingObserver(nullptr) {}
  void collective(const CollectiveRecord&) override { ++count; }

  std::int64_t count = 0;
};

SampleRunner::SampleRunner(const OpRegistry& registry, bool backward, std::uint64_t seed)
    : registry_(registry),
      backward_(backward),
      seed_(seed),
      propagator_(registry, PlanOptions{}),
      device_(make_cpu_device(cpu_kernel_table())) {
  propagator_.set_advice(false);
}

SampleRunner::~SampleRunner() = default;

WorldOptions SampleRunner::world_options(std::int64_t ranks) {
  WorldOptions options;
  options.ranks = ranks;
  options.device = [this](std::int64_t) -> Device& { return *device_; };
  options.seed = kProofRandomSeed;
  options.propagator = &propagator_;
  options.plans = &propagator_.plans();
  return options;
}

World& SampleRunner::world_of(const MeshLayout* layout) {
  for (const auto& [known, world] : worlds_) {
    if (known == layout) return *world;
  }
  return *worlds_.emplace_back(layout, std::make_unique<World>(world_options(layout->size())))
              .second;
}

void SampleRunner::run_alone(const std::function<void()>& body) {
  if (!alone_) alone_ = std::make_unique<World>(world_options(1));
  alone_->run([&](RankContext&) { body(); }).rethrow();
}

// Leaves are the floats of a call that can be differentiated.
bool SampleRunner::may_be_leaf(const OpSample& sample, std::size_t slot) const {
  const Fill fill = sample.inputs[slot].fill;
  if (!backward_ || sample.calls || (fill != Fill::kReal && fill != Fill::kUnit)) return false;
  const OpRow& row = registry_.at(sample.op);
  return has_gradient(row) && !is_out(sample, row, slot);
}

SampleValues SampleRunner::alone(const OpSample& sample, const std::vector<bool>& is_leaf,
                                 std::size_t root, Precision precision) const {
  const DType floats = floats_of(precision);
  std::vector<DTensor> inputs, leaves;
  for (std::size_t slot = 0; slot < sample.inputs.size(); ++slot) {
    inputs.emplace_back(sample_input(sample, slot, seed_, floats));
    if (!is_leaf[slot]) continue;
    require_grad(inputs.back());
    leaves.push_back(inputs.back());
  }
  current_rank().random = {kProofRandomSeed, 0};
  return called(sample, {inputs, nullptr, precision}, leaves, root, [&](const DTensor& result) {
    return DTensor(sample_gradient(result.shape(), seed_, result.dtype()));
  });
}

Expected SampleRunner::with_leaves(const OpSample& sample, std::vector<bool> leaves) {
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

Expected SampleRunner::on_one_device(const OpSample& sample) {
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
DTensor SampleRunner::placed(const Tensor& whole, Fill fill, const MeshLayout* layout,
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
  const Tensor own = count == 1 ? whole : term_of(whole, fill, op, index, count, seed_ + slot);
  const DTensor piece = distribute(own, arena.spec(layout, cut, whole.meta()));
  return {piece.local(), arena.spec(layout, placements, whole.meta())};
}

const DTensor& SampleRunner::piece(MeshRun& run, std::size_t rank, const OpSample& sample,
                                   std::size_t slot, const Placements& placements) const {
  auto& known = run.pieces[rank][slot];
  for (const auto& [placed, tensor] : known) {
    if (placed == placements) return tensor;
  }
  const DTensor tensor = placed(sample_input(sample, slot, seed_, floats_of(run.precision)),
                                sample.inputs[slot].fill, run.layout, placements, slot);
  if (run.expected.leaves[slot]) require_grad(tensor);
  return known.emplace_back(placements, tensor).second;
}

// The gradient is placed in another way from call to call. Each way is made once.
DTensor SampleRunner::gradient(MeshRun& run, std::size_t rank, const DTensor& result,
                               std::size_t number) const {
  const MeshLayout* layout = run.layout;
  const Placements choices = gradient_choices(result.shape(), result.dtype());
  Placements placements(layout->ndim(), Placement::replicate());
  placements[number % layout->ndim()] = choices[number % choices.size()];
  const DTensorSpec* spec =
      layout->arena().spec(layout, placements, contiguous_meta(result.shape(), result.dtype()));
  auto& known = run.gradients[rank];
  const auto found = std::ranges::find(known, spec, &std::pair<const DTensorSpec*, Tensor>::first);
  if (found != known.end()) return {found->second, spec};
  const Tensor whole = sample_gradient(result.shape(), seed_, result.dtype());
  const DTensor own = placed(whole, Fill::kReal, layout, placements, kGradientSlot);
  known.emplace_back(spec, own.local());
  return own;
}

void SampleRunner::call_on_rank(MeshRun& mesh, std::size_t rank, const OpSample& sample,
                                const Placing& placing, std::size_t number, Sent& sent) const {
  CallOutcome& outcome = mesh.outcomes[rank][number];
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
std::size_t SampleRunner::perform_from(std::size_t begin, const OpSample& sample,
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

void SampleRunner::perform(const OpSample& sample, std::span<const Placing> placings,
                           MeshRun& run) {
  for (std::vector<CallOutcome>& own : run.outcomes) {
    own.clear();
    own.resize(placings.size());
  }
  std::size_t next = 0;
  while (next < placings.size()) next = perform_from(next, sample, placings, run);
}

}  // namespace shardlab
