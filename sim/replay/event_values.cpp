// A rank leaves snapshots of the values behind each event; the last rank of an event hands on all
// events that are complete.
#include "sim/replay/event_values.h"

#include <mutex>
#include <utility>

#include "sim/replay/recorded_world.h"

namespace shardlab {

const DTensor& EventValues::on(std::int32_t number, std::size_t rank) const {
  static const DTensor kNone;
  const auto found = values_.find(number);
  return found == values_.end() ? kNone : found->second[rank];
}

void EventValues::set(std::int32_t number, std::size_t rank, DTensor value) {
  values_.try_emplace(number, ranks_).first->second[rank] = std::move(value);
}

namespace {

// Events that some ranks are through.
class OpenEvents {
 public:
  OpenEvents(const PlayedGraph& graph, const SeenTable& seen, std::size_t ranks,
             const OnEvent& on_event)
      : ranks_(ranks), on_event_(on_event) {
    std::size_t begin = 0;
    for (std::size_t event = 0; event < graph.end_of.size(); ++event) {
      const auto [first, end] = seen.ranks_of(event);
      missing_.push_back(graph.end_of[event] == begin ? 0 : end - first);
      begin = graph.end_of[event];
    }
  }

  void leave(std::size_t event, std::size_t rank,
             std::vector<std::pair<std::int32_t, DTensor>>&& own) {
    const std::lock_guard lock(mutex_);
    EventValues& all = open_.try_emplace(event, ranks_).first->second;
    for (auto& [number, value] : own) all.set(number, rank, std::move(value));
    --missing_[event];
    hand_on();
  }

  // Events without nodes at the end; what is not complete stays out.
  void end() { hand_on(); }

 private:
  void hand_on() {
    for (; next_ < missing_.size() && missing_[next_] == 0; ++next_) {
      const auto found = open_.find(next_);
      on_event_(next_, found == open_.end() ? EventValues(ranks_) : found->second);
      if (found != open_.end()) open_.erase(found);
    }
  }

  const std::size_t ranks_;
  const OnEvent& on_event_;
  std::mutex mutex_;
  std::vector<std::size_t> missing_;  // by event: ranks that have not come yet
  std::map<std::size_t, EventValues> open_;
  std::size_t next_ = 0;
};

class CollectingWatch final : public Watch {
 public:
  CollectingWatch(const WatchPlace& place, OpenEvents& open) : Watch(place), open_(open) {}

 private:
  void after(std::size_t event, ReplayState& state) override {
    std::vector<std::pair<std::int32_t, DTensor>> own;
    for_each_named(program().events[event], rank(), [&](std::int32_t number) {
      const DTensor& value = state.values()[static_cast<std::size_t>(number)];
      if (value.defined())
        own.emplace_back(number, DTensor(value.local().snapshot(), value.spec()));
    });
    open_.leave(event, rank(), std::move(own));
  }

  OpenEvents& open_;
};

}  // namespace

void play_events(const RecordedProgram& program, const std::vector<PlayedEdit>& edits,
                 const OnEvent& on_event) {
  const PlayedGraph graph = played_graph(program, Looks::kAll, edits);
  RecordedWorld world(program, replay_settings());
  SeenTable seen(program, world.ranks());
  OpenEvents open(graph, seen, world.ranks(), on_event);
  world.play(graph, world.watches<CollectingWatch>(graph, seen, open));
  open.end();
}

}  // namespace shardlab
