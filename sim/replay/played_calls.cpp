// A rank notes at each event how many calls there were before: the calls behind are the event's.
#include "sim/replay/played_calls.h"

#include <algorithm>

#include "sim/log/trace.h"
#include "sim/replay/recorded_world.h"
#include "sim/replay/watch.h"

namespace shardlab {

namespace {

class CallWatch final : public Watch {
 public:
  CallWatch(const RecordedProgram& program, const PlayedGraph& graph, SeenTable& seen,
            std::size_t rank, const MeshLayout* mesh, const FabricLog& log)
      : Watch(program, graph, seen, rank, mesh), log_(log) {}

  // Calls are logged where somebody observes them.
  Observer* observer() override {
    Observer* const rules = Watch::observer();
    return rules != nullptr ? rules : &trace_;
  }
  /// The event that made a call of this rank.
  std::size_t event_of(std::size_t call) const {
    return std::ranges::upper_bound(begun_, call, {}, &Begun::calls)[-1].event;
  }

 protected:
  void before(std::size_t event, ReplayState&) override {
    begun_.push_back({log_.calls.size(), event});
  }

 private:
  struct Begun {
    std::size_t calls = 0, event = 0;
  };
  const FabricLog& log_;
  Trace trace_{TraceDetail::kCounts};
  std::vector<Begun> begun_{{}};
};

}  // namespace

PlayedCalls played_calls(const RecordedProgram& program) {
  PlayedCalls result;
  const PlayedGraph graph = played_graph(program);
  ReplaySettings settings = replay_settings();
  settings.schedule.workers = 1;
  settings.log = &result.log;
  RecordedWorld world(program, settings);
  SeenTable seen(program, world.ranks());
  std::vector<std::unique_ptr<CallWatch>> watches;
  std::vector<Watch*> played;
  for (std::size_t rank = 0; rank < world.ranks(); ++rank) {
    watches.push_back(
        std::make_unique<CallWatch>(program, graph, seen, rank, world.mesh(), result.log));
    played.push_back(watches.back().get());
  }
  result.verdict = world.play(graph, played).verdict;
  for (std::size_t i = 0; i < result.log.calls.size(); ++i) {
    const CallWatch& watch = *watches[static_cast<std::size_t>(result.log.calls[i].rank)];
    result.places.push_back(place_of(program, program.events[watch.event_of(i)]));
  }
  return result;
}

}  // namespace shardlab
