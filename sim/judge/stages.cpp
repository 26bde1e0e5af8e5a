// A stage's ranks have the values of one device along all dims but the kept ones. Its values are
// judged as those of a run of their own, in which no other rank has any.
#include "sim/judge/stages.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <tuple>

#include "sim/run/mesh_names.h"

namespace shardlab {

namespace {

using Operations = std::map<std::tuple<std::int64_t, int, Operation::Kind>, std::int64_t>;

// The number of sends and receives by rank and line.
Operations messages_in(const FabricLog& log) {
  Operations all;
  for (const FabricLog::Call& call : log.calls) {
    if (call.what.kind == Operation::Kind::kCollective) continue;
    ++all[{call.rank, call.position.line, call.what.kind}];
  }
  return all;
}

// Along which a sender and its receiver have other coordinates.
std::uint32_t crossed_dims(const FabricLog& log, const MeshLayout& layout) {
  std::uint32_t crossed = 0;
  for (const FabricLog::Call& call : log.calls) {
    if (call.what.kind != Operation::Kind::kSend) continue;
    const auto from = layout.coordinate_of(call.rank), to = layout.coordinate_of(call.what.peer);
    for (std::size_t dim = 0; from && to && dim < layout.ndim(); ++dim) {
      if ((*from)[dim] != (*to)[dim]) crossed |= 1u << dim;
    }
  }
  return crossed;
}

// `one`: of the dims that have size 1.
MeshLayout::Init resized(const MeshLayout& layout, std::uint32_t one) {
  MeshLayout::Init init{.shape = layout.shape(), .names = layout.names()};
  for (std::size_t dim = 0; dim < layout.ndim(); ++dim) {
    if ((one >> dim & 1) != 0) init.shape[dim] = 1;
  }
  return init;
}

bool is_within(const MeshLayout* mesh, const MeshLayout& part) {
  for (std::int64_t i = 0; mesh != nullptr && i < mesh->size(); ++i) {
    if (!part.coordinate_of(mesh->rank_at_index(i))) return false;
  }
  return true;
}

// The report of all ranks for one of a stage, whose ranks may give the name values more often.
std::size_t place_of(const ValueReport& own, const std::vector<ValueReport>& all) {
  std::size_t place = all.size();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].name != own.name || all[i].at_end != own.at_end) continue;
    const bool same = all[i].key() == own.key();
    if (same && all[i].where.span.begin == own.where.span.begin) return i;
    if (same || place == all.size() || all[place].key() != own.key()) place = i;
  }
  return place;
}

ScenarioOptions on_threads(const Run& run, FabricLog& log) {
  ScenarioOptions own = run.options;
  own.backend = "threads";
  own.communicator = nullptr;
  own.around_device = nullptr;
  own.progress = nullptr;
  own.memory_timeline = false;
  own.types.reset();
  own.log = &log;
  return own;
}

void execute_on(const MeshLayout& layout, std::int64_t world, const Run& run,
                const OpRegistry& registry, const ScenarioOptions& options, ProgramRun& ranks) {
  ranks.scenario = &run.scenario;
  ranks.registry = &registry;
  ranks.layout = ranks.reported = &layout;
  ranks.reported_world = world;
  execute(ranks, *run.propagator, world, options);
}

// Other backends log no messages: the ranks once more, on threads.
bool log_messages(const Run& run, const OpRegistry& registry, FabricLog& log) {
  log.most = 100'000;
  ProgramRun ranks;
  execute_on(*run.layout, run.scenario.world, run, registry, on_threads(run, log), ranks);
  return !ranks.error && !log.full();
}

enum class Found : std::uint8_t { kNothing, kRight, kTerms, kOpen, kWrong };

Found found_in(const ValueFacts& facts) {
  if (facts.comparable && facts.whole_or_pieces()) return Found::kRight;
  if (facts.comparable && facts.agrees()) return Found::kTerms;
  return facts.comparable && facts.fits == ValueFacts::Fits::kNo ? Found::kWrong : Found::kOpen;
}

}  // namespace

std::unique_ptr<Stages> Stages::of(const Run& run, const OpRegistry& registry) {
  constexpr std::size_t kMostTries = 4;
  constexpr std::int64_t kMostRanks = 64;
  const MeshLayout& layout = *run.layout;
  if (layout.size() > kMostRanks || layout.size() != run.scenario.world) return nullptr;
  FabricLog own;
  const FabricLog& log = run.options.log != nullptr ? *run.options.log : own;
  if (&log == &own ? !log_messages(run, registry, own) : log.full()) return nullptr;
  const std::uint32_t crossed = crossed_dims(log, layout);
  std::uint32_t longer = 0;
  for (std::size_t dim = 0; dim < layout.ndim(); ++dim) longer |= (layout.size(dim) > 1) << dim;
  std::vector<std::uint32_t> kept;
  for (std::uint32_t dims = crossed; crossed != 0 && dims < longer; ++dims) {
    if ((dims & ~longer) == 0 && (dims & crossed) == crossed) kept.push_back(dims);
  }
  std::ranges::stable_sort(kept, {}, [](std::uint32_t dims) { return std::popcount(dims); });
  for (std::size_t i = 0; i < std::min(kept.size(), kMostTries); ++i) {
    std::unique_ptr<Stages> stages(new Stages(run));
    const MeshLayout* small = layout.arena().layout(resized(layout, longer & ~kept[i]));
    for (std::size_t dim = 0; dim < layout.ndim(); ++dim) {
      if ((kept[i] >> dim & 1) != 0) stages->kept_.insert(layout.names()[dim]);
    }
    std::vector<MeshLayout::Init> parts(static_cast<std::size_t>(small->size()),
                                        resized(layout, kept[i]));
    for (std::int64_t k = 0; k < layout.size(); ++k) {
      Coordinate at = layout.coordinate_at_index(k);
      at.mesh = small;
      for (std::size_t dim = 0; dim < layout.ndim(); ++dim) at[dim] %= small->size(dim);
      const auto stage = static_cast<std::size_t>(small->index_of(at));
      parts[stage].ranks.push_back(layout.rank_at_index(k));
    }
    for (auto& part : parts) {
      stages->parts_.push_back(layout.arena().layout(std::move(part)));
    }
    if (stages->run_on(*small, registry, log)) return stages;
  }
  return nullptr;
}

bool Stages::run_on(const MeshLayout& small, const OpRegistry& registry, const FabricLog& ranks) {
  FabricLog log;
  const ScenarioOptions options = on_threads(run_, log);
  calls_ = std::make_unique<CallLog>(small.size());
  in_f64_.listener = calls_.get();
  in_f64_.precision = Precision::kReference;
  for (ProgramRun* run : {&single_, &in_f64_}) {
    execute_on(small, small.size(), run_, registry, options, *run);
    if (run->error) return false;
  }
  return !log.full() && sends_alike(log, ranks) && same_branches(single_.answers, in_f64_.answers);
}

bool Stages::sends_alike(const FabricLog& small, const FabricLog& ranks) const {
  Operations expected;
  for (const auto& [at, count] : messages_in(small)) {
    const auto& [stage, line, kind] = at;
    const MeshLayout& part = *parts_[static_cast<std::size_t>(stage)];
    for (std::int64_t i = 0; i < part.size(); ++i) {
      expected[{part.rank_at_index(i), line, kind}] = count;
    }
  }
  return expected == messages_in(ranks);
}

std::vector<const Recording*> Stages::only_of(int stage,
                                              std::vector<const Recording*> ranks) const {
  static const Recording kNobody(nullptr);
  const MeshLayout& part = *parts_[static_cast<std::size_t>(stage)];
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (!part.coordinate_of(static_cast<std::int64_t>(rank))) ranks[rank] = &kNobody;
  }
  return ranks;
}

VerifyInputs Stages::inputs_of(const VerifyInputs& all, std::size_t stage) const {
  VerifyInputs own = all;
  own.ranks = only_of(static_cast<int>(stage), all.ranks);
  own.ranks_in_f64 = only_of(static_cast<int>(stage), all.ranks_in_f64);
  own.keep = 0;
  own.early = nullptr;
  own.mesh = parts_[stage];
  own.reporting_rank = static_cast<std::size_t>(own.mesh->rank_at_index(0));
  own.one_device.emplace();
  own.one_device->single = {&single_.recordings[stage]};
  own.one_device->reference = {&in_f64_.recordings[stage]};
  own.one_device->largest = largest_in_f64(single_.recordings[stage], in_f64_.recordings[stage]);
  return own;
}

void Stages::judge(const VerifyInputs& all, RoleInputs roles, const DefUse::Ids& doubtful,
                   std::vector<ValueReport>& values) {
  roles.kept = kept_;
  roles.pieces.clear();
  std::vector<ValueReport> found = values;
  std::vector<std::pair<Found, int>> worst(values.size());
  for (std::size_t stage = 0; stage < parts_.size(); ++stage) {
    inputs_.push_back(inputs_of(all, stage));
    for (ValueReport& own : verify_values(inputs_.back())) {
      const std::size_t i = place_of(own, values);
      const bool apart = is_within(mesh_of(own, nullptr), *parts_[stage]);
      if (i == values.size() || own.facts.given) continue;
      const Found what = apart ? found_in(own.facts) : Found::kOpen;
      if (what <= worst[i].first) continue;
      worst[i] = {what, static_cast<int>(stage)};
      own.comparison.what =
          fmt::format("on {}: {}", place_in_mesh(run_, *parts_[stage]), own.comparison.what);
      own.kept = values[i].kept;
      own.event = values[i].event;
      found[i] = what == Found::kWrong ? own : values[i];
      static_cast<JudgedValue&>(found[i]) = std::move(own);
    }
  }
  find_roles(roles, found);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto [what, stage] = worst[i];
    ValueFacts& facts = found[i].facts;
    if (found[i].replicas_differ) facts.by_rank = facts.other_program = false;
    const bool doubted =
        facts.other_program || meet(doubtful, roles.flow->made_of(nodes_of(*roles.flow, found[i])));
    const bool known = values[i].facts.agrees() && !values[i].facts.other_program;
    if (known || what == Found::kNothing || what == Found::kOpen) continue;
    if (what != Found::kWrong) {
      facts.other_program = false;
      found[i].comparison.what.clear();
    }
    const Outcome outcome = outcome_of(facts).outcome;
    if (what == Found::kWrong || outcome == Outcome::kWrong || outcome == Outcome::kDiffers) {
      if (doubted && !found[i].replicas_differ) continue;
      wrong_in_[{found[i].key(), found[i].where.span.begin}] = stage;
    }
    values[i] = std::move(found[i]);
  }
}

int Stages::stage_of(const ValueReport& report) const {
  const auto found = wrong_in_.find({report.key(), report.where.span.begin});
  return found == wrong_in_.end() ? -1 : found->second;
}

}  // namespace shardlab
