// A rank leaves snapshots of the values behind each event; the last rank of an event hands on all
// events that are complete.
#include "sim/replay/event_values.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>

#include "schema/op_row.h"
#include "sim/replay/library_nodes.h"
#include "sim/replay/recorded_world.h"
#include "sim/replay/watch.h"

namespace shardlab {

const DTensor& EventValues::on(std::int32_t number, std::size_t rank) const {
  static const DTensor kNone;
  const auto found = values_.find(number);
  return found == values_.end() ? kNone : found->second[rank];
}

bool overwrites(const RecordedEvent& event) {
  constexpr std::string_view kOps[] = {"copy_",          "fill_",         "zero_",        "normal_",
                                       "uniform_",       "bernoulli_",    "exponential_", "random_",
                                       "_foreach_copy_", "_foreach_zero_"};
  const bool out =
      event.row != nullptr ? event.row->op.is_out_variant() : is_library_call(event.op);
  const bool draws = event.random && bare_op(event.op) == "rrelu_with_noise";
  return out || draws || std::ranges::find(kOps, bare_op(event.op)) != std::end(kOps);
}

// The global rank that a broadcast or a reduce names; none: it is another event, or names none.
static std::optional<std::int64_t> root_of(const RecordedProgram& program,
                                           const RecordedEvent& event) {
  if (event.args.size() < 3 || event.rank < 0 || event.group < 0) return std::nullopt;
  const RecordedGroup& all = program.groups.at(static_cast<std::size_t>(event.group));
  const auto& members = all.at(all.size() == 1 ? 0 : static_cast<std::size_t>(event.rank));
  const auto* root = std::get_if<Scalar>(&event.args[2].value);
  const bool known = root != nullptr && root->category() == Category::kInteger;
  return known ? std::optional(members.at(static_cast<std::size_t>(root->to_int()))) : std::nullopt;
}

bool reads(const RecordedProgram& program, const RecordedEvent& event, std::int32_t operand) {
  const std::string_view op = bare_op(event.op);
  if (op == "broadcast_") {
    const auto root = root_of(program, event);
    return !root || *root == event.rank;
  }
  const bool sums = op.starts_with("allreduce") || op.starts_with("all_reduce") || op == "reduce_";
  const auto is_it = [&](const EventValue& one) { return one.id.id == operand; };
  const bool given =
      std::ranges::any_of(event.out, is_it) || std::ranges::any_of(event.written, is_it);
  return sums || !given || !overwrites(event);
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
  CollectingWatch(const RecordedProgram& program, const PlayedGraph& graph, SeenTable& seen,
                  std::size_t rank, const MeshLayout* mesh, OpenEvents& open)
      : Watch(program, graph, seen, rank, mesh), open_(open) {}

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
  std::vector<std::unique_ptr<CollectingWatch>> watches;
  std::vector<Watch*> played;
  for (std::size_t rank = 0; rank < world.ranks(); ++rank) {
    watches.push_back(
        std::make_unique<CollectingWatch>(program, graph, seen, rank, world.mesh(), open));
    played.push_back(watches.back().get());
  }
  world.play(graph, played);
  open.end();
}

}  // namespace shardlab
