// The second replay is the first one bit by bit, so that operands need to be kept only where
// something differs.
#include "sim/replay/second_look.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "dispatch/all_ops.h"
#include "schema/op_row.h"
#include "sim/replay/reference_errors.h"
#include "sim/verify/global_value.h"
#include "tensor/host.h"

namespace shardlab {

namespace {

constexpr int kSamples = 6;
constexpr int kRandom = 4;     // in the others all magnitudes grow, or shrink: norms differ by that
constexpr double kFactor = 8;  // an error is rounding up to so many times what rounding moves

// Facts about a suspect that the ranks find.
struct Looked {
  std::array<SeenValue, kSamples> moved;       // the result, on changed operands
  std::vector<std::vector<DTensor>> operands;  // by operand, by rank
};

// Elements moved up or down by the noise, by a fixed draw.
Tensor perturbed(const Tensor& tensor, double noise, int sample) {
  if (unit_roundoff(tensor.dtype()) == 0 || is_complex(tensor.dtype())) return tensor.snapshot();
  std::vector<double> elements = read_doubles(tensor);
  double size = 0;
  for (const double element : elements) size += std::fabs(element);
  const double mean = elements.empty() ? 0 : size / static_cast<double>(elements.size());
  // Each other sample goes the opposite way, so that each element is moved both up and down.
  std::uint64_t draw = 0x9E3779B97F4A7C15ull * static_cast<std::uint64_t>(sample / 2 + 1);
  const double way = sample % 2 == 0 ? noise : -noise;
  for (double& element : elements) {
    draw = draw * 6364136223846793005ull + 1442695040888963407ull;
    const bool up = sample < kRandom ? (draw >> 40) % 2 == 0 : element > 0;
    element += (up ? way : -way) * mean;
  }
  Tensor result = empty(*tensor.device(), tensor.meta());
  write_doubles(result, elements);
  return result;
}

// All ranks of a second look share these.
struct SecondLooks {
  const std::vector<Suspect>& suspects;
  std::map<std::size_t, std::vector<std::size_t>> by_event = {};  // numbers of suspects
  std::vector<Looked> looked = {};
  SeenValues values = {};
  std::size_t ranks = 1;
};

class SecondWatch final : public Watch {
 public:
  SecondWatch(const WatchPlace& place, SecondLooks& looks) : Watch(place), looks_(looks) {}

 private:
  void before(std::size_t event, ReplayState& state) override {
    const auto here = looks_.by_event.find(event);
    if (here == looks_.by_event.end()) return;
    for (const std::size_t number : here->second) {
      keep_operands(number, state);
      if (looks_.suspects[number].may_be_rounding) run_perturbed(number, state);
    }
  }

  void keep_operands(std::size_t number, const ReplayState& state) {
    Looked& looked = looks_.looked[number];
    const auto& noise = looks_.suspects[number].noise;
    for (std::size_t i = 0; i < noise.size(); ++i) {
      const DTensor& x = state.values()[static_cast<std::size_t>(noise[i].first)];
      looked.operands[i][rank()] = DTensor(x.local().snapshot(), x.spec());
    }
  }

  // Only an event of one node can run again by itself.
  void run_perturbed(std::size_t number, ReplayState& state) {
    const Suspect& suspect = looks_.suspects[number];
    std::size_t node = 0, count = 0;
    for (std::size_t i = 0; i < graph().graph.nodes.size(); ++i) {
      const std::int32_t only = graph().graph.nodes[i].rank;
      const bool own = only < 0 || only == static_cast<std::int32_t>(rank());
      if (graph().event_of[i] != suspect.event || !own) continue;
      node = i;
      ++count;
    }
    const RecordedEvent& event = program().events[suspect.event];
    const Given given = given_by(event)[suspect.index];
    const std::int32_t written = given.value->id.id;
    if (count != 1) return;
    const bool norm = bare_op(event.op).find("norm") != std::string_view::npos;
    for (int sample = 0; sample < (norm ? kSamples : kRandom); ++sample) {
      std::vector<DTensor> before;
      for (const auto& [operand, noise] : suspect.noise) {
        const DTensor x = state.values()[static_cast<std::size_t>(operand)];
        before.push_back(x);
        state.put({operand}, DTensor(perturbed(x.local(), noise, sample), x.spec()));
      }
      try {
        Results results = state.again(node);
        DTensor moved = state.values()[static_cast<std::size_t>(written)];
        std::size_t at = 0;
        for_each_tensor(results, [&](const DTensor& x) {
          if (!given.written() && at++ == given.index) moved = x;
        });
        looks_.values.add(looks_.looked[number].moved[static_cast<std::size_t>(sample)],
                          event.first_rank(), rank(), looks_.ranks, moved);
      } catch (const Error& error) {
        if (error.kind() == ErrorKind::kRuntime) throw;
      }
      for (std::size_t i = 0; i < before.size(); ++i) {
        state.put({suspect.noise[i].first}, before[i]);
      }
    }
  }

  SecondLooks& looks_;
};

// True when the op, on operands changed by their rounding, gives results that differ as much: for a
// quotient of cancelling terms, as in optimizers, that is much.
bool is_rounding(const EventValue& recorded, const SeenValue& ours, const Looked& looked) {
  const auto sums_of = [](const SeenValue& seen, std::size_t rank) -> const double* {
    if (seen.parts.empty() || !seen.parts[rank].there) return nullptr;
    return (seen.whole ? seen.whole->sums : seen.parts[rank].print.sums).data();
  };
  const std::size_t prints = ours.whole ? 1 : ours.parts.size();
  for (std::size_t rank = 0; rank < prints; ++rank) {
    const RecordedPrint& expected = recorded.prints[recorded.prints.size() == 1 ? 0 : rank];
    const double* own = sums_of(ours, rank);
    double moved = 0, off = 0;
    const auto far = [&](double& most, const auto& other) {
      for (const std::size_t i : {0, 1}) {
        const auto weight = static_cast<double>(i * 3 + 1);
        most = std::max(most, std::fabs(other[i] - own[i]) / weight);
      }
    };
    far(off, expected);
    for (const SeenValue& sample : looked.moved) {
      if (const double* again = sums_of(sample, rank)) far(moved, again);
    }
    if (off > kFactor * moved) return false;
  }
  return true;
}

DTensor whole_of(const std::vector<DTensor>& parts) {
  const DTensor& first = parts[0];
  std::vector<AssemblyFault> faults;
  GlobalValue whole = whole_value(first.local());
  if (first.distributed()) {
    whole = assemble(*first.spec(), pieces_of(*first.spec()->layout(), parts), faults);
  }
  const DType dtype = is_floating(whole.meta.dtype) ? DType::kF64 : whole.meta.dtype;
  const Tensor tensor = empty(*first.local().device(), whole.meta.shape, dtype);
  whole.is_integral() ? write_integers(tensor, whole.integers) : write_doubles(tensor, whole.reals);
  return DTensor(tensor);
}

// The results of an op on whole operands, in f64, on one device; none where it fails.
std::optional<Fingerprint> print_apart(const RecordedProgram& program, const Suspect& suspect,
                                       const Looked& looked, Device& device) {
  const RecordedEvent& event = program.events[suspect.event];
  ProgramGraph graph;
  graph.meshes = {{.names = {"all"}, .shape = {1}, .ranks = {}, .part = {}}};
  graph.values = program.values;
  std::vector<DTensor> inputs;
  for (std::size_t i = 0; i < suspect.noise.size(); ++i) {
    GraphNode& input = graph.nodes.emplace_back();
    input.kind = NodeKind::kInput;
    input.results = {{ValueRef{suspect.noise[i].first}, {}}};
    inputs.push_back(whole_of(looked.operands[i]));
  }
  GraphNode& op = graph.nodes.emplace_back();
  op.taped = false;
  op.name = event.row->op.name();
  op.args = event.args;
  for (const EventValue& out : event.out) op.results.push_back({out.id, {}});
  graph.outputs = {given_by(event)[suspect.index].value->id};
  std::optional<Fingerprint> print;
  Propagator propagator(all_ops(), PlanOptions{});
  WorldOptions options;
  options.device = [&](std::int64_t) -> Device& { return device; };
  options.propagator = &propagator;
  options.plans = &propagator.plans();
  Arena arena;
  run_world(std::move(options), [&](RankContext&) {
    const Replayed apart = replay(graph, arena, inputs, {.recorded = true});
    if (apart.outputs[0].defined()) print = Fingerprint(apart.outputs[0].local());
  });
  return print;
}

// Whether PyTorch computes the op wrongly in this form, and our result is the op's on whole
// operands in f64. Values that are computed from it are off by as much.
bool is_mistake_of_reference(const RecordedProgram& program, const Suspect& suspect,
                             const SeenValue& ours, const Looked& looked, Device& device,
                             ReplayDifference& difference) {
  const RecordedEvent& event = program.events[suspect.event];
  if (event.row == nullptr || suspect.noise.empty() || (!ours.whole && ours.parts.size() != 1)) {
    return false;
  }
  std::vector<DTensor> operands;
  for (const auto& parts : looked.operands) {
    const auto one = std::ranges::find_if(parts, &DTensor::defined);
    if (one == parts.end()) return false;
    operands.push_back(*one);
  }
  const ReferenceError* known = reference_error(event, operands);
  if (known == nullptr || suspect.off > known->most) return false;
  const auto apart = print_apart(program, suspect, looked, device);
  const EventValue& value = *given_by(event)[suspect.index].value;
  const PrintOrigin origin{.coarsest = value.type.dtype, .exact = false};
  const Fingerprint& own = ours.whole ? *ours.whole : ours.parts[0].print;
  const bool right =
      apart && compare_prints(apart->sums, own, origin).verdict == PrintVerdict::kAgrees;
  if (right) difference.known = fmt::format("{}: {}", known->id, known->what);
  return right;
}

}  // namespace

void look_again(const RecordedProgram& program, const PlayedGraph& graph, RecordedWorld& world,
                const std::vector<Suspect>& suspects, ReplayReport& report) {
  SecondLooks looks{.suspects = suspects, .ranks = world.ranks()};
  SeenTable seen(program, world.ranks());
  for (std::size_t i = 0; i < suspects.size(); ++i) {
    looks.by_event[suspects[i].event].push_back(i);
    Looked& looked = looks.looked.emplace_back();
    looked.operands.assign(suspects[i].noise.size(), std::vector<DTensor>(world.ranks()));
    const auto [first, end] = seen.ranks_of(suspects[i].event);
    for (SeenValue& sample : looked.moved) sample.parts.resize(end - first);
  }
  world.play(graph, world.watches<SecondWatch>(graph, seen, looks));
  for (std::size_t i = 0; i < suspects.size(); ++i) {
    const Suspect& suspect = suspects[i];
    const RecordedEvent& event = program.events[suspect.event];
    const EventValue& value = *given_by(event)[suspect.index].value;
    const SeenValue& ours = seen.at(suspect.event).values[suspect.index];
    ReplayDifference difference = suspect.difference;
    if (suspect.may_be_rounding && is_rounding(value, ours, looks.looked[i])) {
      ++report.undecided;
    } else if (is_mistake_of_reference(program, suspect, ours, looks.looked[i], world.device(),
                                       difference)) {
      // The wrong form is one that our rule does not take.
      std::erase_if(report.rules,
                    [&](const ReplayDifference& one) { return one.line == difference.line; });
      report.reference.push_back(std::move(difference));
    } else {
      report.differences.push_back(std::move(difference));
    }
  }
}

}  // namespace shardlab
