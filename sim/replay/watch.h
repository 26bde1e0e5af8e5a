// watch.h - a rank's listener in a replay of a recording: inputs come from the file, memory is laid
// out and drawn as it was there, and facts about all values go into a table.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "comm/observer.h"
#include "sim/replay/played_graph.h"
#include "sim/replay/seen.h"
#include "trace/replay.h"

namespace shardlab {

/// A call of_loss_parallel() on this rank: the op exchanges the parts of the other classes that it
/// needs. `op`: "aten::_log_softmax", with the arguments of its schema.
Results loss_of_pieces(std::string_view op, const Arguments& args);

/// A rank's part in a replay.
struct WatchPlace {
  const RecordedProgram& program;
  const PlayedGraph& graph;
  SeenTable& seen;
  const MeshLayout* mesh;  ///< of all ranks
  std::size_t rank;
};

/// Used by its rank alone; what it refers to outlives it.
class Watch : public ReplayListener {
 public:
  explicit Watch(const WatchPlace& place);
  ~Watch() override;

  bool begins(std::size_t node, ReplayState& state) final;
  std::optional<Results> run(std::size_t node, const Arguments& args) final;
  void made(std::size_t node, Results& results) final;
  bool failed(std::size_t node, const Error& error, ReplayState& state) final;
  void ended(std::size_t node, ReplayState& state) final;

  /// It is to observe the rank while the graph runs; null: nothing does.
  virtual Observer* observer();
  /// The event that the rank is at.
  std::size_t at() const { return at_; }

 protected:
  /// Before the first node of an event that is about to run, and after an event.
  virtual void before(std::size_t event, ReplayState& state) {
    static_cast<void>(event), static_cast<void>(state);
  }
  virtual void after(std::size_t event, ReplayState& state) {
    static_cast<void>(event), static_cast<void>(state);
  }
  std::size_t rank() const { return rank_; }
  const RecordedProgram& program() const { return program_; }
  const PlayedGraph& graph() const { return graph_; }

 private:
  class Rule;

  // True: the nodes of the event run.
  bool begin_event(ReplayState& state);
  void give(const EventValue& value, ReplayState& state);
  bool take_recorded(const RecordedEvent& event, ReplayState& state);
  void write_recorded(const EventValue& value, const Tensor& tensor) const;
  void view(const RecordedEvent& event, ReplayState& state);
  bool has_operands(const RecordedEvent& event, const ReplayState& state) const;
  void keep_rule();
  void restore(const RecordedEvent& event, Results& results) const;
  void settle(const RecordedEvent& event, Results& results, const ReplayState& state) const;
  void suppose(const RecordedEvent& event, ReplayState& state);
  void forget(const RecordedEvent& event, ReplayState& state);
  void note_sizes(const RecordedEvent& event, const ReplayState& state);
  void note_values(const RecordedEvent& event, ReplayState& state);
  void note_write(std::int32_t number, const ReplayState& state);
  // The values of other numbers in this memory.
  std::vector<std::int32_t> sharing(const DTensor& value, const ReplayState& state);
  const DTensor& value(std::int32_t number, const ReplayState& state) const {
    return state.values()[static_cast<std::size_t>(number)];
  }
  SeenOnRank& now() { return seen_.on_rank(at_, rank_); }

  const RecordedProgram& program_;
  const PlayedGraph& graph_;
  SeenTable& seen_;
  const std::size_t rank_;
  const MeshLayout* mesh_;  // of all ranks
  std::size_t at_ = 0;
  bool runs_ = true;  // the nodes of the event run
  ReplayState* state_ = nullptr;
  std::unique_ptr<Rule> rule_;      // of the first rank, where the program has DTensors
  std::set<std::int32_t> written_;  // numbers whose memory was written through another one
  std::unordered_map<const Storage*, std::vector<std::int32_t>> by_memory_;
};

}  // namespace shardlab
