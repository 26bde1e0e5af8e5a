// expansion.h - from rule rows for ONE mesh dim to candidates for the whole mesh, and the choice
// among them (propagate README, "Expanding a single-dim rule list", "Choosing"). Candidates are
// combinations of rows, one per mesh dim; they are counted and priced without building specs: the
// placements that a combination gives one tensor depend on that tensor's placements alone, so they
// are judged and priced once per tensor and list of placements.
#pragma once

#include <span>
#include <vector>

#include "plan/cost.h"
#include "propagate/cutting.h"
#include "schema/meta_args.h"
#include "schema/sharding_rule.h"

namespace shardlab {

struct OpRow;

/// One decision to make: a call, or one list element of a foreach call.
struct Element {
  const OpSchema& schema;                   ///< lists of independent elements replaced by one
  OutputMetas outputs;                      ///< empty when the op has none
  std::vector<const DTensorSpec*> tensors;  ///< positional, keyword, then out= tensors
  std::size_t positional = 0;               ///< number of positional ones
  std::size_t outs = 0;                     ///< number of out= tensors
};

/// The meaning of strided shards in candidates, and in the results of a call: the pieces that a
/// view left, unless some strided input means an order (as the reference: unless the first does).
StridedShards strided_of_candidates(const Element& element);
StridedShards strided_of_results(const Element& element);

/// The reason why a combination is dropped; the first one that holds.
enum class Drop : std::uint8_t {
  kKept,
  kMixedPartials,
  kInplace,
  kOut,
  kKeyword,
  kTooShort,
  kFilter,
};

/// The kinds of sharding that occur among inputs: 0 plain, else the factor of strided shards.
using ShardKinds = InlineVector<std::int64_t, 4>;

/// Row indices, one per mesh dim.
using Combination = InlineVector<std::uint16_t, 4>;

/// The rule of K-26 that decided.
enum class ChoiceRule : std::uint8_t { kOnly, kUnchanged, kFree, kCheapest };
std::string_view to_string(ChoiceRule rule);

/// The candidate that was picked, or the reason why there is none.
struct Choice {
  Combination rows;
  double cost = 0;
  int index = -1;  ///< in list order; -1: no candidate is left
  int count = 0;   ///< candidates
  ChoiceRule rule = ChoiceRule::kOnly;
  bool blocked_inplace = false;  ///< some combination was dropped because its target would move
};

/// The candidates of one call and the choice among them. Made for one decision and dropped; holds
/// references to the element and the options. For one thread.
class Expansion {
 public:
  /// Makes the rows of the call's rule; nothing is counted or priced yet. Both arguments outlive
  /// it.
  Expansion(const Element& element, const PlanOptions& options);

  /// Picks a candidate; list elements choose by cost alone.
  enum class Selection : std::uint8_t { kFull, kCheapestOnly };
  Choice choose(Selection selection);

  /// Calls visit(combination, drop) for every combination in list order: for explanations, since it
  /// walks the whole product.
  template <typename Visit>
  void for_each(const Visit& visit) const;

  /// Placements of tensor `index` (as in Element) under a combination.
  Placements input_placements(const Combination& rows, std::size_t index) const;
  Placements output_placements(const Combination& rows, std::size_t index) const;
  /// The spec that a tensor is wanted with; its own when nothing moves.
  const DTensorSpec* input_spec(const Combination& rows, std::size_t index) const;
  /// Null when the rows leave the output without a spec, or there is none.
  const DTensorSpec* output_spec(const Combination& rows, std::size_t index) const;
  /// The reason why a kept combination is a candidate that is never chosen, or null.
  const char* withheld(const Combination& rows) const;
  /// False when the rows leave this output without a spec.
  bool output_present(const Combination& rows, std::size_t index) const;
  std::size_t output_count() const { return output_count_; }
  /// Price in microseconds of moving one tensor to the combination's placements.
  double input_cost(const Combination& rows, std::size_t index);
  const std::vector<RuleRow>& rows() const { return rows_; }

 private:
  static constexpr std::size_t kNoCode = static_cast<std::size_t>(-1);
  enum class Verdict : std::uint8_t { kOpen, kKept, kInplace, kDropped };

  /// The possible placements of one tensor, over all combinations. A list of placements, one kind
  /// per mesh dim, has a code, and so has each front of it: the code of the empty list is 0, and
  /// the successors of a front are numbered as the children of a node are in a heap.
  struct Column {
    const DTensorSpec* given = nullptr;     ///< inputs
    const DTensorSpec* required = nullptr;  ///< placements it must have: in-place, out=, keywords
    Drop unless_required = Drop::kKept;
    // Most calls are on one mesh dim or two, where these need no memory of their own.
    InlineVector<Placement, 8> kinds;  ///< distinct placements on one mesh dim
    InlineVector<std::uint16_t, 16> kind_of_row;
    InlineVector<Verdict, 64> verdicts;  ///< by code
    InlineVector<double, 16> costs;      ///< by code of a whole list; NaN = not priced yet
    std::vector<double> bounds;          ///< MoveCosts::at_least, likewise
    std::optional<MoveCosts> moves;      ///< from `given`
    std::size_t given_code = kNoCode;    ///< of the placements it has now
    std::size_t code_behind(std::size_t front, std::size_t kind) const {
      return front * kinds.size() + kind + 1;
    }
    // Rows, kinds and codes are numbered here, so that their indices need no check.
    std::size_t kind_of(std::uint16_t row) const { return kind_of_row.data()[row]; }
    const Placement& of(std::uint16_t row) const { return kinds.data()[kind_of(row)]; }
  };

  /// The row, once for each kind of shard where it leaves that open.
  void add_row(RuleRow row, const ShardKinds& kinds);
  void make_columns();
  void fill_column(Column& column, std::span<const RulePlacement> cells) const;
  Placements placements_of(const Column& column, std::span<const std::uint16_t> rows) const;
  /// Judges the last of the placements that a front gives a tensor; those before it are kept.
  Drop judge(const Column& column, std::span<const std::uint16_t> front) const;
  bool too_short(const Column& column, std::span<const std::uint16_t> front) const;
  Drop drop_of(const Combination& rows) const;
  bool passes_filter(const Combination& rows) const;

  /// Calls visit(combination) for the kept ones in list order until it returns false. Combinations
  /// that a front rules out are not walked.
  template <typename Visit>
  bool walk(Combination& rows, const Visit& visit);
  /// Whether the front `rows` may still become a candidate; updates the codes of its length.
  bool front_kept(const Combination& rows);
  std::size_t* codes_at(std::size_t length) { return codes_.data() + length * columns_.size(); }
  /// The cost of the whole combination at which walk() is.
  double input_cost_here(const Combination& rows, std::size_t index);
  /// Lowest cost of its inputs, of which the first ones are priced.
  double bound_here(const Combination& rows, std::size_t priced);
  /// The same of a row on one mesh dim, by mesh dim and row. They add up to less than bound_here.
  std::vector<double> row_bounds();
  MoveCosts& moves(std::size_t index);
  /// Whether a price needs a search for a plan.
  bool plans_moves() const;
  bool unchanged_here();
  double total_cost(const Combination& rows);
  /// Calls visit(combination, index) for the candidates that may be chosen until it returns false.
  template <typename Visit>
  void each_choosable(const Visit& visit);
  /// The first candidate of least cost.
  Choice cheapest();
  Choice cheapest_priced();
  Choice cheapest_planned();

  const Element& element_;
  const OpRow& row_;
  const PlanOptions& options_;
  const MeshLayout& layout_;
  CuttingSequence sequence_;
  StridedShards strided_;  ///< of candidates
  RuleContext context_;
  std::vector<RuleRow> rows_;
  std::vector<const char*> withheld_;  ///< per row
  std::vector<Column> columns_;        ///< outputs, then inputs
  std::size_t output_count_ = 0;
  std::vector<std::size_t> codes_;  ///< per length of the front and column, at the place of walk()
  bool blocked_inplace_ = false;
  bool any_withheld_ = false;
  bool all_kept_ = false;  ///< all fronts were judged, and no column refuses any
};

template <typename Visit>
void Expansion::for_each(const Visit& visit) const {
  Combination rows(layout_.ndim(), 0);
  for (;;) {
    visit(rows, drop_of(rows));
    std::size_t mesh_dim = rows.size();
    while (mesh_dim-- > 0) {
      if (++rows[mesh_dim] < rows_.size()) break;
      rows[mesh_dim] = 0;
    }
    if (mesh_dim == static_cast<std::size_t>(-1)) return;
  }
}

}  // namespace shardlab
