// No exception of a rank leaves its thread or fiber: it is kept as the rank's outcome.
#include "sim/world/rank_life.h"

#include <new>

#include "api/program.h"
#include "comm/device_mesh.h"
#include "comm/filling.h"
#include "comm/process_group.h"

namespace shardlab {

namespace {

// A lack of memory is caused by the program; any other exception that is not an Error is a defect.
Error foreign_error(const std::exception& exception) {
  const bool out_of_memory = dynamic_cast<const std::bad_alloc*>(&exception) != nullptr;
  if (!out_of_memory) return Error(ErrorKind::kInternal, exception.what());
  return Error(ErrorKind::kRuntime, "out of memory")
      .with("fix", "use fewer ranks or smaller tensors");
}

RankOutcome outcome_of(const std::function<void()>& function) {
  try {
    function();
    return {};
  } catch (const Error& error) {
    return {error, nullptr};
  } catch (const std::exception& exception) {
    return {foreign_error(exception), std::current_exception()};
  } catch (...) {
    return {Error(ErrorKind::kInternal, kUnknownException), std::current_exception()};
  }
}

}  // namespace

RankLife::RankLife(const WorldOptions& options, std::uint64_t run, std::int64_t rank,
                   Device* device, Scheduler* scheduler)
    : options_(options), outside_(nullptr) {
  context_.rank = rank;
  if (run != 0) context_.identity = (run << 32) + static_cast<std::uint64_t>(rank) + 1;
  context_.world_size = options.ranks;
  context_.device = device;
  context_.scheduler = scheduler;
  context_.propagator = options.propagator;
  context_.plans = options.plans;
  context_.calls = &plain_program();
  context_.own_calls = &plain_program();
  context_.random.seed = options.seed;
  context_.mixed = options.mixed;
  context_.implicit = options.implicit;
  if (options.transport) {
    context_.mode |= has_fabric(options) ? kModePolls : kModeBufferedSends;
    if (*options.transport >= Transport::kPairQueue) context_.mode |= kModeQueues;
  }
  outside_ = set_current_rank(&context_);
}

RankOutcome RankLife::run(const std::function<std::unique_ptr<Communicator>()>& communicator,
                          const std::function<void(RankContext&)>& body,
                          const std::function<void(const Error& cause)>& failed) {
  const auto reported = [&](RankOutcome outcome) {
    if (outcome.error && failed) failed(*outcome.error);
    return outcome;
  };
  RankOutcome inside;
  RankOutcome around = outcome_of([&] {
    std::unique_ptr<Communicator> all = communicator();
    if (options_.communicator) all = options_.communicator(std::move(all));
    ProcessGroup world(std::move(all));
    MeshRegistry meshes(world);
    context_.world = &world;
    context_.meshes = &meshes;
    inside = reported(outcome_of([&] { body(context_); }));
  });
  return inside.error ? inside : reported(std::move(around));
}

}  // namespace shardlab
