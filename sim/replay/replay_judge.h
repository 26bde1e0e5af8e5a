// replay_judge.h - the judgement on a replay: what was seen of each value against what PyTorch had.
// Facts about the rounding of values pass from operands to results, so that events are judged in
// their order, when all ranks have ended.
#pragma once

#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

#include "sim/replay/played_graph.h"
#include "sim/replay/replay_report.h"
#include "sim/replay/seen.h"

namespace shardlab {

/// A result that differs, and may be rounding, or a mistake of PyTorch: decided by the op, run
/// again on operands that are changed by their rounding, or on whole operands in f64.
struct Suspect {
  std::size_t event = 0;                               ///< its index
  std::size_t index = 0;                               ///< among the values that the event gives
  std::vector<std::pair<std::int32_t, double>> noise;  ///< operands, and the rounding of each
  bool may_be_rounding = false;
  double off = 0;  ///< the relative error
  ReplayDifference difference;
};

class ReplayJudge {
 public:
  /// All outlive it.
  ReplayJudge(const RecordedProgram& program, const PlayedGraph& graph, const SeenTable& seen);

  ReplayReport judge();
  /// Results that count as nothing yet.
  std::vector<Suspect>& suspects() { return suspects_; }

 private:
  // Facts about a value, without its elements.
  struct Known {
    PrintOrigin origin;
    double size = 0;   // sum of magnitudes; below 0: not known
    double noise = 0;  // rounding of an element, as a part of the mean magnitude
    // Errors of elements add up in its print as a random walk does: that of one, as a part of the
    // mean magnitude. The error of a jump, as that of a gradient of relu, shows in it.
    double element_error = 0;
    std::int64_t elements = 0;
    bool parted = false;  // ranks hold replicas that differ, or values computed from such
    bool vague = false;   // its rounding is as large as the value
    // It is computed from floats that are all vague: whatever it is may be rounding.
    bool of_vague = false;
    bool undefined = false;  // computed from memory that nothing had written
    bool unknown = false;    // made by a collective that read behind a tensor's memory
    DType dtype = DType::kF32;
    std::vector<const Storage*> memory;  // of its ranks
  };

  void judge_event();
  void take_as_given(std::int32_t number, const EventValue& value, bool undefined);
  void judge_call();
  void judge_messages();
  void misses(const std::string& op);
  void compare_errors();
  void compare_rule();
  void compare(const Given& one, std::size_t index, std::size_t results);
  void compare_print(const std::string& field, const Given& one, std::size_t index, Known& known);
  void compare_again(const Given& one);
  bool has_shape(const Given& one, const SeenValue& seen);
  Known known_of(const Given& one, std::size_t results) const;
  bool is_written(std::int32_t number) const;
  void inherit(Known& known, std::int32_t number, bool& any) const;
  double size_of(const SeenValue& seen) const;
  void note_memory(std::int32_t number, const SeenValue& seen);
  static void mix(Known& all, const Known& from);
  void spread(std::int32_t number);
  void let_go();
  ReplayDifference difference(std::string field, std::string expected, std::string got) const {
    return difference_at(program_, event(), std::move(field), std::move(expected), std::move(got));
  }
  void differs(std::string field, std::string expected, std::string got) {
    report_.differences.push_back(
        difference(std::move(field), std::move(expected), std::move(got)));
  }
  Known& known(std::int32_t number) { return known_[static_cast<std::size_t>(number)]; }
  const Known& known(std::int32_t number) const { return known_[static_cast<std::size_t>(number)]; }
  const RecordedEvent& event() const { return program_.events[at_]; }

  const RecordedProgram& program_;
  const PlayedGraph& graph_;
  const SeenTable& seen_;
  std::vector<Known> known_;           // by number
  std::vector<std::size_t> last_use_;  // by number: index of an event
  ReplayReport report_;
  std::vector<Suspect> suspects_;
  std::size_t at_ = 0;
  std::unordered_map<const Storage*, std::vector<std::int32_t>> by_memory_;
  std::unordered_map<std::size_t, Known> sent_;  // by event of a send
  std::deque<std::size_t> awaited_;              // events of receives
};

/// The recorded fingerprints against ours; the worst of all ranks.
PrintComparison compare_all(const EventValue& recorded, const SeenValue& ours,
                            const PrintOrigin& origin);
/// "[1.5,7.5]", or those of each rank.
std::string text_of(const SeenValue& seen);

}  // namespace shardlab
