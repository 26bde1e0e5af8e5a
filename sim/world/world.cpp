// One run of a world: every rank gets a context of its own, and nothing that it throws leaves its
// thread or fiber. It is kept as the rank's outcome, told to the backend, which frees the ranks
// that wait for this one, and sorted at the end (B-7): a rank that failed only because another one
// did carries the verdict in its error, so that the lowest rank without one names the cause,
// whatever the schedule was. Where ranks are processes, the outcomes are exchanged at the end, so
// that each process reports the same.
#include "sim/world/world.h"

#include <algorithm>
#include <utility>

#include "backends/process/control_channel.h"
#include "backends/process/messages.h"
#include "base/fix.h"
#include "comm/device_mesh.h"
#include "comm/process_group.h"
#include "sim/schedule/single_scheduler.h"
#include "sim/world/foreign_error.h"

namespace shardlab {

namespace {

struct Outcome {
  std::optional<Error> error;
  std::exception_ptr foreign;
};

Outcome outcome_of(const std::function<void()>& function) {
  try {
    function();
    return {};
  } catch (const Error& error) {
    return {error, nullptr};
  } catch (const std::exception& exception) {
    return {foreign_error(exception), std::current_exception()};
  } catch (...) {
    return {Error(ErrorKind::kInternal, "an exception of unknown type"), std::current_exception()};
  }
}

// What a rank throws because another one failed, and every rank for mismatch and deadlock.
bool repeats_verdict(const Error& error) { return error.find("verdict") != nullptr; }

class Run {
 public:
  Run(const WorldOptions& options, Scheduler& scheduler, std::vector<Device*> devices,
      std::unique_ptr<Backend> backend, const std::function<void(RankContext&)>& body)
      : options_(options),
        scheduler_(scheduler),
        devices_(std::move(devices)),
        body_(body),
        backend_(std::move(backend)),
        outcomes_(static_cast<std::size_t>(options.ranks)) {}

  void serve(std::int64_t rank) {
    RankContext context;
    context.rank = rank;
    context.world_size = options_.ranks;
    context.device = devices_[static_cast<std::size_t>(rank)];
    context.scheduler = &scheduler_;
    context.propagator = options_.propagator;
    context.plans = options_.plans;
    context.random.seed = options_.seed;
    context.mixed = options_.mixed;
    context.implicit = options_.implicit;
    RankContext* outside = set_current_rank(&context);
    Outcome outcome = outcome_of([&] { live(context); });
    if (outcome.error) backend_->rank_failed(rank, *outcome.error);
    backend_->rank_ended(rank);
    set_current_rank(outside);
    outcomes_[static_cast<std::size_t>(rank)] = std::move(outcome);
  }

  /// Makes the outcomes of all processes known on each.
  void share_outcomes(process::ControlChannel& channel) {
    process::Writer writer;
    const Outcome& mine = outcomes_[static_cast<std::size_t>(channel.rank())];
    writer.put(mine.error.has_value());
    if (mine.error) put(writer, *mine.error);
    const std::vector<std::string> all = channel.end_run(writer.take());
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      if (rank == static_cast<std::size_t>(channel.rank())) continue;
      Outcome& outcome = outcomes_[rank];
      if (all[rank].empty()) {
        // Its process is gone: the verdict is all that is known of it.
        outcome.error = to_error(channel.verdict());
        continue;
      }
      process::Reader reader(all[rank]);
      if (reader.get<bool>()) outcome.error = process::get_error(reader);
    }
  }

  WorldResult result() {
    WorldResult result;
    if (const Verdict* verdict = backend_->verdict()) result.verdict = *verdict;
    for (std::size_t i = 0; i < outcomes_.size(); ++i) {
      Outcome& outcome = outcomes_[i];
      if (!outcome.error) continue;
      const bool consequence = repeats_verdict(*outcome.error);
      result.failures.push_back({static_cast<std::int64_t>(i), std::move(*outcome.error),
                                 std::move(outcome.foreign), consequence});
    }
    return result;
  }

 private:
  void live(RankContext& context) {
    std::unique_ptr<Communicator> communicator = backend_->world(context.rank);
    if (options_.communicator) communicator = options_.communicator(std::move(communicator));
    ProcessGroup world(std::move(communicator));
    MeshRegistry meshes(world);
    context.world = &world;
    context.meshes = &meshes;
    body_(context);
    backend_->settle(context.rank);
  }

  const WorldOptions& options_;
  Scheduler& scheduler_;
  const std::vector<Device*> devices_;
  const std::function<void(RankContext&)>& body_;
  std::unique_ptr<Backend> backend_;
  std::vector<Outcome> outcomes_;
};

// The failure that explains the others. Of ranks that failed on their own, the lowest, which does
// not depend on the scheduler as the first does.
const RankFailure& primary_of(const WorldResult& result) {
  const auto own = std::ranges::find(result.failures, false, &RankFailure::consequence);
  return own == result.failures.end() ? result.failures.front() : *own;
}

struct AlikeFailures {
  const RankFailure* first = nullptr;
  std::vector<std::int64_t> ranks;
};

// Ranks that failed on their own, grouped by equal errors, in the order of their first ranks.
std::vector<AlikeFailures> alike_failures(const std::vector<RankFailure>& failures) {
  std::vector<AlikeFailures> sets;
  for (const RankFailure& failure : failures) {
    if (failure.consequence) continue;
    const auto same = std::find_if(sets.begin(), sets.end(), [&](const AlikeFailures& set) {
      return set.first->error.summary() == failure.error.summary();
    });
    if (same == sets.end()) {
      sets.push_back({&failure, {failure.rank}});
    } else {
      same->ranks.push_back(failure.rank);
    }
  }
  return sets;
}

}  // namespace

Error WorldResult::merged() const {
  const RankFailure& primary = primary_of(*this);
  if (repeats_verdict(primary.error)) return primary.error;
  Error error = primary.error;
  std::string others;
  for (const AlikeFailures& set : alike_failures(failures)) {
    if (set.first->error.summary() == primary.error.summary()) {
      // Of those that say the same, the lowest rank speaks: it doesn't depend on the scheduler.
      error = set.first->error;
      error.with("failed", fold_ranks(set.ranks));
    } else {
      others += fmt::format("{}{}: {}", others.empty() ? "" : "\n", fold_ranks(set.ranks),
                            set.first->error.summary());
    }
  }
  if (!others.empty()) error.with("others", std::move(others));
  return error;
}

void WorldResult::rethrow() const {
  if (ok()) return;
  const RankFailure& primary = primary_of(*this);
  if (primary.foreign) std::rethrow_exception(primary.foreign);
  throw merged();
}

World::World(WorldOptions options)
    : options_(std::move(options)), backend_(find_backend(options_.backend)) {
  if (options_.ranks < 1) {
    fail(ErrorKind::kValue, Fix{"set WorldOptions::ranks"},
         "the world has {} ranks; it must have at least 1", options_.ranks);
  }
  if (!options_.device) {
    fail(ErrorKind::kValue, Fix{"set WorldOptions::device"},
         "the world has no device for its ranks");
  }
  if (is_shape_only(options_.backend)) {
    fail(ErrorKind::kValue, Fix{"use run_classes() for this backend"},
         "backend {} runs one rank of each class, not a world of all ranks", options_.backend);
  }
  if (backend_.processes == nullptr) {
    scheduler_ = make_scheduler(options_.schedule);
    return;
  }
  channel_ = &backend_.processes->join();
  if (channel_->size() != options_.ranks) {
    throw Error(ErrorKind::kValue,
                fmt::format("a world of {} ranks in a job of {} processes, which backend {} gives "
                            "one rank each",
                            options_.ranks, channel_->size(), options_.backend))
        .with("fix", fmt::format("{} shardlab ...", backend_.processes->launcher(options_.ranks)));
  }
  scheduler_ = std::make_unique<SingleScheduler>(channel_->rank());
}

WorldResult World::run(const std::function<void(RankContext&)>& body) {
  std::vector<Device*> devices;
  devices.reserve(static_cast<std::size_t>(options_.ranks));
  for (std::int64_t rank = 0; rank < options_.ranks; ++rank) {
    devices.push_back(&options_.device(rank));
  }
  if (channel_ != nullptr) channel_->begin_run();
  std::unique_ptr<Backend> backend = channel_ != nullptr
                                         ? backend_.processes->make(options_.checks)
                                         : backend_.make(options_.ranks, *scheduler_);
  Run run(options_, *scheduler_, std::move(devices), std::move(backend), body);
  scheduler_->run(options_.ranks, [&run](std::int64_t rank) { run.serve(rank); });
  if (channel_ != nullptr) run.share_outcomes(*channel_);
  return run.result();
}

WorldResult run_world(WorldOptions options, const std::function<void(RankContext&)>& body) {
  return World(std::move(options)).run(body);
}

}  // namespace shardlab
