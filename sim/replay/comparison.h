// comparison.h - values of a program B, in their order, against those of a program A that is right:
// where the first is wrong, and which follow from it.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "sim/replay/micro_batches.h"
#include "sim/replay/played_graph.h"
#include "sim/replay/recording_blame.h"
#include "sim/replay/writers.h"

namespace shardlab {

constexpr double kTermRoundings = 64;
constexpr double kTermRoundingsOfHalves = 4;  // kernels add up in f32
constexpr double kNoMeaning = 0.25;           // beyond, nothing can be said

bool same_cause(const Explained& a, const Explained& b);
/// Equal terms that a collective has made are no terms.
void as_share(Explained& all);

/// Facts about a value of B.
struct Followed {
  double off = 0;
  std::int32_t wrong = -1;   // by number among all, the value itself or one that it is made from
  bool taken = false;        // by an op, or by backward
  bool own = false;          // made from numbers of each rank's own, and not yet reduced
  bool added = false;        // made from terms that a collective has added up
  bool of_rows = false;      // made of the rows of a micro-batch, and no gradient
  bool of_gradient = false;  // made from one, and has its rounding
  bool flows_back = false;   // made from the gradient of a loss
  // Terms, or a multiple: right where a later call makes the whole of it.
  std::shared_ptr<const BlamedValue> suspect;
  std::string like;  // the key of A's value that it is, but for collectives
  std::vector<std::string> through;
};

/// A value has what the one that it is made of has.
void inherit(Followed& all, const Followed& one);

/// Used by one thread.
class RecordingComparison {
 public:
  /// All outlive it.
  RecordingComparison(const PointsOfA& a, const std::vector<RankGroups>& groups,
                      double gradient_noise)
      : a_(a), groups_(groups), gradient_noise_(gradient_noise), micro_batches_(a) {}

  /// Before the first event of B.
  void begin(const RecordedProgram& program);

  /// The results of an event inherit from its operands.
  void flow(const RecordedProgram& program, std::size_t event);
  /// A collective on plain tensors may leave terms, or add too many.
  void judge_collective(const RecordedProgram& program, std::size_t event,
                        const EventValues& values);
  void name_writer(const RecordedProgram& program, ComparedPoint& point);
  /// `terms`: the mean magnitude of what an element of it was added up from.
  void judge(ComparedPoint point, double terms);
  /// Results of modules and calls that are right if a later call makes the whole of them.
  const std::vector<std::shared_ptr<const BlamedValue>>& suspects() const { return suspects_; }
  RecordingBlame end();

 private:
  // A value that was found wrong.
  struct Link {
    std::int32_t source = -1;  // the first wrong one that it is computed from, as Followed::wrong
    std::int32_t value = -1;
    bool between = false;  // of a call, or a gradient on its way
    bool added = false;    // as Followed::added, or unchanged
  };

  // A value that is to be told of.
  struct Told {
    std::string elements = {};  // how they differ
    std::string replicas = {};  // of ranks that have one value and of those that have another
    bool is_scalar = false;
    bool right_on_some = false;  // of a parameter after the step: not on all ranks
    bool same_on_all = false;    // ranks: no terms
    bool unchanged = false;      // by the step
  };

  // A gradient that was terms when backward had made it.
  struct GradientTerms {
    std::shared_ptr<const BlamedValue> suspect;
    std::int32_t number;  // of the gradient itself
  };
  // Terms after the step, wrong if it took them; or a multiple that is not known after the step.
  struct KeptGradient {
    ComparedPoint point;
    Explained cause;
    Followed from;
  };

  Followed made_from(ComparedPoint& point);
  void follow_message(const RecordedProgram& program, const RecordedEvent& event, Followed& all);
  Explained explained(const ComparedPoint& point, const PointPart& a, const Followed& from,
                      double terms);
  bool may_turn(const ComparedPoint& point, const PointPart& a, double allowed) const;
  void tell_step(const ComparedPoint& point, const PointPart& a, Told& told) const;
  Explained explained_by_rank(const ComparedPoint& point, const std::vector<PointPart>& a,
                              bool alike, const Followed& from, double terms);
  void tell(const ComparedPoint& point, const std::vector<PointPart>& a, bool alike,
            Told& told) const;
  void see_step(const ComparedPoint& point, const Explained& all, const Told& told,
                const Followed& from);
  void see_factor(const ComparedPoint& point, const Explained& all, const Told& told);
  bool may_become_right(const ComparedPoint& point, const Explained& all) const;
  void keep(const ComparedPoint& point, const Explained& all, const Followed& from,
            const BlamedValue& value);
  bool says_nothing(const ComparedPoint& point, const Explained& all, const Followed& from) const;
  bool is_right(const ComparedPoint& point, const Explained& all, Followed& now);
  BlamedValue blamed(const ComparedPoint& point, const Explained& all, const Told& told,
                     const Followed& from) const;
  void settle(ComparedPoint point, Explained all, const Told& told, const Followed& from);
  std::int64_t drop_harmless();
  void of_gradient(const ComparedPoint& point, const std::shared_ptr<const BlamedValue>& before,
                   bool same_on_all, BlamedValue& value);

  const PointsOfA& a_;
  const std::vector<RankGroups>& groups_;
  double gradient_noise_;
  std::map<std::int32_t, Followed> known_;
  std::map<std::string, GradientTerms> gradients_;           // by name
  std::set<std::string> wrong_gradients_, right_gradients_;  // the latter as backward leaves them
  std::set<std::string> right_ends_;                         // names
  std::map<std::string, ComparedPoint> begins_;              // by name: before the step
  std::set<std::int32_t> stepped_;                           // ranks that have changed a parameter
  std::set<std::int32_t> buffers_;                           // numbers: they outlast the step
  std::set<std::size_t> own_numbers_;                        // events: another on each rank
  std::optional<double> first_factor_;  // of the first gradient that is no number, in A's
  std::vector<KeptGradient> kept_terms_;
  std::map<std::string, KeptGradient> kept_multiples_;  // by name
  std::map<std::string, Explained> whole_steps_;  // parameters without terms, by their gradients
  bool begun_ = false, ended_ = false;
  std::vector<BlamedValue> wrong_;
  std::vector<Link> links_;                                   // of each wrong one
  std::vector<std::shared_ptr<const BlamedValue>> suspects_;  // results of modules and calls
  std::vector<std::pair<BlamedValue, Link>> parameters_;      // after the step
  std::vector<BlamedValue> terms_;                            // gradients
  std::set<std::int32_t> reduced_;                            // numbers
  bool same_names_ = false, plain_ = false;                   // plain: a program without modules
  // Ends: losses, gradients, parameters after the step. Without backward the last result is a loss.
  std::set<std::int32_t> losses_;
  MicroBatches micro_batches_;
  bool ends_agree_ = true, backward_ = false, wrong_loss_ = false, right_loss_ = false;
  std::int64_t ends_ = 0, compared_ = 0;
  DType coarsest_ = DType::kF64;
  double drift_ = 0;
  std::map<MessageRoute, std::deque<Followed>> messages_;  // on their way
  std::map<std::int32_t, std::size_t> made_;  // by value: the event, of a line of the program
  Writers writers_;                           // of gradients, since backward
};

}  // namespace shardlab
